"""The samples of a loader compared with those of another split of the same target, for `lab.splits`.

What datasets store per index, and the hashes of samples that were read, suggest pairs that may be one sample; a few of
them are read again, and compared before and after the transforms. Which loaders are splits of one dataset is known by
their names (`are_splits`).
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from dataguard.core.incident import LoaderFailed
from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.observation_cache import LITTLE_SHARE, SHORT_SECONDS
from dataguard.lab.core.records import Index
from dataguard.lab.provenance.provenance import Provenance
from dataguard.lab.reading.epoch_trace import EpochTrace
from dataguard.lab.splits.every_sample import EverySample, hash_of, read_every
from dataguard.lab.splits.file_groups import file_groups
from dataguard.lab.splits.index_contents import (
    CONTENT,
    CONTENT_READS,
    DISTINCT_SHARE,
    NAMES,
    SUBSET,
    Groups,
    IndexContents,
    read_index_contents,
    recorded_groups,
)
from dataguard.lab.splits.sample_pairs import (
    PAIR_DRAWS,
    PART_READS,
    NearDuplicates,
    Observe,
    SamplePair,
    SharedSeries,
    compare_pairs,
    near_duplicates,
    shared_series,
)
from dataguard.lab.splits.sample_sources import INPUTS, MEMORY, PARTS, ROWS, SOURCE, TABLES, SampleSources, find_sources
from dataguard.lab.splits.shared_text import SharedText, shared_text
from dataguard.lab.splits.shared_transforms import (
    STEADY_READS,
    STEADY_SAMPLES,
    ReplacedTransform,
    SharedTransform,
    find_replaced,
    find_shared,
    find_steady,
)
from dataguard.lab.splits.stream_overlap import STREAM_READS, FirstSample, SharedRows, first_samples, shared_rows
from dataguard.lab.splits.tables import Table, recorded_tables
from dataguard.lab.subject import Subject
from dataguard.settings.target_spelling import spelled_role
from dataguard.stats.coincidence import is_shared

T = TypeVar("T")

_COMMON = re.compile(
    r"train(ing)?|fit|val(id(ation)?)?|eval(uation)?|dev|test(ing)?|predict(ion)?|infer(ence)?|"
    r"(data)?loaders?|data(set)?s?|dl|ds|set|split"
)

FEW_FILES = 2000
"""How many files are read unless every sample is requested: a limit of time, as each takes two reads from a disk."""
IMAGE_SHARE = 0.02
"""The share of the budget for reading the images of each split: 1.2 s of the default 60."""
STORED_SHARE = 0.05
"""The share of the budget for reading what is stored for all samples of a split, beyond `FEW_FILES`: 3 s of the default
60, in which some 100,000 files or entries of a database are read."""
READ_SHARE = 0.15
"""The share of the budget for reading all samples of a split where nothing that the dataset stores identifies them:
9 s of the default 60. What is recorded meanwhile takes some times longer than to read a sample that costs nothing."""
COMPARED_PAIRS = 4
"""How many pairs of each match are read again: one that holds is evidence, and the others show how usual it is."""
FEW_PARTED = 1
"""How many pairs of slow splits are read in parts: each takes `PART_READS`."""
MOST_WHOLE, WHOLE_TIMES = 4096, 3
"""The most samples of a split that are read to the last one, and how often over that must take little time."""
MOST_REPEATS = 3
"""Content that occurs more often within one split identifies no sample: a blank image, a default, a file that all
share."""
LEAST_SPREAD = 0.25
"""The least share of distinct samples in a split with repetitions, as if classes were balanced before the split: with
less, each sample is repeated four times, and its content is a category."""
FEWEST_ROWS, FEWEST_COLUMNS, CONTINUOUS_SHARE = 24, 3, 0.95
"""Different rows of two splits, columns of measurements in them, and the share of different values in such a column.

Three columns in which 19 of 20 values differ agree in two unrelated rows with odds of 0.05**3 = 1e-4 at most.
"""


@dataclass(frozen=True, slots=True)
class Match:
    """One way to identify samples: how many pairs it finds, and those that were read again."""

    name: str
    pairs: int
    compared: tuple[SamplePair, ...]

    @property
    def equal(self) -> bool:
        """Whether all samples that were read again are equal: they may be so by chance if they are small."""
        return bool(self.compared) and all(pair.identical for pair in self.compared)


Numbers = Mapping[Any, int]
"""A number for each sample by its index: equal ones may be one sample."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One way to identify samples: the numbers of those of an earlier split and of this one, and the pairs."""

    name: str
    earlier: Numbers
    own: Numbers
    pairs: Sequence[tuple[Index, Index]]

    @property
    def significant(self) -> bool:
        """Whether so many equal numbers are no coincidence."""
        return is_shared(self.earlier.values(), self.own.values())


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two splits have in common.

    `samples` of this one were compared with `others`; `complete` says by what all were compared, None if only some
    were, although both epochs were read to their end if `whole`. `repeated` is how many samples this split has more
    than once.
    """

    matches: tuple[Match, ...]
    samples: int
    others: int
    complete: str | None
    whole: bool
    repeated: int
    near_duplicates: NearDuplicates | None


READ = f"{CONTENT} samples that were read"
EVERY = f"{CONTENT} all samples"
REPEATED = f"{CONTENT} whole samples, some of which repeat"


class Splits:
    """Observations of other splits of the target (map-style only)."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def together(self) -> tuple[Subject, ...]:
        """The loaders of the scan that may be splits of the same data, this one among them."""
        return tuple(one for one in self._subject.siblings.values() if are_splits(one, self._subject))

    @property
    def earlier(self) -> tuple[Subject, ...]:
        """The splits that this one must not share samples with, those for training first."""
        own = self._subject.facts
        ranks = {"train": 0, "val": 1, "test": 2}
        before = [one for one in self.together if ranks.get(one.facts.role or "", 3) < ranks.get(own.role or "", -1)]
        return tuple(sorted(before, key=lambda one: ranks[one.facts.role or ""]))

    @property
    def first_samples(self) -> tuple[FirstSample, ...]:
        """The first sample of a stream in several random states."""
        subject = self._subject
        subject.afford_reads("first samples", STREAM_READS)
        build = subject.build
        return subject.observe("first samples", lambda folder: first_samples(build(num_workers=0), folder))

    def rows_shared_with(self, other: Subject) -> SharedRows | None:
        """The rows of files from which this stream and another one draw the same first samples."""
        return shared_rows(self.first_samples, Splits(other).first_samples)

    @property
    def index_contents(self) -> IndexContents:
        """What the dataset stores for each index."""
        subject = self._subject
        # To read one says more only of whole splits, and of tables, whose rows take no time.
        worthwhile = _is_whole(subject.epoch) or subject.reads_take_little(CONTENT_READS)
        index = next((one.index for one in subject.epoch.samples if worthwhile and one.index is not None), None)
        most = self._most_files
        build, length, group = subject.build, subject.facts.length, subject.settings.contract.get("group")
        seconds = subject.settings.budget * (1 if subject.settings.all else IMAGE_SHARE)
        return subject.observe(
            "index contents",
            lambda folder: read_index_contents(build, folder, length, most, index, seconds, group),
        )

    @property
    def _most_files(self) -> int:
        return 10**9 if self._subject.settings.all else FEW_FILES

    @property
    def sources(self) -> SampleSources:
        """What each sample is read from, as far as it is known for all of them."""
        subject = self._subject
        contents, provenance = self.index_contents, Provenance(subject)
        count = 2 * len(contents.indices)
        every = contents.complete and subject.reads_take_little(count)
        if not every and subject.settings.all:
            with suppress(Undecided):
                subject.afford_reads("sources", count)
                every = True
        seconds = count * subject.epoch.seconds_per_sample
        seen = () if every and seconds < SHORT_SECONDS else _known(lambda: provenance.reads) or ()
        rows = _known(lambda: provenance.rows)
        share = LITTLE_SHARE if contents.identify else READ_SHARE
        reading = math.inf if subject.settings.all else share * subject.settings.budget
        find = partial(
            find_sources,
            indices=contents.indices,
            seen=seen,
            rows=rows,
            reading=reading if every else 0,
            shared_memory=subject.has_checkpoint,
            most_files=self._most_files,
            seconds=subject.settings.budget * STORED_SHARE,
        )
        build = subject.build
        return subject.observe("sources", lambda folder: find(build(), folder))

    @property
    def tables(self) -> tuple[Table, ...]:
        """The columns of the tables whose rows are samples: of all that was read, and of those in memory."""
        return (*recorded_tables(self._subject.epoch), *self.index_contents.tables)

    def tables_of(self, other: Subject) -> tuple[Table, ...]:
        """The same of another split."""
        return Splits(other).tables

    @property
    def groups(self) -> tuple[Groups, ...]:
        """The groups that samples belong to: as the dataset lists them, and as recorded samples and files name them."""
        declared = self._subject.settings.contract.get("group")
        sources = None if declared else _known(lambda: self.sources)
        by_file = file_groups(sources.files) if sources is not None else ()
        return (*self.index_contents.groups, *recorded_groups(self._subject.epoch, declared), *by_file)

    def groups_of(self, other: Subject) -> tuple[Groups, ...]:
        """The same of another split."""
        return Splits(other).groups

    def shared_with(self, other: Subject) -> tuple[SharedTransform, ...]:
        """The transforms of dataset objects that the loader of another split reads, too."""
        subject = self._subject
        if other.target is not subject.target:
            return ()
        return subject.observe(
            ("shared transforms", other.facts.name), lambda _: find_shared(subject.build_with(other))
        )

    def steady_with(self, shared: SharedTransform, indices: Sequence[Index]) -> frozenset[str]:
        """The leaves of a few samples that no random state changes while this transform is given only one."""
        build, read = self._subject.build, tuple(indices[:STEADY_SAMPLES])
        self._subject.afford_reads(("steady", shared.path), STEADY_READS)
        return self._subject.observe(
            ("steady", shared.path, read),
            lambda folder: find_steady(build(), folder, shared.path, read),
        )

    def replaced(self, shared: Sequence[SharedTransform]) -> ReplacedTransform | None:
        """The random transform that one of these replaced after the splits were made, if there is one."""
        subject, paths = self._subject, tuple(dict.fromkeys(one.path for one in shared))
        read = subject.epoch.asked(STEADY_SAMPLES)
        subject.afford_reads(("replaced", paths), STEADY_READS)
        return subject.observe(("replaced", paths), lambda folder: find_replaced(subject.rebuild, folder, paths, read))

    def text_shared_with(self, other: Subject) -> SharedText | None:
        """The text that windows of tokens of this split and of an earlier one have in common."""
        own, theirs = self.index_contents, Splits(other).index_contents
        known = own.complete and theirs.complete
        return shared_text(self._subject, other, (own.indices, theirs.indices) if known else ((), ()))

    def series_shared_with(self, other: Subject) -> SharedSeries:
        """The windows of a series that lie inside those of an earlier split."""
        return shared_series(self._subject, other)

    @property
    def every_hash(self) -> Numbers | None:
        """A hash of the content of each sample under one random state; None if reading all would take long."""
        if _is_whole(self._subject.epoch):
            return _hashes(self._subject.epoch)
        return self.every_sample.hashes or None

    @property
    def every_sample(self) -> EverySample:
        """All samples, each read once; nothing if reading all would take long."""
        subject, indices = self._subject, self._every_index
        return subject.observe("every sample", lambda folder: read_every(subject.build(), folder, indices))

    @property
    def _every_index(self) -> Sequence[int]:
        """The indices of all samples; none if reading them would take long."""
        indices = self.index_contents.indices
        if len(indices) > MOST_WHOLE or not self._subject.reads_take_little(WHOLE_TIMES * len(indices)):
            return ()
        return indices

    def compared_with(self, other: Subject) -> Comparison:
        """This split compared with an earlier one."""
        subject = self._subject
        earlier, numbers = _hashes(other.epoch), _hashes(subject.epoch)
        candidates = [one for one in self._candidates(other, earlier, numbers) if one.pairs]
        complete = self._complete(other)
        continuous = _are_continuous((other.epoch, subject.epoch))
        telling = [one for one in candidates if continuous or one.name not in (READ, REPEATED) or one.significant]
        if not telling and (own := self.every_hash) and (theirs := Splits(other).every_hash):
            earlier, numbers = theirs, own
            candidates = [one for one in _read_candidates(earlier, numbers) if one.pairs]
            steady = self.index_contents.deterministic and Splits(other).index_contents.deterministic
            complete = EVERY if steady else complete
        sources = self.sources
        evidence = _Evidence(continuous, _are_distinct(earlier, numbers), sources.rich, sources.measured)
        read = self._read_again(other, candidates)
        judged = tuple(
            Match(one.name, len({two for _, two in one.pairs}), evidence.confirmed(one, read[one.name]))
            for one in candidates
        )
        samples, others = len(numbers), len(earlier)
        if complete:
            samples, others = len(self.index_contents.indices), len(Splits(other).index_contents.indices)
        alike = near_duplicates(Splits(other).index_contents.thumbnails, self.index_contents.thumbnails)
        whole, repeated = subject.epoch.whole and other.epoch.whole, len(numbers) - len(set(numbers.values()))
        return Comparison(judged, samples, others, complete, whole, repeated, alike)

    def _read_again(self, other: Subject, candidates: Sequence[_Candidate]) -> Mapping[str, list[SamplePair]]:
        """A few pairs of each candidate, by its name."""
        subject = self._subject
        compared = {one.name: tuple(evenly(_distinct_pairs(one.pairs), COMPARED_PAIRS)) for one in candidates}
        wanted = tuple(dict.fromkeys(pair for pairs in compared.values() for pair in pairs))
        if not wanted:
            return {}
        seconds = subject.epoch.seconds_per_sample + other.epoch.seconds_per_sample
        subject.afford(("pairs", other.facts.name), (len(wanted) + 1) * (len(PAIR_DRAWS) + 1) * seconds)
        controls = (_control(other, [one for one, _ in wanted]), _control(subject, [two for _, two in wanted]))
        parted = len(wanted) if subject.cache.takes_little(len(wanted) * PART_READS * seconds) else FEW_PARTED
        pairs = compare_pairs((_observe(other), _observe(subject)), wanted, controls, parted)
        read = {name: [pairs[one] for one in chosen if one in pairs] for name, chosen in compared.items()}
        if PARTS in read:  # other frames of one video may be in both on purpose
            files = self.sources.files
            read[PARTS] = [replace(one, file=one.file or files[one.index][-1]) for one in read[PARTS]]
        return read

    def _candidates(self, other: Subject, earlier: Numbers, numbers: Numbers) -> Iterator[_Candidate]:
        """The ways to identify samples, each with the pairs of indices that are equal by it."""
        one, two = Splits(other).index_contents, self.index_contents
        for first in one.columns:
            for second in two.columns:
                if first == second or not (first.startswith(SUBSET) or second.startswith(SUBSET)):
                    yield _candidate(second, one.by_index(first), two.by_index(second))
        sources, others = self.sources, Splits(other).sources
        for name in self._sources_shared_with(other):
            yield _candidate(name, others.by_index(name), sources.by_index(name), _least_spread(name))
        yield from _read_candidates(earlier, numbers)

    def _sources_shared_with(self, other: Subject) -> list[str]:
        """The columns of sources by which this split can be compared with another one."""
        own, theirs = self.sources, Splits(other).sources
        apart = {
            *([] if other.target is self._subject.target else [MEMORY]),
            *([] if own.tables == theirs.tables else [TABLES]),
        }
        return [name for name in own.columns if name in theirs.columns and name not in apart]

    def _complete(self, other: Subject) -> str | None:
        """What distinguishes all samples of both splits, if anything does."""
        one, two = Splits(other).index_contents, self.index_contents
        epochs = (other.epoch, self._subject.epoch)
        if one.deterministic and two.deterministic and all(_is_whole(epoch) for epoch in epochs):
            return EVERY
        if not (one.complete and two.complete):
            return None
        names = [name for name in two.columns if name in one.columns]
        own, theirs = self.sources.columns, Splits(other).sources.columns
        names += [
            name
            for name in self._sources_shared_with(other)
            if name != MEMORY
            and (_spread(theirs[name], own[name]) >= _least_spread(name) or set(theirs[name]).isdisjoint(own[name]))
        ]
        return min(names, key=lambda name: _KINDS.index(name[:8]), default=None)


_KINDS = tuple(kind[:8] for kind in (CONTENT, SOURCE, NAMES, SUBSET))
"""What identifies samples, the most reliable first."""


def _is_whole(epoch: EpochTrace) -> bool:
    return epoch.whole and len(_hashes(epoch)) == (epoch.read or len(epoch.samples))


def _hashes(epoch: EpochTrace) -> Numbers:
    """A hash of the content of each sample that was read, by index."""
    if epoch.hashes is not None:
        return epoch.hashes.by_index()
    indexed = (one for one in epoch.samples if one.index is not None)
    return {one.index: number for one in indexed for number in [hash_of(one.leaves)] if number is not None}


def _candidate(name: str, one: Numbers, two: Numbers, least: float = DISTINCT_SHARE, below: float = 2) -> _Candidate:
    """Pairs of indices with equal numbers, if the share of different ones in both splits is from `least` to `below`."""
    # Why equal numbers may mean one sample: they are 64-bit hashes, so different content has equal ones once in 2e7
    # pairs of splits of a million samples each. What is equal without being one sample is common content, which repeats
    # within the splits as well: numbers that occur often do not count, nor any of a split in which many repeat. Pairs
    # come from one dictionary, and not from comparing all with all.
    if not one or not two or not least <= _spread(one.values(), two.values()) < below:
        return _Candidate(name, one, two, ())
    shared = set(one.values()) & set(two.values())
    times = Counter(number for each in (one, two) for number in each.values() if number in shared)
    most = MOST_REPEATS * (max(2, len(shared)) if below < 1 else 2)  # many equal repetitions are on purpose
    known = {number: index for index, number in one.items() if number in shared and times[number] <= most}
    return _Candidate(name, one, two, [(known[number], index) for index, number in two.items() if number in known])


def _read_candidates(earlier: Numbers, own: Numbers) -> Iterator[_Candidate]:
    """The samples that were read, by the numbers of their content: those of splits in which few repeat, and many."""
    yield _candidate(READ, earlier, own)
    yield _candidate(REPEATED, earlier, own, LEAST_SPREAD, DISTINCT_SHARE)


def _spread(one: Collection[int], two: Collection[int]) -> float:
    """The least share of different numbers in one of two splits: below a limit, equal ones may be categories."""
    return min(len(set(each)) / max(len(each), 1) for each in (one, two))


def _least_spread(name: str) -> float:
    """The share of different sources from which on equal ones are one sample."""
    return LEAST_SPREAD if name in (MEMORY, ROWS, INPUTS) else DISTINCT_SHARE


def _distinct_pairs(pairs: Sequence[tuple[Index, Index]]) -> list[tuple[Index, Index]]:
    """One pair for each sample of the earlier split."""
    return list({earlier: (earlier, index) for earlier, index in pairs}.values())


@dataclass(frozen=True, slots=True)
class _Evidence:
    """When equal samples of two splits, or equal rows that they come from, are no coincidence.

    Samples are `continuous`, so that any two equal ones are one, or `distinct` in each split. Rows in memory are
    `rich`, with the same effect, or `measured`: they hold measurements, and not places.
    """

    continuous: bool
    distinct: bool
    rich: bool
    measured: bool

    def confirmed(self, found: _Candidate, pairs: Sequence[SamplePair]) -> tuple[SamplePair, ...]:
        """Pairs that were read again, each with whether it is the same sample.

        Small samples are if so many equal ones are no coincidence: those that were read; rows of measurements; and
        what is stored, if the samples are equal, too. If samples repeat anyway, only identical ones count.
        """
        if self._identifies(found) or (all(pair.identical for pair in pairs) and self._suggests(found)):
            return tuple(replace(pair, same=True) for pair in pairs)
        if found.name not in (READ, REPEATED):
            return tuple(pairs)
        significant, repeats = self.continuous or found.significant, found.name == REPEATED
        same = [(pair.identical and significant) or (pair.same and (pair.identical or not repeats)) for pair in pairs]
        return tuple(replace(pair, same=one) for pair, one in zip(pairs, same, strict=True))

    def _identifies(self, found: _Candidate) -> bool:
        """Whether equal numbers are one sample."""
        is_row = found.name == ROWS and (self.rich or (self.measured and (self.continuous or found.significant)))
        return found.name == MEMORY or is_row

    def _suggests(self, found: _Candidate) -> bool:
        """Whether equal numbers are one sample if the samples are equal."""
        return found.name not in (READ, REPEATED) and self.distinct and found.significant


def _are_distinct(earlier: Numbers, own: Numbers) -> bool:
    """Whether nearly all samples that were read are unlike the others of their split."""
    enough = min(len(earlier), len(own)) >= FEWEST_ROWS
    return enough and _spread(earlier.values(), own.values()) >= DISTINCT_SHARE


def _are_continuous(epochs: Sequence[EpochTrace]) -> bool:
    """Whether the inputs of both splits are rows of floats, several of which differ in nearly every row of each.

    Two such rows are equal only if one is a copy, however few their values are. A small split says so with the other.
    """
    rows = [_rows_of_floats(epoch) for epoch in epochs]
    if len({len(row) for one in rows for row in one}) != 1 or len(set.union(*rows)) < FEWEST_ROWS or not all(rows):
        return False
    varied = [
        all(len({row[column] for row in one}) >= CONTINUOUS_SHARE * len(one) for one in rows)
        for column in range(len(next(iter(rows[0]))))
    ]
    return sum(varied) >= FEWEST_COLUMNS


def _rows_of_floats(epoch: EpochTrace) -> set[tuple[float, ...]]:
    """The different rows of floats in the input of the samples that were read."""
    rows: dict[str, set[tuple[float, ...]]] = defaultdict(set)
    for one in epoch.value_summaries:
        floats = [each for each in one.numbers if each.is_float and not each.whole and len(each.shape) == 1]
        if one.position is not None and floats:
            largest = max(floats, key=lambda each: each.size)
            rows[largest.path].add(largest.values)
    return max(rows.values(), key=len, default=set())


def are_splits(one: Subject, two: Subject) -> bool:
    """Whether the names of two loaders do not denote different folds or datasets.

    Loaders of separate factories belong together if the factories' names contain their roles.
    """
    targets = {one.target.name, two.target.name}
    if len(targets) > 1 and not all(map(spelled_role, targets)):
        return False
    try:
        first, second = _name_stem(one.facts.name), _name_stem(two.facts.name)
    except LoaderFailed:
        return False
    return first == second or not first or not second


def _name_stem(name: str) -> tuple[str, ...]:
    """The words and numbers of a loader's name without those for its role or for a loader."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name)]
    return tuple(word for word in words if not _COMMON.fullmatch(word))


def _known(observe: Callable[[], T]) -> T | None:
    """An observation of where samples come from; None where it cannot be made."""
    try:
        return observe()
    except (LoaderFailed, NotApplicable, Undecided):
        return None


def _observe(subject: Subject) -> Observe:
    """What observes one split for a comparison of pairs."""
    return lambda key, run: subject.observe(key, lambda folder: run(subject.build, folder))


def _control(subject: Subject, wanted: Sequence[Index]) -> Index:
    """An index that is none of those, if there is one."""
    known = [one.index for one in subject.epoch.samples if one.index is not None]
    return next((index for index in known if index not in wanted), None)
