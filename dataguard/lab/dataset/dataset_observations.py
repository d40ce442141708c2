"""The observations of a lab about a loader's dataset: what an index means, and whether that changes.

`DatasetObservations` makes each of them once. Also which attributes reading a few samples changes, and what the samples
of each of several concatenated datasets hold.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

from torch.utils.data import IterableDataset

from dataguard.core.incident import observed_or_none
from dataguard.core.model import Location, NotApplicable, Undecided
from dataguard.lab.batches.mixtures import DRAWING_READS, find_drawn_generators, find_masked_tokens
from dataguard.lab.core.index_schedules import evenly, flat
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.loader_facts import by_type, length_of, wrapped_by
from dataguard.lab.core.records import GeneratorState, Index, Numbers, blank_of, streamed
from dataguard.lab.core.source_location import Place, is_own, made_at, samples_at
from dataguard.lab.culprit.line_trace import line_of_change
from dataguard.lab.dataset import index_semantics, missing_file, repeated_reads, shared_names
from dataguard.lab.dataset.crossed_reads import CrossedReads, find_crossed
from dataguard.lab.dataset.index_semantics import Ends, IndexSemantics, find_ends, hints_of, probe_semantics
from dataguard.lab.dataset.listing_order import Listing, listed
from dataguard.lab.dataset.missing_file import (
    OccasionalFailure,
    SampleSources,
    Source,
    Substitute,
    find_occasional_failure,
    find_sample_sources,
    find_substituting_line,
    read_without,
)
from dataguard.lab.dataset.numberings import NUMBERED_READS, Numbering, find_numbered_leaves, find_numberings
from dataguard.lab.dataset.places import CulpritPlaces
from dataguard.lab.dataset.repeated_reads import Amount, Change, Overwrite, Readings, Run
from dataguard.lab.dataset.shared_names import SharedNames, find_shared_names
from dataguard.lab.decoding.file_substitution import OPEN_ATTEMPTS
from dataguard.lab.labels.declared_labels import ClassNames, Table, find_class_names, find_table, names_of
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.provenance.provenance import reads_anything
from dataguard.lab.provenance.reads_seen import ReadLog
from dataguard.lab.reading import fresh_import
from dataguard.lab.reading.fresh_import import Orders, Places, Rebuilt, own_sources, read_rebuilt
from dataguard.lab.reading.hash_order import ordered_sets, rewrite_beforehand
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.rng_discovery import SEED, seeded
from dataguard.lab.spy.recording import numbers_of
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader

PROBED_SAMPLES, FEW_PROBED_SAMPLES = 8, 4
"""Samples that are read in each order of files and of hashes, and how many of those that are slow."""
WIDE_SAMPLES, FEW_WIDE_SAMPLES = 1024, 64
"""Samples that are read to find those again which moved, and how many of those that are slow."""


class DatasetObservations:
    """Observations of the dataset itself, each in a separate process (map-style only)."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def ends(self) -> Ends:
        """What the dataset returns at and beyond the ends of its index range."""
        with contextlib.suppress(Undecided):
            self._subject.epoch  # noqa: B018 - a loader that hangs or dies in an ordinary epoch is not read again
        return find_ends(self._subject)

    @property
    def occasional_failure(self) -> OccasionalFailure | None:
        """How often reading a sample raises, if it did in an observation that was made so far."""
        return find_occasional_failure(self._subject)

    @property
    def readings(self) -> Readings:
        """A few samples read repeatedly, in two orders."""
        self._afford_reads("readings", self._amount.reads)
        return repeated_reads.read_repeatedly(self._subject, self._requested)

    def reread(self, number: int) -> Run:
        """The first of the two runs, repeated once for each number above 0."""
        self._afford_reads(("again", number), self._amount.again)
        return repeated_reads.read_again(self._subject, self._requested, number)

    @property
    def semantics(self) -> IndexSemantics:
        """What indices mean: periods inside the range, index -1, and indices of other types."""
        ends = self.ends
        if ends.first_failing is not None:
            raise NotApplicable("len(dataset) is too large: see DG301")
        reads = self._subject.affordable_reads(index_semantics.SEMANTICS_READS, index_semantics.FEW_SEMANTICS_READS)
        self._afford_reads("semantics", reads)
        few = reads < index_semantics.SEMANTICS_READS
        hints, build = hints_of(self._subject.epoch.samples), self._subject.build
        return self._subject.observe("semantics", lambda folder: probe_semantics(build(), folder, hints, ends, few=few))

    @property
    def content_repeats(self) -> bool:
        """Whether content was seen to repeat inside the range."""
        try:
            return any(period.where == "dataset" for period in self.semantics.repeats)
        except (NotApplicable, Undecided):
            return False

    def overwriting_line(self, overwrite: Overwrite) -> Location | None:
        """The line that writes into an earlier sample; else where the user's code makes samples."""
        first, _, items = repeated_reads.chosen(self._requested, self._amount.items)
        build = self._subject.build
        place = self._subject.line_of(
            overwrite,
            lambda folder: repeated_reads.find_overwriting_line(build(), folder, first, items, overwrite),
        )
        return Location(*place) if place else self.location

    def shifting_line(self, index: Index) -> Location | None:
        """The line after which a sample differs in the next read; else where the user's code makes samples."""
        first, _, _ = repeated_reads.chosen(self._requested, self._amount.items)
        build = self._subject.build
        place = self._subject.line_of(
            ("shifts", index), lambda folder: repeated_reads.find_shifting_line(build(), folder, first, index)
        )
        return Location(*place) if place else self.location

    def changed_content(self, index: Index) -> tuple[Change, ...]:
        """Which of its own content the dataset changes when a sample is read."""
        first, _, _ = repeated_reads.chosen(self._requested, self._amount.items)
        build = self._subject.build
        return self._subject.observe(
            ("changed content", index),
            lambda folder: repeated_reads.find_changes(build(), folder, first, index),
            lambda _, changes: changes or (),
        )

    def changed_at_first(self, index: Index) -> tuple[Change, ...]:
        """Which of its rows the dataset changes when a sample is read for the first time."""
        first, _, _ = repeated_reads.chosen(self._requested, self._amount.items)
        build = self._subject.build
        return self._subject.observe(
            ("changed at first", index),
            lambda folder: repeated_reads.find_first_changes(build(), folder, first, index),
        )

    def rounding(self, index: Index, path: str) -> float:
        """How far the values of a leaf move from read to read, relative to the largest one."""
        first, _, _ = repeated_reads.chosen(self._requested, self._amount.items)
        build = self._subject.build
        self._afford_reads(("rounding", index), 1 + len(repeated_reads.PASS_STATES))
        return self._subject.observe(
            ("rounding", index, path), lambda folder: repeated_reads.rounding_of(build(), folder, first, index, path)
        )

    def rebuilt(
        self,
        *,
        files_backward: bool = False,
        only: Listing | None = None,
        sets_backward: bool = False,
        again: bool = False,
        wide: bool = False,
    ) -> Rebuilt:
        """What some indices mean if folders are listed by name and sets of strings have one order, or the reverse.

        `only`: one listing. `wide`: more indices, and those as far from the end as the usual ones
        are from the start.
        """
        key = ("rebuilt", files_backward, only, sets_backward, again, wide)
        indices, listings, sets = self._mirrored if wide else self._probes, Places(), Places()
        calls: Counter[Place | None] = Counter()
        self._afford_reads(key, len(indices) if wide else fresh_import.FEWEST_SAMPLES)
        rewrite_beforehand(own_sources().values())
        orders = (
            listed(listings, backward=files_backward, only=only, calls=calls),
            ordered_sets(sets, backward=sets_backward),
        )
        backward = files_backward or sets_backward
        under = Orders(orders, (listings, sets), calls, reversed=backward)
        # Each loader is asked for the first, and only a suspicious one for others.
        others = () if backward or only or again or wide else self._subject.made_with
        asked = {self._subject.facts.name: indices}
        asked |= {other.facts.name: DatasetObservations(other)._probes for other in others}
        rebuild = self._subject.rebuild_each
        return self._subject.observe_each(
            key, asked, lambda wanted, folder: read_rebuilt(partial(rebuild, wanted), folder, wanted, under, ReadLog())
        )

    @property
    def may_load(self) -> bool:
        """Whether the factory reads a table or another file, or that is unknown."""
        seen = observed_or_none(self.rebuilt)
        return seen is None or seen.loads

    @property
    def sample_sources(self) -> SampleSources:
        """A sample, and what no other sample is read from."""
        if not reads_anything(self._subject):
            raise NotApplicable("samples have no files of their own")
        self._afford_reads("sample sources", missing_file.SOURCE_READS)
        first, index, other = self._first_middle_last
        build = self._subject.build
        return self._subject.observe(
            "sample sources", lambda folder: find_sample_sources(build(), folder, first, index, other)
        )

    @property
    def substitutes(self) -> tuple[Substitute, ...]:
        """What the dataset returns if its file is missing, and if that or another source cannot be decoded."""
        substitutes = []
        sources = self.sample_sources.sources
        self._afford_reads("substitutes", missing_file.LOSS_READS)
        for source in sources:
            if source.is_file and source.first:
                substitutes.append(self._without(source, None))
            first, second = (self._without(source, content) for content in missing_file.GARBAGE_CONTENTS)
            substitutes += [first] if first.answer.digests == second.answer.digests else []
        return tuple(substitutes)

    def _without(self, source: Source, content: bytes | None) -> Substitute:
        build = self._subject.build
        first, index, _ = self._first_middle_last

        for attempt in range(OPEN_ATTEMPTS):
            substitute: Substitute = self._subject.observe(
                ("without", source.name, content, attempt),
                lambda folder: read_without(build(), folder, first, index, source, content),
                exclusive=attempt > 0,  # another observation may have opened it
            )
            if not substitute.opened:
                break
        return substitute

    def substituting_line(self, number: int) -> Location | None:
        """The line that returns one of the substitutes, or catches the error; else where samples are made."""
        substitute, build = self.substitutes[number], self._subject.build
        source, content = substitute.source, substitute.content
        first, index, _ = self._first_middle_last
        place = self._subject.line_of(
            ("substitutes", source.name, content),
            lambda folder: find_substituting_line(build(), folder, first, index, source, content),
        )
        return Location(*place) if place else self.location

    @property
    def _first_middle_last(self) -> tuple[Index, Index, Index]:
        probes = self._probes
        if len(probes) < 3:
            raise NotApplicable("too few samples can be read by index")
        return probes[0], probes[len(probes) // 2], probes[-1]

    @property
    def _probes(self) -> tuple[Index, ...]:
        """A few of the indices that the loader requested."""
        return self._subject.epoch.asked(self._subject.affordable_reads(PROBED_SAMPLES, FEW_PROBED_SAMPLES))

    @property
    def _mirrored(self) -> tuple[Index, ...]:
        """The same from the end, and more indices all over a dataset of known length."""
        length = self._subject.facts.length or 0
        mirrored = [length - 1 - index for index in self._probes if isinstance(index, int)]
        return tuple(
            dict.fromkeys(
                [*mirrored, *evenly(range(length), self._subject.affordable_reads(WIDE_SAMPLES, FEW_WIDE_SAMPLES))]
            )
        )

    @property
    def changed_attributes(self) -> tuple[Location, ...]:
        """The attributes of the dataset that reading a few samples changes."""
        return find_changed(self._subject)

    def drawn_generators(self, items: Sequence[Index]) -> tuple[GeneratorState, ...]:
        """The generators that reading these samples draws from."""
        build = self._subject.build
        self._afford_reads(("drawn generators", *items), DRAWING_READS)
        indices = (list(items) * DRAWING_READS)[:DRAWING_READS]
        return self._subject.observe(
            ("drawn generators", *items), lambda folder: find_drawn_generators(build(), folder, indices)
        )

    def masked_tokens(self, items: Sequence[Index]) -> tuple[frozenset[str], ...]:
        """For each sample, the leaves that differ between two random states only in which tokens are masked."""
        build = self._subject.build
        self._afford_reads(("masked tokens", *items), 2 * len(items))
        return self._subject.observe(
            ("masked tokens", *items), lambda folder: find_masked_tokens(build(), folder, items)
        )

    def crossed_with(self, other: Subject) -> CrossedReads:
        """Which samples are those of another loader of the target, after that was read."""
        return find_crossed(self._subject, other)

    @property
    def shared_names(self) -> SharedNames:
        """Whether samples of different files with one name are equal."""
        self._afford_reads("shared names", 2 * shared_names.PAIRS)
        build = self._subject.build
        return self._subject.observe("shared names", lambda folder: find_shared_names(build(num_workers=0), folder))

    @property
    def class_names(self) -> tuple[ClassNames, ...]:
        """The class names and counts of the dataset and those that it wraps; the outermost first."""
        build = self._subject.build
        return self._subject.observe(
            "class_names", lambda _: find_class_names(build), lambda _, class_names: class_names or ()
        )

    @property
    def numberings(self) -> tuple[Numbering, ...]:
        """The tables by which the dataset and collate_fn number names."""
        build = self._subject.build
        return self._subject.observe("numberings", lambda _: find_numberings(build(num_workers=0)))

    def numbered_leaves(self, where: str) -> tuple[str, ...]:
        """The leaves of batches whose integers come from one of these tables."""
        self._afford_reads(("numbered leaves", where), 2 * NUMBERED_READS)
        indices, build = self._subject.epoch.asked(NUMBERED_READS), self._subject.build
        return self._subject.observe(
            ("numbered leaves", where),
            lambda folder: find_numbered_leaves(Reader(build(num_workers=0), folder), where, indices),
        )

    @property
    def concatenated_parts(self) -> tuple[Part, ...]:
        """The concatenated datasets, if their class names differ, with the labels of some of their samples."""
        build = self._subject.build
        if not self._subject.observe("part names", lambda _: names_differ(build().dataset)):
            return ()
        self._afford_reads("parts", PART_READS)
        return self._subject.observe("parts", lambda folder: find_parts(build(), folder))

    def numbers(self, index: Index) -> tuple[Numbers, ...]:
        """The values in the sample of an index."""
        self._afford_reads(("numbers", index), 1)
        build = self._subject.build
        return self._subject.observe(
            ("numbers", index), lambda folder: tuple(numbers_of(Reader(build(), folder).read(index)))
        )

    def is_blank(self, index: Index) -> bool:
        """Whether the sample of an index, read again alone, has only images of one value."""
        self._afford_reads(("blank", index), 1)
        build = self._subject.build
        return bool(
            self._subject.observe(
                ("blank", index), lambda folder: blank_of(leaves_of(Reader(build(), folder).read(index))) is not None
            )
        )

    def table(self, seen: tuple[tuple[int, int], ...]) -> Table | None:
        """The table of all labels in the dataset that agrees with these pairs of index and label, if any."""
        build = self._subject.build
        return self._subject.observe(("table", seen), lambda _: find_table(build, seen))

    @property
    def location(self) -> Location | None:
        """Where the user's code makes samples, or else where it constructs the dataset."""
        at: Place | None = self._subject.observe("location", lambda _: self._place())
        if at:
            return Location(*at)
        return CulpritPlaces(self._subject).dataset or Location(what=f"dataset ({self._subject.facts.dataset})")

    def _place(self) -> Place | None:
        parts = wrapped_by(self._subject.build().dataset, by_type)
        return next(filter(None, (samples_at(part) for _, part in parts)), None)

    @property
    def user_defined(self) -> bool:
        """Whether the class of the dataset is the user's, not a library's."""
        return bool(self._subject.observe("user defined", lambda _: is_own(self._subject.build().dataset)))

    @property
    def _amount(self) -> Amount:
        """How much is read repeatedly."""
        return repeated_reads.amount_for(self._subject)

    @property
    def _requested(self) -> tuple[Index, ...]:
        """The indices that the loader requested."""
        return tuple(sample.index for sample in self._subject.epoch.samples)

    def _afford_reads(self, key: object, reads: int) -> None:
        """Raise NotApplicable for a stream, and Undecided if so many new reads would take too long."""
        self._subject.need_map("a stream has no indices to read again")
        self._subject.afford_reads(key, reads)


CHANGE_READS = 4
"""Samples that are read to see which attributes change: what counts or caches reads does so at the first."""
_GENERATORS = ("Generator", "RandomState", "Random")
"""Classes of random generators, whose state changes by design."""


def find_changed(subject: Subject, part: str = "dataset") -> tuple[Location, ...]:
    """The changed attributes of the dataset and of its parts, each where a line changes it; generators are left out.

    Or those of another `part`, the `collate_fn`. Empty if that cannot be observed: it is only additional evidence.
    """
    build = partial(subject.build, num_workers=0)
    with contextlib.suppress(Undecided):
        names = subject.observe(("changed by reading", part), lambda folder: _changed(build(), folder, part))
        return subject.observe(("lines that change", part), lambda folder: _changed_at(build(), folder, part, names))
    return ()


def _changed(loader: Loader, folder: Path, part: str) -> tuple[str, ...]:
    holder = getattr(loader, part)
    before = _attributes(holder)
    FlightRecorder(folder).mark(None, "sample")
    with seeded(SEED):
        _read(loader, part)
    after = _attributes(holder)
    return tuple(dict.fromkeys(name for name in after if after[name] != before.get(name)))


def _changed_at(loader: Loader, folder: Path, part: str, names: Sequence[str]) -> tuple[Location, ...]:
    """Where the first of these attributes changes, when the same samples are read again in a new process."""
    if not names:
        return ()
    holder = getattr(loader, part)
    FlightRecorder(folder).mark(None, "sample")
    with seeded(SEED):
        place = line_of_change(lambda: _read(loader, part), lambda: repr(_attributes(holder, names[:1])))
    file, line, _ = place or (*(made_at(holder) or (None, None)), None)
    first, *others = (f"{part}.{name}" for name in names)
    return Location(file, line, first), *(Location(what=other) for other in others)


def _read(loader: Loader, part: str) -> None:
    """Read a few samples, and make a batch of them if that is the `part` that may change."""
    dataset: Any = loader.dataset
    if isinstance(dataset, IterableDataset):
        samples = list(islice(streamed(dataset), CHANGE_READS))
    else:
        samples = _samples(loader, dataset)
    if part == "collate_fn":
        loader.collate_fn(samples)


def _samples(loader: Loader, dataset: Any) -> list[Any]:
    batched = loader.batch_sampler is not None
    indices = list(islice(flat(loader.batch_sampler if batched else loader.sampler, batched=batched), CHANGE_READS))
    if getattr(dataset, "__getitems__", None):
        return list(dataset.__getitems__(indices))
    return [dataset[index] for index in indices]


def _attributes(dataset: Any, names: Collection[str] = ()) -> dict[str, set[tuple[str, bytes]]]:
    """The content of each attribute, or of those with these names: `seen`, `transform.count`; of caches, the counts."""
    contents: dict[str, set[tuple[str, bytes]]] = {}
    of_classes = {name: value for cls in reversed(type(dataset).__mro__) for name, value in vars(cls).items()}
    for name, value in {**of_classes, **getattr(dataset, "__dict__", {})}.items():
        if isinstance(value, functools._lru_cache_wrapper) and (not names or name in names):
            contents[name] = {("", repr(value.cache_info()).encode())}
    wanted = {name.partition(".")[0] for name in names}
    for name, value in list(getattr(dataset, "__dict__", {}).items()):
        for leaf in leaves_of(value) if not wanted or name in wanted else ():
            path = f"{name}{leaf.path}".partition("[")[0]
            if leaf.kind in _GENERATORS or (names and path not in names):
                continue
            contents.setdefault(path, set()).add((leaf.path, leaf.digest))
    return contents


PART_READS = 64
"""Samples that are read from all over concatenated datasets, to see what those of each part hold."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of several concatenated datasets: its path, the index of each class name, and what its samples hold.

    `numbers` are the single integers by the path of their leaf, each once; `constant` are the leaves that are the same
    in all of its samples, with their digest.
    """

    path: str
    names: Mapping[str, int]
    numbers: Mapping[str, tuple[int, ...]]
    constant: Mapping[str, bytes]
    samples: int


def names_differ(dataset: Any) -> bool:
    """Whether a dataset concatenates parts with different class names."""
    tables = [names for _, _, names in _named_parts(dataset)]
    return any(names != tables[0] for names in tables)


def find_parts(loader: Loader, folder: Path) -> tuple[Part, ...]:
    """Read samples from all over the dataset, and group them by the parts with class names."""
    parts = list(_named_parts(loader.dataset))
    reader = Reader(loader, folder)
    numbers: dict[int, dict[str, dict[int, None]]] = defaultdict(lambda: defaultdict(dict))
    digests: dict[int, dict[str, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    read: dict[int, int] = defaultdict(int)
    for index in evenly(range(length_of(loader.dataset) or 0), PART_READS):
        with _calls({id(part) for _, part, _ in parts}) as called:
            sample = reader.read(index)
        if len(called) != 1:  # a wrapper mixes samples, or reads none of these
            continue
        part = next(iter(called))
        read[part] += 1
        for leaf in leaves_of(sample):
            digests[part][leaf.path].append(leaf.digest)
        for leaf_numbers in numbers_of(sample):
            if leaf_numbers.size == 1 and leaf_numbers.whole and not leaf_numbers.is_float:
                numbers[part][leaf_numbers.path][int(leaf_numbers.low)] = None
    return tuple(
        Part(
            path,
            names,
            {leaf: tuple(sorted(values)) for leaf, values in numbers[id(part)].items()},
            {leaf: leaf_digests[0] for leaf, leaf_digests in digests[id(part)].items() if len(set(leaf_digests)) == 1},
            read[id(part)],
        )
        for path, part, names in parts
        if read[id(part)]
    )


def _named_parts(dataset: Any) -> Iterator[tuple[str, Any, Mapping[str, int]]]:
    """The outermost datasets with class names below each concatenation."""
    chosen: list[str] = []
    for path, part in wrapped_by(dataset, by_type):
        if "[" not in path or any(path.startswith(f"{above}.") for above in chosen):
            continue
        below = sum(step.endswith("]") for step, _ in by_type(part))
        names = next((class_names.numbers for class_names in names_of(path, part) if class_names.numbers), None)
        if names and below < 2:
            chosen.append(path)
            yield path, part, names


@contextlib.contextmanager
def _calls(parts: set[int]) -> Iterator[set[int]]:
    """The ids of those of the parts whose `__getitem__` is called in this thread."""
    called: set[int] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name in ("__getitem__", "__getitems__") and code.co_argcount:
            called.update({id(frame.f_locals.get(code.co_varnames[0]))} & parts)

    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(None)
