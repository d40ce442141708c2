"""The same few samples read repeatedly: their content at each read, and what reading changes.

Two independent processes read them in passes, the second one in reverse order. All generators are frozen: a sample that
changes depends on earlier reads, or on something other than a generator. `find_changes` compares the data of the
dataset before and after a read: arrays, images, numbers and lists, at any depth.
"""

from __future__ import annotations

import math
import mmap
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.core.model import NotApplicable
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import array_of, is_pillow, iter_leaves, keep, leaves_of
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.object_graph import Node, reachable
from dataguard.lab.core.records import Index
from dataguard.lab.core.source_location import Place, made_at
from dataguard.lab.culprit.line_trace import line_of_change, line_of_difference
from dataguard.lab.reading.open_files import overlap, ranges_at
from dataguard.lab.reading.sample_reader import Answer, Reader
from dataguard.lab.subject import Subject
from dataguard.settings.parsers import EVALUATION
from dataguard.targets.variants import Loader

FEWEST_SAMPLES = 3
"""The fewest samples that are compared: two are read first in each run."""
PASS_STATES = (0, 1, 0, 0, 2, 0, 3, 0)
"""The generator states, pass by pass: most passes of one state are separated by one with other draws."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is read: so many `items` in so many `passes` of `PASS_STATES`, and in `backward` of them in reverse.

    If the first run shows no change, the first pass in reverse is enough.
    """

    items: int
    passes: int
    backward: int

    @property
    def again(self) -> int:
        """The reads of a run in the first order."""
        return 1 + self.items * self.passes

    @property
    def reads(self) -> int:
        """The reads of both runs if nothing changes."""
        return self.again + 1 + self.items


SETTLED_PASSES, FEW_SETTLED_PASSES = 4, 3
"""Passes after which what every state leaves the same is read no more, and of samples that take long: the run backward
is a third read in one state. Evaluation is read on if that is quick, as more states may change it."""
USUAL_AMOUNT, SMALL_AMOUNT = Amount(6, 8, 3), Amount(2, 4, 2)
"""What is read, and what of samples that take long; three reads with one state show what changes."""


def amount_for(subject: Subject) -> Amount:
    """How much is read of this loader."""
    return USUAL_AMOUNT if subject.reads_take_little(USUAL_AMOUNT.reads) else SMALL_AMOUNT


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A leaf of an earlier sample that changed, and a later sample that shares its memory."""

    leaf: str
    earlier: Index
    later: Index


@dataclass(frozen=True, slots=True)
class Run:
    """The results of each pass, item by item, always in the same order; and what the first pass overwrote."""

    passes: tuple[tuple[Answer, ...], ...]
    overwritten: tuple[Overwrite, ...] = ()

    @property
    def same_state(self) -> tuple[tuple[Answer, ...], ...]:
        """The passes with the generators in the first state."""
        return tuple(answers for draw, answers in zip(PASS_STATES, self.passes, strict=False) if draw == 0)


@dataclass(frozen=True, slots=True)
class Readings:
    """The two runs, forward and backward."""

    items: tuple[Index, ...]
    forward: Run
    backward: Run

    @property
    def are_equal(self) -> bool:
        """Whether each sample is the same in every read, whatever the states of the generators."""
        return len({*self.forward.passes, *self.backward.passes}) == 1

    @property
    def exercised(self) -> dict[str, int]:
        """How much was read."""
        passes = len(self.forward.passes) + len(self.backward.passes)
        return {"samples": len(self.items), "reads": passes * len(self.items)}


def read_repeatedly(subject: Subject, requested: Sequence[Index]) -> Readings:
    """Read some of the `requested` indices."""
    amount = amount_for(subject)
    _, last, items = chosen(requested, amount.items)
    forward = read_again(subject, requested, 0)
    first_pass = forward.passes[0]
    steady = first_pass if all(answers == first_pass for answers in forward.same_state) else None
    states = PASS_STATES[: amount.backward]
    backward = subject.observe(
        "readings backward", partial(run_passes, subject.build, last, items, states, backward=True, steady=steady)
    )
    return Readings(items, forward, backward)


def read_again(subject: Subject, requested: Sequence[Index], number: int) -> Run:
    """The run in the first order, repeated for each number."""
    amount, evaluates = amount_for(subject), subject.facts.role in EVALUATION
    first, _, items = chosen(requested, amount.items)
    settled = FEW_SETTLED_PASSES if amount is SMALL_AMOUNT else amount.passes if evaluates else SETTLED_PASSES
    return subject.observe(
        ("readings", number),
        partial(run_passes, subject.build, first, items, PASS_STATES[: amount.passes], settled=settled),
    )


def chosen(requested: Sequence[Index], count: int) -> tuple[Index, Index, tuple[Index, ...]]:
    """Two indices, read first in each run to trigger lazy initialization, and those that are compared."""
    indices = list(dict.fromkeys(index for index in requested if index is not None))
    if len(indices) < FEWEST_SAMPLES:
        raise NotApplicable(f"{len(indices) or 'no'} samples can be read by index, too few to compare")
    picked = evenly(indices, count + 2)
    return picked[0], picked[-1], tuple(picked[1:-1] if len(picked) > min(FEWEST_SAMPLES, count) + 1 else picked)


def run_passes(
    build: Callable[..., Loader],
    first: Index,
    items: Sequence[Index],
    draws: Sequence[int],
    folder: Path,
    *,
    backward: bool = False,
    steady: tuple[Answer, ...] | None = None,
    settled: int = len(PASS_STATES),
) -> Run:
    """Read the items once for each state in `draws`; if `backward`, from the last one to the first.

    A first pass with the `steady` results of another run is the only one; so many passes are enough if they are
    `settled`, each state giving the same.
    """
    reader = Reader(build(), folder)
    reader.read(first)
    order = list(reversed(items)) if backward else list(items)
    kept: list[tuple[Index, Any]] = []
    passes = []
    for number, draw in enumerate(draws):
        answers = {}
        for index in order:
            sample = reader.read(index, draw)
            answers[index] = Answer(index, leaves_of(sample))
            if number == 0:
                keep((index, sample), kept, 2, len(items))  # to see whether a later one overwrites an earlier one
            del sample  # the next one may take as much memory
        if number == 0:
            overwritten = tuple(_overwritten(kept, answers))
            kept.clear()
        passes.append(tuple(answers[index] for index in items))
        run = Run(tuple(passes), overwritten)
        if passes[0] == steady and not overwritten:
            break
        if len(passes) == settled and len(set(run.same_state)) == 1:
            break
    return run


def rounding_of(loader: Loader, folder: Path, first: Index, index: Index, path: str) -> float:
    """How far the values of a leaf move from read to read, relative to the largest one; infinite if its shape does."""
    reader = Reader(loader, folder)
    reader.read(first)
    reads = [_values_at(reader.read(index, draw), path) for draw in PASS_STATES if draw == 0]
    if any(values.shape != reads[0].shape or values.dtype.kind != "f" for values in reads):
        return math.inf
    scale = max(float(np.abs(reads[0]).max(initial=0.0)), 1e-30)
    return max(float(np.abs(values - reads[0]).max(initial=0.0)) for values in reads) / scale


def _values_at(sample: Any, path: str) -> np.ndarray:
    """A copy of the values of a leaf, which a later read may modify."""
    leaf = next((leaf for step, leaf in iter_leaves(sample) if step == path), None)
    values = array_of(leaf) if isinstance(leaf, torch.Tensor | np.ndarray) else np.empty(0, object)
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def _overwritten(kept: Sequence[tuple[Index, Any]], answers: Mapping[Index, Answer]) -> list[Overwrite]:
    overwrites = []
    for number, (index, sample) in enumerate(kept):
        now, before = Answer(index, leaves_of(sample)).digests, answers[index].digests
        changed = [path for path in before if now.get(path) != before[path]]
        for path in changed:
            places = ranges_at(sample, path)
            later = next(
                (other for other, later_sample in kept[number + 1 :] if overlap(places, ranges_at(later_sample, path))),
                None,
            )
            if later is not None:
                overwrites.append(Overwrite(path, index, later))
    return overwrites


def find_overwriting_line(
    loader: Loader, folder: Path, first: Index, items: Sequence[Index], overwrite: Overwrite
) -> Place | None:
    """The line that writes into the memory of an earlier sample, while the samples after it are read."""
    reader = Reader(loader, folder)
    reader.read(first)
    earlier, *others = items[items.index(overwrite.earlier) : items.index(overwrite.later) + 1]
    sample = reader.read(earlier)

    def state() -> Hashable:
        return Answer(earlier, leaves_of(sample)).digests.get(overwrite.leaf)

    return line_of_change(lambda: [reader.read(index) for index in others], state)


def find_shifting_line(loader: Loader, folder: Path, first: Index, index: Index) -> Place | None:
    """The line after which a value of a sample differs between two reads under one random state."""
    reader = Reader(loader, folder)
    reader.read(first)
    reader.read(index)  # which may fill a cache
    return line_of_difference(partial(reader.read, index), {"dataset": loader.dataset})


COMPARED_ENTRIES = 64
"""Entries of a container that are compared, in addition to those of the sample itself."""
MOST_LIST_ENTRIES = 4096
"""A longer list does not belong to one sample."""
FEWEST_ENTRIES = 4
"""The fewest numbers of a row that is recognized as a part of a list."""
MOST_BYTES = 1 << 25
"""Of a larger array only the sample's own rows are compared."""
LATER_STATES = (1, 0, 2)
"""The generator states of the reads after the first."""
LINE_STATES = (3, 4, 5, 6)
"""Those in which the line that writes is looked for: what was erased once is the same if it is erased again."""
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, torch.Generator)


@dataclass(frozen=True, slots=True)
class Change:
    """A value that reading one sample changed, the line that writes to it, and whether it has one row per sample.

    So has a series of which samples are windows.

    Where no line of the user's code does, `at` is where the dataset is defined.

    `shared`: processes share its memory, so that what a worker changes outlives the worker.
    """

    path: str
    at: tuple[str, int] | None
    rows: bool
    shared: bool = False


def find_changes(loader: Loader, folder: Path, first: Index, index: Index) -> tuple[Change, ...]:
    """What reading a sample again changes, at any of its reads; the first one may fill a cache."""
    reader = Reader(loader, folder, LINE_STATES[-1] + 1)
    reader.read(first)
    sample = reader.read(index)
    lengths = _lengths(sample)
    before = {path: leaves_of(value) for path, value in _contents(loader.dataset, index)}
    listed = _lists(loader.dataset, index)
    changed: dict[str, bool] = {}
    shared: set[str] = set()
    for draw in LATER_STATES:
        later = reader.read(index, draw)
        after = dict(_contents(loader.dataset, index))
        other = [path for path, leaves in before.items() if path in after and leaves_of(after[path]) != leaves]
        changed |= {path: _rows(after[path]) == length_of(loader.dataset) for path in other}
        shared |= {path for path in other if any(_is_shared(leaf) for _, leaf in iter_leaves(after[path]))}
        now = _lists(loader.dataset, index)
        made = [path for path, entries in listed.items() if _is_made_of(sample, entries, later, now.get(path))]
        changed |= dict.fromkeys(made, False)
    for path in [path for path, rows in changed.items() if not rows]:
        changed[path] = _changes_a_window(reader, index, path, lengths)
    at = _written_at(reader, index, changed) or made_at(loader.dataset)
    return tuple(Change(path, at, rows, path in shared) for path, rows in changed.items())


def find_first_changes(loader: Loader, folder: Path, first: Index, index: Index) -> tuple[Change, ...]:
    """What the first read of a sample changes in arrays with one row per sample: its own row, which held values.

    A row of a cache that fills is constant before.
    """
    reader = Reader(loader, folder)
    if index != first:
        reader.read(first)
    count = length_of(loader.dataset)
    arrays = {path: _array_at(loader.dataset, index, path) for path, _ in _contents(loader.dataset, index)}
    held = {
        path: rows[index]
        for path, rows in arrays.items()
        if rows is not None and rows.ndim and len(rows) == count and isinstance(index, int) and _varies(rows[index])
    }

    def state() -> tuple[bytes, ...]:
        return tuple(row.tobytes() for row in held.values())

    before = dict(zip(held, state(), strict=True))
    place = line_of_change(partial(reader.read, index), state)
    at = place[:2] if place else made_at(loader.dataset)
    return tuple(
        Change(path, at, rows=True, shared=_is_shared(arrays[path]))
        for path, row in held.items()
        if row.tobytes() != before[path]
    )


def _varies(row: Any) -> bool:
    return isinstance(row, np.ndarray) and row.dtype.kind in "iuf" and row.size > 1 and bool((row != row.flat[0]).any())


def _changes_a_window(reader: Reader, index: Index, path: str, lengths: Counter[int]) -> bool:
    """Whether each read of a sample changes the same neighbouring rows of an array, as many as the sample is long.

    A window of a series is such rows. A memory of earlier reads changes others at each read, or all of them.
    """
    windows, length = set(), 0
    for draw in LATER_STATES:
        before = _array_at(reader.dataset, index, path)
        before = before if before is None else before.copy()
        reader.read(index, draw)
        after = _array_at(reader.dataset, index, path)
        if before is None or after is None or before.shape != after.shape or before.ndim == 0:
            return False
        differs: np.ndarray = (before != after) & ~((before != before) & (after != after))  # NaN is no change
        rows = np.flatnonzero(differs.reshape(len(differs), -1).any(1))
        windows.add((int(rows[0]), int(rows[-1]) + 1, len(rows)) if len(rows) else (0, 0, 0))
        if len(windows) > 1:
            return False
        length = len(after)
    ((start, stop, changed),) = windows
    return 1 < changed == stop - start < length and changed in lengths


def _array_at(dataset: Any, index: Index, path: str) -> np.ndarray | None:
    value = dict(_contents(dataset, index)).get(path)
    return array_of(value) if isinstance(value, np.ndarray | torch.Tensor) else None


def _written_at(reader: Reader, index: Index, paths: Iterable[str]) -> tuple[str, int] | None:
    """The line that writes to one of these objects, in one more read in each random state."""

    def state() -> Hashable:
        held = dict(_contents(reader.dataset, index))
        listed = _lists(reader.dataset, index)
        return tuple(leaves_of(held[path]) if path in held else repr(listed.get(path)) for path in paths)

    places = (line_of_change(partial(reader.read, index, draw), state) for draw in LINE_STATES)
    return next((place[:2] for place in places if place is not None), None)


def _is_shared(leaf: Any) -> bool:
    """Whether other processes see what is written to an array: it is in a file or in shared memory."""
    while isinstance(leaf, np.ndarray) and not isinstance(leaf, np.memmap):
        leaf = leaf.base
    if isinstance(leaf, torch.Tensor):
        return leaf.device.type != "cpu" or leaf.is_shared()
    return isinstance(leaf, np.memmap | memoryview | mmap.mmap)


Plain = Counter[object]
"""The entries of a list, in any order."""


def _lists(dataset: Any, index: Index) -> dict[str, Plain]:
    """The lists of strings or numbers that belong to the sample, by path."""
    nodes = _reached({"dataset": dataset})
    entries = _reached(_entries_at_targets(nodes, {index, *_indices_looked_up(nodes, index)}))
    lists = (
        (node.path, node.value) for node in entries if type(node.value) is list and len(node.value) <= MOST_LIST_ENTRIES
    )
    return {path: Counter(value) for path, value in lists if all(type(entry) in (int, float, str) for entry in value)}


def _is_made_of(sample: Any, before: Plain, later: Any, after: Plain | None) -> bool:
    """Whether the entries of a list changed, of which a sample is made: it is as long, or is most of them.

    A list that only moves or shrinks is a queue of views, and does not count.
    """
    if after is None or after == before or after.total() < before.total():
        return False
    both = (sample, before), (later, after)
    return all(_lengths(one)[held.total()] > 0 for one, held in both) or all(_is_most_of(*pair) for pair in both)


def _is_most_of(sample: Any, entries: Plain) -> bool:
    """Whether a row of numbers in a sample is more than half of these entries."""
    rows = (array_of(leaf) for _, leaf in iter_leaves(sample) if isinstance(leaf, torch.Tensor | np.ndarray))
    long = (row for row in rows if row.ndim == 1 and row.size >= FEWEST_ENTRIES and 2 * row.size > entries.total())
    return any(Counter(row.tolist()) <= entries for row in long)


def _lengths(sample: Any) -> Counter[int]:
    """The lengths of a sample's leaves, along any axis, and the number of words of a string."""
    lengths: Counter[int] = Counter()
    for _, leaf in iter_leaves(sample):
        lengths.update(getattr(leaf, "shape", ()) or ())
        lengths.update([len(leaf.split())] if isinstance(leaf, str) else [])
        lengths.update([len(leaf)] if isinstance(leaf, list) else [])
    return lengths


def _rows(value: Any) -> int | None:
    return int(value.shape[0]) if getattr(value, "shape", ()) else None


def _contents(dataset: Any, index: Index) -> Iterator[tuple[str, Any]]:
    """All data in the dataset of some size or precision, by path; counters are left out."""
    nodes = _reached({"dataset": dataset})
    targets = {index, *_indices_looked_up(nodes, index)}
    for node in [*nodes, *_reached(_entries_at_targets(nodes, targets))]:
        for step, value in _values(node.value, targets):
            if isinstance(value, torch.Tensor | np.ndarray) and value.nbytes > MOST_BYTES:
                rows = [target for target in targets if isinstance(target, int) and 0 <= target < len(value)]
                yield from ((f"{node.path}{step}[{row}]", value[row]) for row in rows)
            elif _is_content(value):
                yield f"{node.path}{step}", value


def _entries_at_targets(nodes: Iterable[Node], targets: Collection[Index]) -> dict[str, Any]:
    """The entries of large containers at the targets, by path."""
    return {
        f"{node.path}[{key!r}]": entry
        for node in nodes
        for key, entry in _entries(node.value, targets)
        if not isinstance(entry, int | str | bytes | type(None))
    }


def _reached(roots: dict[str, Any]) -> list[Node]:
    """Every object that can be reached, except tensors."""
    return list(reachable(roots, lambda value: not isinstance(value, _GENERATORS), enter=True))


def _indices_looked_up(nodes: Iterable[Node], index: Index) -> Iterator[int]:
    """What tables of indices, such as a Subset's, hold at this index."""
    for node in nodes:
        if isinstance(index, int) and type(node.value) in (list, tuple, np.ndarray) and len(node.value) > index:
            entry = node.value[index]
            if isinstance(entry, int | np.integer) and not isinstance(entry, bool):
                yield int(entry)


def _entries(value: Any, targets: Iterable[Index]) -> list[tuple[Any, Any]]:
    """The entries of a container at the targets."""
    if type(value) is dict:
        return [(target, value[target]) for target in targets if target in value]
    if type(value) in (list, tuple):
        numbers = [target for target in targets if isinstance(target, int) and 0 <= target < len(value)]
        return [(number, value[number]) for number in numbers]
    return []


def _values(value: Any, targets: Iterable[Index]) -> Iterator[tuple[str, Any]]:
    """An object itself, and what it holds directly."""
    yield "", value
    if isinstance(value, dict | list | tuple):
        first = value.items() if isinstance(value, dict) else enumerate(value)
        yield from ((f"[{key!r}]", item) for key, item in (*islice(first, COMPARED_ENTRIES), *_entries(value, targets)))
    else:
        yield from ((f".{name}", item) for name, item in getattr(value, "__dict__", {}).items())


def _is_content(value: Any) -> bool:
    """Whether a value is data: an array, an image or a float."""
    if isinstance(value, torch.Tensor):
        return value.numel() > 1
    if isinstance(value, np.ndarray):
        return value.size > 1 and value.dtype != object
    return isinstance(value, float) or is_pillow(value)
