"""Files of a sample that belong together by their names, such as an image and its mask.

Files have the same *role* in all samples if they have one folder, suffix or word in common, such as `masks`,
`.json` or `left`. The *key* of a file is what is left of its name without that: words and numbers that it shares with
its partner. Standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType

from dataguard.lab.core.records import Index
from dataguard.lab.provenance.file_names import FileName, Words, is_number, listed
from dataguard.lab.rows.origins import Read, SampleReads

FEWEST_KEYS = 4
"""Files of a role: fewer correspond by chance."""
MOST_PARTS = 6
"""Files of one sample that may differ in role by one part of their names; the frames of a clip are more, and alike."""
SAME_SHARE = 0.8
"""The share of samples that must have the same parts; the others read less, for example what is cached."""
NEARLY_ALL = 0.9
"""The share of keys that two roles must have in common, so that names clearly correspond."""

Part = Callable[[FileName], object]
Group = list[tuple[FileName, ...]]
"""The files of one role, for each sample."""


@dataclass(frozen=True, slots=True)
class WrongPair:
    """Files of two roles in one sample that have different keys, and the partner that the first one has by its key.

    `partner` is None if there is no such file. `steps`: how far the second file is from the first one if each is
    counted among those of its role, sorted by key and as text.
    """

    index: Index
    files: tuple[str, str]
    partner: str | None
    steps: tuple[int, int]


@dataclass(frozen=True, slots=True)
class PairedRoles:
    """Two roles whose names correspond, with their `folders`.

    `files`: how many there are of each. `shared`: how many keys both have. `numbered`: keys are only numbers that count
    without a gap, as those of unrelated files may do. `sorted`: both are used in the order of their names, as text or
    by their numbers. `single`: each sample has one file of each. `repeated`: a file has different partners.
    `returning`: a pair is in several samples, as in a list of files that is passed over more than once. `example`: the
    files of the first sample that has both.
    """

    folders: tuple[str, str]
    files: tuple[int, int]
    shared: int
    numbered: bool
    sorted: bool
    single: bool
    repeated: bool
    returning: bool
    right: int
    wrong: tuple[WrongPair, ...]
    example: tuple[str, str] = ("", "")

    @property
    def samples(self) -> int:
        """How many samples have files of both roles."""
        return self.right + len(self.wrong)


def named(read: Read) -> str:
    """What is read as a file, a member of an archive, or an entry of a database by its key."""
    key = read.rows[0] if len(read.rows) == 1 and "::" not in read.source else None
    return f"{read.source}::{key}" if isinstance(key, str) else read.source


def find_paired_roles(
    samples: Sequence[SampleReads], keys: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> tuple[PairedRoles, ...]:
    """The pairs of roles whose names correspond one to one. `keys` are those of databases, by path.

    Left out are roles of which only one varies with the random state, such as a partner that is drawn. Two that vary in
    just the same samples are drawn together, such as one of several pairs of a scene; but if their names only count,
    two frames of a clip may be drawn, and differ on purpose.
    """
    seen = [
        tuple(FileName(name) for name in dict.fromkeys(named(read) for read in sample.reads if read.file))
        for sample in samples
    ]
    varying = [set(map(named, sample.varying)) - _always_read(sample) for sample in samples]
    indices = [sample.index for sample in samples]
    groups = list(_roles(seen, ()))
    drawn = [
        tuple(any(name.source in own for name in names) for names, own in zip(group, varying, strict=True))
        for group, _ in groups
    ]
    places = [[name for name in listed(_distinct(group), keys) if having(name)] for group, having in groups]
    found = []
    for first, second in combinations(range(len(groups)), 2):
        if drawn[first] != drawn[second]:
            continue
        pair = _paired(indices, (groups[first][0], groups[second][0]), (places[first], places[second]))
        if pair is not None and not (pair.numbered and any(drawn[first])):
            found.append(pair)
    return tuple(found)


def _always_read(sample: SampleReads) -> set[str]:
    """The files that are read in both random states, such as those of which a window is drawn."""
    return set(map(named, sample.reads)) & set(map(named, sample.again))


def _distinct(group: Group) -> list[FileName]:
    return list({name.source: name for names in group for name in names}.values())


def _parts(depths: Iterable[int]) -> Iterator[Part]:
    """What may distinguish the files of two roles in one sample."""
    shallowest = min(depths, default=0)
    yield lambda name: len(name.steps)
    for depth in range(shallowest - 1):
        yield lambda name, depth=depth: name.words[depth]  # type: ignore[misc]
    yield lambda name: name.suffix
    yield lambda name: name.words[-1][-1:]
    yield lambda name: name.words[-1][:1]
    yield lambda name: tuple(word for word in name.words[-1] if not is_number(word))
    for depth in range(shallowest - 1):
        yield lambda name, depth=depth: name.words[depth][:1]  # type: ignore[misc]
        yield lambda name, depth=depth: name.words[depth][-1:]  # type: ignore[misc]


def _roles(group: Group, having: tuple[tuple[Part, object], ...]) -> Iterator[tuple[Group, Callable[[FileName], bool]]]:
    """The roles that files of each sample play, and whether another file has the parts that make one."""
    several = [names for names in group if names]
    for part in _parts(len(name.steps) for names in several for name in names):
        counts = Counter(frozenset(Counter(map(part, names)).items()) for names in several)
        (common, times), *_ = counts.most_common(1) or [(frozenset(), 0)]
        if not 2 <= len(common) <= MOST_PARTS or times < SAME_SHARE * len(several):
            continue
        same = [names if frozenset(Counter(map(part, names)).items()) == common else () for names in group]
        for value in dict.fromkeys(part(name) for names in same for name in names):
            own = [tuple(name for name in names if part(name) == value) for names in same]
            yield from _roles(own, (*having, (part, value)))
        return
    if several:
        yield group, lambda name: all(part(name) == value for part, value in having)


Key = Callable[[FileName], Words | None]


def _paired(
    indices: Sequence[Index], groups: tuple[Group, Group], places: tuple[list[FileName], list[FileName]]
) -> PairedRoles | None:
    """Two roles, if there is a key that nearly all of their files share one to one."""
    sizes = tuple(map(len, places))
    if min(sizes) < FEWEST_KEYS:
        return None
    for keys in zip(*(_keys(group, place) for group, place in zip(groups, places, strict=True)), strict=True):
        tables = tuple(_table(key, place) for key, place in zip(keys, places, strict=True))
        one, other = tables
        if one is None or other is None or min(len(one), len(other)) < FEWEST_KEYS:
            continue
        shared = one.keys() & other.keys()
        if len(shared) >= NEARLY_ALL * max(len(one), len(other)):
            pairs = list(_pairs(indices, groups, keys, (one, other)))
            folders = [_folder(group) for group in groups]
            return PairedRoles(
                (folders[0], folders[1]),
                (len(one), len(other)),
                len(shared),
                _count_without_gap(shared),
                all(_is_sorted(group, key) for group, key in zip(groups, keys, strict=True)),
                all(len(names) <= 1 for group in groups for names in group),
                _is_repeated(groups),
                _is_returning(groups),
                sum(pair is None for pair in pairs),
                tuple(pair for pair in pairs if pair is not None),
                next((one[0].source, other[0].source) for one, other in zip(*groups, strict=True) if one and other),
            )
    return None


def _keys(group: Group, place: Sequence[FileName]) -> Iterator[Key]:
    """What may be the key of a file of a role: all words that not all of its files, or of those read, have in common.

    The words of folders, or only those of the file; or only its numbers; or only the last one and the word before it.
    """
    read = _distinct(group)
    for first in (0, -1):
        for names in (place, read):
            yield _Rest(names, first)
    yield lambda name: tuple(word for word in name.words[-1] if is_number(word)) or None
    yield _labelled_number


def _labelled_number(name: FileName) -> Words | None:
    """The number at the end of a name, and the word before it, such as `fileid_7`."""
    *_, label, number = ("", "", *name.words[-1])
    return (label, number) if label and not is_number(label) and is_number(number) else None


class _Rest:
    """The words of a name without those with which each step of all these names begins or ends."""

    def __init__(self, names: Sequence[FileName], first: int) -> None:
        steps = list(zip(*(name.words[first:] for name in names), strict=True))
        self._first = first
        self._begins = [_common(step) for step in steps]
        self._ends = []
        for step, begins in zip(steps, self._begins, strict=True):
            left = [words[len(begins) :][::-1] for words in step]
            self._ends.append(_common(left)[::-1])

    def __call__(self, name: FileName) -> Words | None:
        found: list[str] = []
        for words, begins, ends in zip(name.words[self._first :], self._begins, self._ends, strict=True):
            last = len(words) - len(ends)
            if len(begins) > last or words[: len(begins)] != begins or words[last:] != ends:
                return None
            found += words[len(begins) : last]
        return tuple(found)


def _common(names: Sequence[Words]) -> Words:
    """The words with which all begin."""
    low, high = min(names), max(names)
    count = next((n for n, (one, other) in enumerate(zip(low, high, strict=False)) if one != other), None)
    return low if count is None else low[:count]


def _table(key: Key, place: Sequence[FileName]) -> dict[Words, str] | None:
    """The file of each key; None if several files have one key, or if too few have any."""
    found = {}
    count = 0
    for name in place:
        own = key(name)
        if own is not None:
            count += 1
            found[own] = name.source
    return found if count and len(found) == count else None


def _pairs(
    indices: Sequence[Index],
    groups: tuple[Group, Group],
    keys: Sequence[Key],
    tables: tuple[Mapping[Words, str], Mapping[Words, str]],
) -> Iterator[WrongPair | None]:
    """The pair of each sample that has files of both roles; None for a right one."""
    places = [{key: number for number, key in enumerate(sorted(table))} for table in tables]
    orders = [{source: number for number, source in enumerate(sorted(table.values()))} for table in tables]
    for index, *files in zip(indices, *groups, strict=True):
        one, other = ([key(name) or () for name in names] for key, names in zip(keys, files, strict=True))
        if not one or not other or not (set(one) <= tables[0].keys() and set(other) <= tables[1].keys()):
            continue
        right = set(one) == set(other) if len(one) == len(other) else bool(set(one) & set(other))
        if right:
            yield None
            continue
        first = next((number for number, key in enumerate(one) if key not in other and key in tables[1]), None)
        second = next((number for number, key in enumerate(other) if key not in one), 0)
        sources = files[0][first or 0].source, files[1][second].source
        by_key = places[1][min(other)] - places[0][min(one)]
        as_text = min(orders[1][name.source] for name in files[1]) - min(orders[0][name.source] for name in files[0])
        yield WrongPair(index, sources, None if first is None else tables[1][one[first]], (by_key, as_text))


def _is_repeated(groups: tuple[Group, Group]) -> bool:
    """Whether a file is in several samples, with different partners."""
    partners: dict[str, set[str]] = {}
    for one, other in zip(*groups, strict=True):
        if len(one) == len(other) == 1:
            partners.setdefault(one[0].source, set()).add(other[0].source)
            partners.setdefault(other[0].source, set()).add(one[0].source)
    return any(len(others) > 1 for others in partners.values())


def _is_returning(groups: tuple[Group, Group]) -> bool:
    """Whether files are in several samples, with the same partner."""
    pairs = [(one, other) for one, other in zip(*groups, strict=True) if one and other]
    return len(set(pairs)) < len(pairs)


def _is_sorted(group: Group, key: Key) -> bool:
    """Whether the files of the samples, which are in the order of their indices, are sorted by name or by number."""
    first = [names[0] for names in group if names]
    sources = [name.source for name in first]
    keys = [key(name) or () for name in first]
    return any(order == sorted(order, reverse=backward) for order in (sources, keys) for backward in (False, True))


def _count_without_gap(keys: Iterable[Words]) -> bool:
    """Whether keys are numbers that count from 0 or 1 on, in each folder whose own name is a number."""
    numbers: dict[Words, list[str]] = {}
    for key in keys:
        if not key or not all(is_number(word) and "." not in word for word in key):
            return False
        numbers.setdefault(key[:-1], []).append(key[-1])
    return all(min(map(int, own)) in (0, 1) and max(map(int, own)) < len(own) / NEARLY_ALL for own in numbers.values())


def _folder(group: Group) -> str:
    """How a role is called: the folders that all of its files have in common, or the name of one."""
    names = _distinct(group)
    step = next((n for n in range(len(names[0].steps)) if len({name.steps[: n + 1] for name in names}) > 1), 0)
    return "/".join(names[0].steps[:step])
