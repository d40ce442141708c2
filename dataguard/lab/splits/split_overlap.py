"""The samples of a loader beside those of another split of the same target, for `lab.splits`.

What datasets keep of their indices, and the hashes of samples that were read, tell which pairs may be one sample; a few
of them are read again, and compared before and after the transforms.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.incident import LoaderFailed
from dataguard.lab.core.index import Index, plain_index
from dataguard.lab.core.index_schedules import evenly, recorder
from dataguard.lab.core.loader_facts import spelled_role
from dataguard.lab.core.records import SampleRecord
from dataguard.lab.reading.epoch_trace import EpochTrace, gate
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.splits.index_contents import CONTENT, DISTINCT, NAMES, SUBSET, Held, held_by
from dataguard.lab.splits.near_duplicates import Likeness, album_of, likeness
from dataguard.lab.splits.sample_pairs import DRAWS, Pair, run_pairs
from dataguard.lab.spy.drive import announce_epoch
from dataguard.lab.subject import Subject
from dataguard.stats.coincidence import is_shared
from dataguard.target.variants import Loader

FEW_FILES = 2000
"""How many files are looked into unless every sample is asked for."""
LOOKING = 0.02
"""The share of the budget for which images of each split are looked at."""
LOOKED = 4
"""How many pairs are read again, of those that one way finds."""
OFTEN = 3
"""What occurs more often within one split tells no sample."""
SPREAD = 0.25
"""The share of different samples in a split that repeats itself, as where classes were balanced before the split."""
FEWEST_ROWS, FEWEST_COLUMNS, MEASURED = 24, 3, 0.95
"""Different rows, the columns of measurements in them, and the share of values in such a column that are different."""
READS = (LOOKED + 1) * (len(DRAWS) + 1)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to tell samples apart: how many pairs it finds, and those that were read again."""

    name: str
    pairs: int
    looked: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two splits have in common.

    `samples` of this one were compared with `others`; `complete` says by what all of them were, None where only some
    were. `repeated` is how many samples this split holds more than once, and `likeness` tells which of its images look
    like others of the earlier split.
    """

    ways: tuple[Way, ...]
    samples: int
    others: int
    complete: str | None
    repeated: int
    likeness: Likeness | None


READ = f"{CONTENT} samples that were read"
REPEATED = f"{CONTENT} whole samples, some of which repeat"


class Splits:
    """The part of a lab for other splits of its target (map-style only)."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def earlier(self) -> tuple[Subject, ...]:
        """The splits that this one must not share samples with, those for training first."""
        own = self._subject.facts
        ranks = {"train": 0, "val": 1, "test": 2}
        found = [one for one in self._subject.siblings.values() if _are_splits(one, self._subject)]
        before = [one for one in found if ranks.get(one.facts.role or "", 3) < ranks.get(own.role or "", -1)]
        return tuple(sorted(before, key=lambda one: ranks[one.facts.role or ""]))

    @property
    def held(self) -> Held:
        """What the dataset keeps of each index."""
        subject = self._subject
        most = 10**9 if subject.settings.all else FEW_FILES
        index = next((one.index for one in subject.epoch.samples if one.index is not None), None)
        build, length = subject.build, subject.facts.length
        seconds = subject.settings.budget * (1 if subject.settings.all else LOOKING)
        return subject.vary("held", lambda folder: run_held(build, folder, length, most, index, seconds))

    def beside(self, other: Subject) -> Comparison:
        """This split compared with an earlier one."""
        subject = self._subject
        subject.afford(READS * (subject.epoch.seconds_per_sample + other.epoch.seconds_per_sample))
        earlier, numbers = _hashes(other.epoch), _hashes(subject.epoch)
        ways = [(name, found) for name, found in self._candidates(other, earlier, numbers) if found]
        looked = {name: tuple(evenly(_apart(found), LOOKED)) for name, found in ways}
        wanted = tuple(dict.fromkeys(pair for pairs in looked.values() for pair in pairs))
        pairs: Mapping[tuple[Index, Index], Pair] = {}
        if wanted:
            builds = (other.build, subject.build)
            controls = (_another(other, [one for one, _ in wanted]), _another(subject, [two for _, two in wanted]))
            pairs = subject.vary(
                ("pairs", other.facts.name), lambda folder: run_pairs(builds, folder, wanted, controls)
            )
        read = {name: [pairs[one] for one in chosen if one in pairs] for name, chosen in looked.items()}
        telling = is_shared(earlier.values(), numbers.values()) or all(map(_is_measured, (other.epoch, subject.epoch)))
        judged = tuple(
            Way(name, len({two for _, two in found}), _agreed(name, read[name], telling)) for name, found in ways
        )
        complete = self._complete(other)
        own, theirs = len(numbers), len(earlier)
        if complete:
            own, theirs = len(self.held.indices), len(Splits(other).held.indices)
        alike = likeness(Splits(other).held.album, self.held.album)
        return Comparison(judged, own, theirs, complete, len(numbers) - len(set(numbers.values())), alike)

    def _candidates(
        self, other: Subject, earlier: Mapping[Index, int], numbers: Mapping[Index, int]
    ) -> Iterator[tuple[str, list[tuple[Index, Index]]]]:
        """The ways to tell samples apart, with the pairs of indices that are alike by each."""
        one, two = Splits(other).held, self.held
        for first in one.columns:
            for second in two.columns:
                if first == second or not (first.startswith(SUBSET) or second.startswith(SUBSET)):
                    yield second, _alike(one.by_index(first), two.by_index(second))
        yield READ, _alike(earlier, numbers)
        yield REPEATED, _alike(earlier, numbers, repeated=True)

    def _complete(self, other: Subject) -> str | None:
        """By what all samples of both splits are told apart, if by anything."""
        one, two = Splits(other).held, self.held
        epochs = (other.epoch, self._subject.epoch)
        if one.steady and two.steady and all(_is_whole(epoch) for epoch in epochs):
            return CONTENT + " all samples"
        if not (one.whole and two.whole):
            return None
        names = sorted((name for name in two.columns if name in one.columns), key=lambda name: _KINDS.index(name[:8]))
        return next(iter(names), None)


def _are_splits(one: Subject, two: Subject) -> bool:
    """Whether the names of two loaders tell no different folds or datasets.

    Loaders of factories of their own belong together where the names of these tell what each is for.
    """
    targets = {one.target.name, two.target.name}
    if len(targets) > 1 and not all(map(spelled_role, targets)):
        return False
    try:
        first, second = _rest(one.facts.name), _rest(two.facts.name)
    except LoaderFailed:
        return False
    return first == second or not first or not second


_KINDS = tuple(kind[:8] for kind in (CONTENT, NAMES, SUBSET))
"""What tells samples apart, the most telling first."""


def _is_whole(epoch: EpochTrace) -> bool:
    return epoch.whole and len(_hashes(epoch)) == (epoch.read or len(epoch.samples))


def _rest(name: str) -> tuple[str, ...]:
    """The words and numbers of a loader's name without those that tell its role or that it is a loader."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", name)]
    return tuple(word for word in words if not _COMMON.fullmatch(word))


_COMMON = re.compile(
    r"train(ing)?|fit|val(id(ation)?)?|eval(uation)?|dev|test(ing)?|predict(ion)?|infer(ence)?|"
    r"(data)?loaders?|data(set)?s?|dl|ds|set|split"
)


def _hashes(epoch: EpochTrace) -> Mapping[Index, int]:
    """What tells the content of the samples that were read, by their indices."""
    if epoch.hashes is not None:
        return epoch.hashes.by_index()
    return {one.index: number for one in epoch.samples for number in [_largest(one)] if number is not None}


def _largest(sample: SampleRecord) -> int | None:
    """The digest of the largest leaf of a sample that can be asked for by an index; of a text where it has no array."""
    leaves = [leaf for leaf in sample.leaves if leaf.shape]
    leaves = leaves or [leaf for leaf in sample.leaves if leaf.kind == "str"][:1]
    if sample.index is None or not leaves:
        return None
    return int.from_bytes(max(leaves, key=lambda leaf: np.prod(leaf.shape or ())).digest, "little")


def _alike(one: Mapping[Any, int], two: Mapping[Any, int], *, repeated: bool = False) -> list[tuple[Any, Any]]:
    """Pairs of indices with one number: of splits in which numbers hardly repeat, or of those where they do."""
    if not one or not two:
        return []
    spread = min(len(set(each.values())) / len(each) for each in (one, two))
    if not (SPREAD <= spread < DISTINCT if repeated else spread >= DISTINCT):
        return []
    shared = set(one.values()) & set(two.values())
    often = Counter(number for each in (one, two) for number in each.values() if number in shared)
    most = OFTEN * (max(2, len(shared)) if repeated else 2)  # many that repeat alike were repeated on purpose
    places = {number: index for index, number in one.items() if number in shared and often[number] <= most}
    return [(places[number], index) for index, number in two.items() if number in places]


def _apart(pairs: Sequence[tuple[Index, Index]]) -> list[tuple[Index, Index]]:
    """One pair for each sample of the earlier split."""
    return list({earlier: (earlier, index) for earlier, index in pairs}.values())


def _agreed(way: str, pairs: Sequence[Pair], telling: bool) -> tuple[Pair, ...]:
    """Pairs that were read again; where samples repeat anyway, only those count that agree in all they hold.

    So do small samples, where that so many or such ones agree is `telling`.
    """
    if way == REPEATED:
        return tuple(replace(pair, same=(pair.same or telling) and pair.wholly) for pair in pairs)
    if way == READ and telling:
        return tuple(replace(pair, same=pair.same or pair.wholly) for pair in pairs)
    return tuple(pairs)


def _is_measured(epoch: EpochTrace) -> bool:
    """Whether the input of a sample is a row of floats that differ from row to row in several places by themselves.

    Two such rows are equal as copies of each other alone, however few their numbers are.
    """
    rows: dict[str, set[tuple[float, ...]]] = defaultdict(set)
    for one in epoch.value_summaries:
        floats = [each for each in one.numbers if each.is_float and not each.whole and len(each.shape) == 1]
        if one.position is not None and floats:
            largest = max(floats, key=lambda each: each.size)
            rows[largest.path].add(largest.values)
    different = max(rows.values(), key=len, default=set())
    if len({len(row) for row in different}) != 1 or len(different) < FEWEST_ROWS:
        return False
    distinct = [len(set(column)) >= MEASURED * len(different) for column in zip(*different, strict=True)]
    return sum(distinct) >= FEWEST_COLUMNS


def _another(subject: Subject, wanted: Sequence[Index]) -> Index:
    """An index that is none of those, if there is one."""
    known = [one.index for one in subject.epoch.samples if one.index is not None]
    return next((index for index in known if index not in wanted), None)


def run_held(
    build: Callable[..., Loader], folder: Path, length: int | None, most_files: int, index: Index, seconds: float
) -> Held:
    """Draw the indices of an epoch, look at the dataset, and read one sample twice with generators in two states.

    Images in files are looked at for so many seconds.
    """
    recorded, schedule = recorder(length)
    loader = build(num_workers=0, schedule=schedule)
    announce_epoch(loader, 0)
    with gate("sampler"):
        for _ in loader:  # whoever records the indices hands out none
            break
    drawn = {one: None for record in recorded for batch in record.batches for one in map(plain_index, batch)}
    indices = array("q", sorted(one for one in drawn if isinstance(one, int) and one >= 0))
    whole = bool(recorded) and all(record.whole for record in recorded if record.batches) and len(indices) == len(drawn)
    columns, files = held_by(loader.dataset, indices, most_files)
    album = album_of(files, seconds)
    if index is None:
        return Held(indices, columns, whole, False, album)
    reader = Reader(loader, folder)
    read = {tuple(sorted(reader.ask(index, draw).digests.items())) for draw in (*DRAWS, DRAWS[0])}
    return Held(indices, columns, whole, len(read) == 1, album)
