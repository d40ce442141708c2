"""The lines of the user's code that a finding about samplers, streams and splits points at: `lab.places`.

A part of the loader is shown where the factory constructs it; a selection of samples in the loop that makes it; a value
of a sample on the line after which it is what it is in the end. Each place is looked for once there is a finding.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler

from dataguard.core.incident import observed_or_none
from dataguard.core.model import Location
from dataguard.core.statements import Statement, statement_at
from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.object_graph import attributes_of, reachable
from dataguard.lab.core.records import Index, streamed
from dataguard.lab.core.source_location import Place, assigned_at
from dataguard.lab.culprit import source_flow
from dataguard.lab.culprit.construction import (
    Blamed,
    decided_outside,
    line_that_shares,
    parts_of,
    place_of_part,
    places_of_construction,
    selects,
    transforms,
)
from dataguard.lab.culprit.drawing_part import line_of_own_part, steps_that_draw
from dataguard.lab.culprit.line_trace import LineTrace, Look, caller_of, first_unlike, line_of_change, line_only_in
from dataguard.lab.culprit.value_trace import BatchHistory, Part, arrays_in, is_not_finite
from dataguard.lab.dataset.listing_order import listed
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.followed_batch import follow_sample
from dataguard.lab.reading.fresh_import import Places as ListedPlaces
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.rng_discovery import find_generators, with_shared
from dataguard.lab.splits.shared_transforms import find_shared, find_steady
from dataguard.lab.splits.split_overlap import are_splits
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

T = TypeVar("T")
Parts = Mapping[str, Any]
"""The parts of a loader by their paths."""
FindPlace = Callable[[Any], Place | None]
SAMPLERS = ("batch_sampler", "batch_sampler.sampler", "sampler")
"""The paths of what chooses the indices, that which torch iterates first."""
MOST_VALUES = 10_000_000
"""Values of an array that is searched for the row of a sample."""

FEWEST_DIFFERENT = 2
"""Values that they have at least: those of a day may be one."""
SUCCESSIVE = 32
"""Successive samples whose values are looked for in the columns of a table."""
SINGLE = 1e-6
"""The relative difference up to which numbers are equal in single precision."""
MOST_STARTS = 1_000
"""Places of a table that hold the first of these values."""


class CulpritPlaces:
    """Places in the user's code; each is found once, and None where the source or the factory does not show it."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def statement(self, at: Location) -> Statement | None:
        """The statement of the user's file at a place that is certain."""
        near = (at.what or "").startswith("near ")
        return statement_at(at.file, at.line) if at.file and at.line and not near else None

    @property
    def split(self) -> Location | None:
        """Where the samples of this split are chosen: its sampler, if that leaves some out, or else its dataset."""
        return self._made("split", _choosing, selects)

    def split_beside(self, other: Subject) -> Location | None:
        """The same, for a split that shares samples: where it is given a dataset that the other one has, too."""
        subject = self._subject
        if subject.quick_rebuild is None:
            return self.split

        def find(_: Path) -> Place | None:
            return line_that_shares(lambda: subject.rebuild_with(other, imports=True))

        found = subject.line_of(("split beside", other.facts.name), find)
        return Location(*found[:2], "dataset") if found else self.split

    @property
    def dataset(self) -> Location | None:
        """Where the dataset is constructed, or what it consists of is listed."""
        return self._made("dataset", lambda _: ["dataset"], selects)

    @property
    def sampler(self) -> Location | None:
        """Where the sampler is constructed; torch makes one where the loader is."""
        return self._made("sampler", _sampling, selects)

    @property
    def share(self) -> Location | None:
        """Where the samples of a rank are chosen: the sampler, unless it is one that torch makes, or the dataset."""
        return self._made("share", _sharing, selects)

    def setting(self, name: str) -> Location | None:
        """Where the loader is given this argument."""
        return self._made(("setting", name), lambda _: ["loader"], lambda given, _: given == name)

    def transform(self, path: str) -> Location | None:
        """Where the dataset with the transform at this path is constructed."""
        holder = path.rpartition(".")[0]
        at = self._made(("transform", path), lambda _: [holder], transforms)
        return at and Location(at.file, at.line, path)

    def part(self, path: str) -> Location | None:
        """Where the factory constructs what the loader holds at this path, such as one step of a transform."""
        again = self._subject.quick_rebuild

        def find(_: Path) -> tuple[str, int] | None:
            loader = self._subject.build()
            held = reachable({"dataset": loader.dataset, "collate_fn": loader.collate_fn}, callable, enter=True)
            kind = next((type(node.value) for node in held if node.path == path), None)
            return places_of_construction(again, {path: kind}).get(path) if kind else None

        place = self._subject.line_of(("part", path), find)
        return Location(*place, path) if place else None

    def call(self, path: str) -> Location | None:
        """The line that calls what the loader holds at this path while a sample is read."""

        def find(folder: Path) -> Place | None:
            reader = Reader(self._subject.build(), folder)
            held = reachable({"dataset": reader.dataset, "collate_fn": reader.loader.collate_fn}, callable, enter=True)
            called = next((node.value for node in held if node.path == path), None)
            read = partial(reader.read, self._subject.epoch.asked(1)[0])
            return caller_of(called, read) if called is not None else None

        place = self._subject.line_of(("call", path), find)
        return Location(*place) if place else None

    def selection(self, *, first: bool = False, ranks: int = 1) -> Location | None:
        """The loop or the selection by which a stream, or a sampler of the user's, takes its samples."""
        find = partial(source_flow.selection, first=first)
        return self._in_source(("selection", first, ranks), [find], self._order_of, ranks)

    @property
    def left_over(self) -> Location | None:
        """Where a stream may leave samples in a buffer at its end."""
        return self._in_source("left over", [source_flow.left_over], self._order_of)

    @property
    def dropped_rest(self) -> Location | None:
        """Where the user's batch sampler leaves out what fills no batch, if its source says so."""
        return self._in_source("dropped rest", [source_flow.dropped_rest], self._order_of)

    @property
    def endless_loop(self) -> Location | None:
        """The loop of a stream that never ends, if its source says so."""
        return self._in_source("endless loop", [source_flow.endless_loop], self._order_of)

    @property
    def used_up(self) -> Location | None:
        """Where a stream keeps an iterator, such as an open file, that the first epoch uses up; else its sampler."""

        def find(_: Path) -> Place | None:
            loader = self._subject.build(num_workers=0)
            with gate("sample"):
                next(iter(streamed(loader.dataset)), None)
            held = (
                (part, name)
                for path, part in parts_of(loader).items()
                if path.startswith("dataset")
                for name, value in attributes_of(part).items()
                if isinstance(value, Iterator)
            )
            return next((place for part, name in held if (place := assigned_at(part, name))), None)

        if self._subject.facts.kind != "stream":
            return self.sampler
        place = self._subject.line_of("used up", find)
        return Location(*place) if place else None

    @property
    def order(self) -> Location | None:
        """The loop of the sampler's own `__iter__`, or its `set_epoch`, if it has only that."""
        finds: list[FindPlace] = [source_flow.iteration, partial(source_flow.defined, name="set_epoch")]
        return self._in_source("order", finds, self._order_of)

    @property
    def yielded_batch(self) -> Location | None:
        """Where the sampler's own `__iter__` yields an object that it holds."""
        return self._in_source("yielded batch", [source_flow.yielded_name], self._order_of) or self.order

    def length(self, where: str | None = None) -> Location | None:
        """Where `__len__` returns: of the dataset at a path, or of what decides the number of batches."""
        find = partial(source_flow.returned, names=("__len__",))
        return self._in_source(("length", where), [find], lambda parts: self._sized(parts, where))

    @property
    def state(self) -> Location | None:
        """Where the state of the loader, or else of its sampler or dataset, is taken or restored."""
        find = partial(source_flow.returned, names=("state_dict", "load_state_dict"))
        return self._in_source("state", [find]) or self._subject.facts.made_at

    @property
    def limited_index(self) -> Location | None:
        """Where `__getitem__` takes its index modulo something, or keeps it inside the range."""
        return self._in_source("limited index", [source_flow.limited_index])

    def value(self, index: Index, path: str) -> Location | None:
        """The line after which a leaf of a sample is what it is in the end; near it, if only its function is known."""
        found = self._in_sample(("value", path), index, lambda history: history.line_in_sample(path))
        if found:
            return found
        at = self._in_source("sample", [partial(source_flow.returned, names=("__getitem__",))])
        return at and Location(at.file, at.line, f"near {at.what}")

    def column(self, index: Index, path: str, place: int, beside: str | None = None) -> Location | None:
        """The line of the factory after which a table has a column with what a leaf has in a place of its last axis.

        `beside`: and another column with what this leaf has there. None if it is changed later, as by a scaler.
        """
        again, build, length = self._subject.quick_rebuild, self._subject.build, self._subject.facts.length or 0
        if again is None or not isinstance(index, int) or not self._subject.reads_take_little(SUCCESSIVE):
            return None
        first = max(min(index, length - SUCCESSIVE), 0)
        indices = range(first, min(first + SUCCESSIVE, length))
        wanted = [(path, place), *([] if beside is None else [(beside, 0)])]
        return self._subject.line_of(
            ("column", index, *wanted), lambda folder: _line_of_columns(again, Reader(build(), folder), indices, wanted)
        )

    def copies(self, index: Index, path: str) -> Location | None:
        """The first line after which a variable holds a leaf of a sample twice."""
        return self._in_sample(("copies", path), index, lambda history: history.line_of_copies(path))

    def not_finite(self, index: Index, path: str) -> Location | None:
        """The first line after which a value from which a leaf of a sample may come is NaN or infinite."""
        return self._in_sample(("not finite", path), index, partial(_line_of_not_finite, path=path))

    def departure(self, index: Index, usual: Index) -> Location | None:
        """The first line that runs for a sample and not for a usual one: a branch, or where an error is caught."""

        def find(folder: Path) -> Place | None:
            reader = Reader(self._subject.build(), folder)
            reader.read(usual)  # triggers lazy initialization
            return line_only_in(lambda: reader.read(index), lambda: reader.read(usual))

        found = self._subject.line_of(("departure", index, usual), find)
        return Location(*found) if found else None

    def kept(self, index: Index, usual: Index) -> Location | None:
        """The first line that runs when a sample is read first, and not again: where a cache does not have it yet."""

        def find(folder: Path) -> Place | None:
            reader = Reader(self._subject.build(), folder)
            reader.read(usual)  # triggers lazy initialization
            return line_only_in(lambda: reader.read(index), lambda: reader.read(index))

        found = self._subject.line_of(("kept", index), find)
        return Location(*found) if found else None

    def random(self, index: Index, path: str) -> Location | None:
        """Where the part that makes a leaf random is made for this loader, or given to it; else the line that draws."""
        again = self._subject.quick_rebuild
        if again is not None:
            found = self._subject.line_of(
                ("random", index, path), lambda folder: self._random_part(folder, index, path)
            )
            if found:
                return found
        return self._subject.line_of(("drawn", index), lambda folder: self._line_of_draw(folder, index))

    def listing(self, *files: str) -> Location | None:
        """Where the factory lists one of these files, or else where the dataset is given them."""
        names = frozenset(Path(file).name for file in files)
        return self._subject.line_of(("listing", names), lambda _: self._listed(names)) or self.dataset

    def fitted(self, training: Subject) -> Location | None:
        """The line of the factory after which the values of a training sample exist."""
        index = training.epoch.indices[0]
        key = "fitted", training.facts.name, index
        again = self._subject.quick_rebuild
        return (
            self._subject.line_of(key, lambda folder: _line_of_fit(again, training, folder, index)) if again else None
        )

    def _sized(self, parts: Parts, where: str | None) -> Iterable[str]:
        return [where] if where else ["loader", *self._order_of(parts)]

    def _order_of(self, parts: Parts) -> Iterable[str]:
        """The paths of what decides which samples are read, in which order."""
        if self._subject.facts.kind == "stream":
            return [path for path in parts if path.startswith("dataset")]
        return SAMPLERS

    def _made(self, key: Hashable, chosen: Callable[[Parts], Iterable[str]], blamed: Blamed) -> Location | None:
        """Where the factory constructs the first of the chosen parts."""
        subject = self._subject
        again = subject.quick_rebuild
        found = self._subject.line_of(key, lambda _: place_of_part(subject.build, again, chosen, blamed))
        return found and Location(*found[1][:2], found[0])

    def _in_source(
        self,
        key: Hashable,
        finds: Iterable[FindPlace],
        chosen: Callable[[Parts], Iterable[str]] = lambda parts: parts,
        ranks: int = 1,
    ) -> Location | None:
        """What is found in the source of the first of the chosen parts, as rank 0 of so many has them."""

        def find(_: Path) -> Place | None:
            parts = parts_of(self._subject.build({"rank": 0, "world_size": ranks} if ranks > 1 else None))
            known = [parts[path] for path in chosen(parts) if path in parts]
            return next((place for find_in in finds for part in known if (place := find_in(part))), None)

        place = self._subject.line_of(key, find)
        return Location(*place) if place else None

    def _in_sample(self, key: Hashable, index: Index, find: Callable[[BatchHistory], Look | None]) -> Location | None:
        """The line that is found in the history of a sample, which is read once more."""

        def follow(loader: Loader, folder: Path, _: Sequence[Index]) -> BatchHistory:
            return follow_sample(loader, folder, index)

        line = observed_or_none(lambda: self._subject.line_in_batch(key, (index,), find, follow))
        return line.location if line else None

    def _random_part(self, folder: Path, index: Index, path: str) -> Location | None:
        """Where the part of a transform is made without which a leaf is not random."""
        subject = self._subject
        loader = subject.build()
        shared = find_shared((loader, loader))
        transform = next((one.path for one in shared if path in find_steady(loader, folder, one.path, [index])), None)
        if transform is None:
            return None
        loader = subject.build()
        reader = Reader(loader, folder)
        reader.read(index)  # triggers lazy initialization
        states = _states_of(loader)
        drawing = steps_that_draw(loader.dataset, transform, lambda: reader.read_as_is(index), states)
        steps = [transform.rpartition(".")[0], *drawing]
        others = (one for one in subject.siblings.values() if one is not subject and are_splits(one, subject))
        training = next((one for one in others if one.facts.role == "train"), None)

        def again() -> tuple[Loader, Loader | None]:
            return (subject.rebuild(), None) if training is None else subject.rebuild_with(training, imports=True)

        place = line_of_own_part(subject.build, again, steps)
        return place and Location(*place[:2], transform)

    def _line_of_draw(self, folder: Path, index: Index) -> Location | None:
        loader = self._subject.build()
        reader = Reader(loader, folder)
        reader.read(index)  # triggers lazy initialization
        drawn = line_of_change(lambda: reader.read_as_is(index), _states_of(loader))
        if drawn:
            return Location(*drawn)
        roots = {"dataset": loader.dataset}
        traces = LineTrace(_values, roots), LineTrace(_values, roots)
        for draw, trace in enumerate(traces):
            with trace.following():
                reader.read(index, draw)
        look = first_unlike(*(trace.looks for trace in traces))
        return look.location if look else None

    def _listed(self, names: frozenset[str]) -> Location | None:
        again = self._subject.quick_rebuild
        if again is None:
            return None
        places: ListedPlaces = {}
        with listed(places, backward=False, lists=names.__contains__):
            again()
        place = next((place for place in places if place), None)
        return Location(*place) if place else None


def _line_of_fit(again: Callable[[], Loader], training: Subject, folder: Path, index: Index) -> Location | None:
    """The line of the factory, called `again`, after which a table holds rows of this training sample."""
    rows = [
        array.reshape(-1, array.shape[-1])[0]
        for _, leaf in iter_leaves(Reader(training.build(), folder).read(index))
        if (array := array_of(leaf)).ndim and array.dtype.kind == "f" and array.shape[-1] > 1
    ]
    outside: list[Place | None] = []

    def holds(array: np.ndarray) -> bool | None:
        if array.ndim != 2 or array.dtype.kind != "f" or len(array) < 2 or array.size > MOST_VALUES or outside:
            return None
        if not any(_has_row(array, row) for row in rows):
            return None
        has_rows: Blamed = lambda name, value: selects(name, value) and len(value) >= len(array)  # noqa: E731
        outside.append(decided_outside(sys._getframe(), has_rows))
        return True

    trace = LineTrace(holds, {})
    with trace.following():
        again()
    if not trace.looks:
        return None
    return Location(*outside[0]) if outside[0] else trace.looks[0].location


def _line_of_columns(
    again: Callable[[], Loader], reader: Reader, indices: Sequence[int], wanted: Sequence[tuple[str, int]]
) -> Location | None:
    """The line of the factory, called `again`, after which a table has columns with these values in the same rows."""
    samples = [dict(iter_leaves(reader.read(index))) for index in indices]
    columns = [
        np.array([np.atleast_1d(array_of(leaves[path]))[..., place].ravel()[-1] for leaves in samples], np.float64)
        for path, place in wanted
    ]
    if len(set(columns[0].tolist())) < FEWEST_DIFFERENT:
        return None

    def holds(array: np.ndarray) -> bool | None:
        if array.ndim not in (1, 2) or array.dtype.kind not in "fiu" or array.size > MOST_VALUES:
            return None
        table = array.reshape(len(array), -1)
        if len(table) < len(indices) or table.shape[1] < len(columns):
            return None
        found = [set(_starts(table, values)) for values in columns]
        for row in {row for row, _ in found[0]}:
            here = [{column for start, column in each if start == row} for each in found]
            if all(here) and len(set().union(*here)) >= len(columns):
                return True
        return None

    trace = LineTrace(holds, {})
    with trace.following():
        again()
    return trace.looks[0].location if trace.looks else None


def _starts(table: np.ndarray, values: np.ndarray) -> Iterator[tuple[int, int]]:
    """The rows and columns from which on a table holds these values."""
    firsts = np.argwhere(np.isclose(table[: len(table) - len(values) + 1], values[0], SINGLE, 0))
    for row, column in firsts[:MOST_STARTS].tolist():
        if np.allclose(table[row : row + len(values), column], values, SINGLE, 0):
            yield row, column


def _has_row(table: np.ndarray, row: np.ndarray) -> bool:
    """Whether a table has such a row, perhaps with other columns beside."""
    if len(row) > table.shape[1]:
        return False
    if len(row) == table.shape[1]:
        return bool(np.isclose(table, row).all(1).any())
    return bool(np.all([np.isclose(table, value).any(1) for value in row], axis=0).any())


def _line_of_not_finite(history: BatchHistory, path: str) -> Look | None:
    """A line of the factory, if an array that it makes has such values already: the sample holds some of them."""
    leaf = array_of(dict(arrays_in(history.samples[0]))[path])

    def shows(part: Part) -> bool:
        return part.values.size >= leaf.size and is_not_finite(part)

    made = BatchHistory((), None, history.of_factory(), 0).first(lambda part: part.values.ndim > 0 and shows(part))
    return made or history.first(shows)


def _states_of(loader: Loader) -> Callable[[], Hashable]:
    """Gives the states of all generators that a dataset may draw from."""
    generators = find_generators(with_shared({"dataset": loader.dataset}))
    return lambda: tuple(one.state() for one in generators)


def _values(array: np.ndarray) -> Hashable:
    return array.shape, array.tobytes()


def _sampling(parts: Parts) -> Iterable[str]:
    """The sampler of indices or, if it is not torch's, of batches; and the loader, with which torch makes one.

    One that repeats the batches of torch's decides nothing.
    """
    batches, inner = parts.get("batch_sampler"), parts.get("batch_sampler.sampler")
    own = [] if batches is None or BatchSampler in (type(batches), type(inner)) else ["batch_sampler"]
    return [*own, "batch_sampler.sampler", "sampler", "loader"]


def _sharing(parts: Parts) -> Iterable[str]:
    """The sampler, or the dataset if torch has made the sampler."""
    sampler = parts.get("batch_sampler.sampler", parts.get("sampler"))
    return ["dataset"] if type(sampler) in (RandomSampler, SequentialSampler) else _sampling(parts)


def _choosing(parts: Parts) -> Iterable[str]:
    """The sampler, if it leaves samples out, and the dataset."""
    length = length_of(parts["dataset"])
    sampler = parts.get("batch_sampler.sampler", parts.get("sampler"))
    count = None if type(sampler) in (RandomSampler, SequentialSampler) else length_of(sampler)
    fewer = isinstance(sampler, SubsetRandomSampler) or (count is not None and length is not None and count < length)
    return ["batch_sampler.sampler", "sampler", "dataset"] if fewer else ["dataset"]
