"""Which leaf of a sample is its label, how many classes there are, and which of them were seen. Standard library only.

A label is told by its type and its place: whole numbers that are few beside a larger input. Names of leaves only decide
between several of that kind.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataguard.lab.core.index import Index
    from dataguard.lab.core.records import Leaf, SampleRecord
    from dataguard.lab.core.value_summary import Appraisal, Numbers
    from dataguard.lab.lab import Lab
    from dataguard.lab.labels.class_names import Naming

SMALLER = 8
"""How many times smaller than an input a label is at least, if it is no single value."""
REPEATS = 0.5
"""The share of distinct values above which a leaf tells samples apart, and is no class."""
MOSTLY, NEARLY = 0.5, 0.95
"""The share of values that are numbers of classes, from which on a leaf counts as a label: one that repeats, or not."""
UNLABELLED = -1
VOID = 255
"""What marks pixels without a class in masks of 8 bits, by convention."""
IGNORED = -100
"""What torch's cross entropy leaves out by default."""
_LABEL = re.compile(r"label|target|class|categor|annotation|\bgt|ground_?truth|\['?y'?\]|\.y$", re.IGNORECASE)
_ENTRY = re.compile(r"(?<=.)\[\d+\]")
_LAST = re.compile(r"\[\d+\]$")


class Kind(Enum):
    """Of what there is one label."""

    SAMPLE = "sample"
    BOX = "box"
    TOKEN = "token"
    PIXEL = "pixel"


@dataclass(frozen=True, slots=True)
class Classes:
    """The number of classes, and who says so."""

    count: int
    source: str
    declared: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """A sample that has some label, and the worker and the batch in which it was seen, if it was."""

    index: Index
    batch: tuple[int | None, int] | None = None


@dataclass(frozen=True, slots=True)
class Labels:
    """A leaf of whole numbers that may be labels: how many there are of each, in how many samples, and in which first.

    `of` is the number of samples, and `fixed` tells that the leaf has one shape in all of them. `table` is where the
    dataset keeps the labels of all its samples, where these are counted.
    """

    path: str
    kind: Kind
    type_name: str
    values: Mapping[int, int]
    samples: Mapping[int, int]
    first: Mapping[int, Seen]
    of: int
    fixed: bool
    table: str | None = None

    @property
    def repeats(self) -> bool:
        """Whether values come again and again, as classes do, and numbers of samples do not."""
        return self.kind is not Kind.SAMPLE or len(self.values) <= max(REPEATS * self.of, 1)

    @property
    def named(self) -> bool:
        """Whether the leaf is called like a label."""
        return is_named(self.path)

    def inside(self, count: int) -> float:
        """The share of values that are numbers of so many classes, or the next one."""
        known = sum(times for value, times in self.values.items() if 0 <= value <= count or value in _MARKS)
        return known / max(sum(self.values.values()), 1)

    def outside(self, count: int, ignored: Collection[int]) -> list[int]:
        """Values that are no number of so many classes."""
        return sorted(value for value in self.values if not 0 <= value < count and value not in ignored)


def is_named(path: str) -> bool:
    """Whether a leaf is called like a label."""
    return bool(_LABEL.search(path))


_MARKS = (UNLABELLED, VOID, IGNORED)


def numbered(lab: Lab, found: Sequence[Labels]) -> list[tuple[Classes, list[Labels]]]:
    """How many classes there are, with the leaves that may number them.

    The contract tells it, else the dataset, which may do so of single leaves.
    """
    declared = lab.settings.contract.get("num_classes")
    if declared is not None:
        return [(Classes(int(declared), "the contract says", declared=True), list(found))]
    namings = lab.dataset.namings
    own = {naming.leaf: naming for naming in namings if naming.leaf is not None}
    told = [(_classes(own[one.path]), [one]) for one in found if one.path in own]
    general = [naming for naming in namings if naming.leaf is None]
    return told or [(_classes(naming), list(found)) for naming in general[:1]]


def classes_of(lab: Lab) -> Classes | None:
    """How many classes there are, whatever numbers them; None where nobody says so, or it is said of single leaves."""
    told = numbered(lab, ())
    return told[0][0] if told else None


def _classes(naming: Naming) -> Classes:
    return Classes(naming.count, f"{naming.where} tells", declared=False)


def ignored(contract: Mapping[str, Any]) -> tuple[int, ...]:
    """The values that stand for no class, as the contract says; torch's own where it says nothing."""
    given = contract.get("ignore_index", IGNORED)
    return tuple(given) if isinstance(given, list | tuple) else (int(given),)


def samples_of(appraisals: Iterable[Appraisal]) -> list[Appraisal]:
    """The appraisals of samples, those of batches left out."""
    return [one for one in appraisals if one.position is not None]


def records_of(lab: Lab) -> dict[tuple[int | None, int, int | None], SampleRecord]:
    """The samples of the epoch by worker, batch and position, as appraisals have them."""
    return {(one.worker, one.batch, one.position): one for one in lab.epoch.samples}


def batches_of(appraisals: Iterable[Appraisal]) -> dict[tuple[int | None, int], Appraisal]:
    """The appraisals of batches, by worker and number."""
    return {(one.worker, one.batch): one for one in appraisals if one.position is None}


def candidates(lab: Lab) -> list[Labels]:
    """The leaves of whole numbers that may be labels, in their order."""
    records = records_of(lab)
    found: dict[str, list[tuple[Appraisal, Numbers]]] = defaultdict(list)
    appraised = samples_of(lab.epoch.appraisals)
    for one in appraised:
        for numbers in one.numbers:
            found[_ENTRY.sub("[*]", numbers.path)].append((one, numbers))
    labels = []
    for path, seen in found.items():
        # Of a scan of all samples, those that bring a new label late have no record.
        known = [(numbers, one.numbers, record) for one, numbers in seen if (record := records.get(one.place))]
        kind = _common([_kind(*each) for each in known], {numbers.shape for _, numbers in seen})
        counted = all(numbers.counts is not None for _, numbers in seen)
        if kind is not None and counted and 2 * len({id(one) for one, _ in seen}) > len(appraised):
            labels.append(_gathered(path, kind, seen))
    return labels


def _common(kinds: Sequence[Kind | None], shapes: Collection[tuple[int, ...]]) -> Kind | None:
    """The kind that a leaf has in all samples; of one that is a single number in each, some inputs may be short."""
    told = set(kinds) - {None}
    short = kinds.count(None)
    if len(told) != 1 or (short and (told != {Kind.SAMPLE} or len(shapes) > 1 or 2 * short > len(kinds))):
        return None
    return told.pop()


def _gathered(path: str, kind: Kind, seen: Sequence[tuple[Appraisal, Numbers]]) -> Labels:
    values: Counter[int] = Counter()
    samples: Counter[int] = Counter()
    first: dict[int, Seen] = {}
    for one, numbers in seen:
        values.update(numbers.counts or {})
        samples.update((numbers.counts or {}).keys())
        for value in numbers.counts or {}:
            first.setdefault(value, Seen(one.index, (one.worker, one.batch)))
    of = len({id(one) for one, _ in seen})
    return Labels(path, kind, seen[0][1].type_name, values, samples, first, of, len({n.shape for _, n in seen}) == 1)


def _kind(numbers: Numbers, beside: Sequence[Numbers], record: SampleRecord) -> Kind | None:
    """Of what these whole numbers may be the labels, by their shape and by what stands beside them."""
    if numbers.is_float or numbers.type_name == "bool":
        return None
    shape = numbers.shape
    others = [one for one in beside if one is not numbers]
    if len(shape) == 1 and any(one.shape == (*shape, 4) for one in others):
        return Kind.BOX
    if numbers.size == 1:
        large = any(_is_input(leaf) for leaf in record.leaves) or _is_row(others)
        return Kind.SAMPLE if large or _beside_list(numbers, record) else None
    if len(shape) == 1:
        return Kind.TOKEN if any(one.shape == shape and not one.is_float for one in others) else None
    height_width = shape if len(shape) == 2 else shape[1:] if len(shape) == 3 and shape[0] == 1 else None
    images = [leaf for leaf in record.leaves if leaf.path != numbers.path and _is_image_of(leaf, height_width)]
    return Kind.PIXEL if height_width and images else None


def _is_input(leaf: Leaf) -> bool:
    """Whether a leaf is large enough for an input of one label: many values, or a text."""
    return leaf.size >= SMALLER if leaf.shape is not None else leaf.kind in ("str", "bytes")


def _beside_list(numbers: Numbers, record: SampleRecord) -> bool:
    """Whether a number stands beside a list of numbers that is as long as an input, such as tokens, and not in it."""
    lists = Counter(
        _LAST.sub("", leaf.path) for leaf in record.leaves if leaf.kind == "int" and _LAST.search(leaf.path)
    )
    long = [path for path, length in lists.items() if length >= SMALLER]
    return bool(long) and _LAST.sub("", numbers.path) not in long


def _is_row(beside: Sequence[Numbers]) -> bool:
    """Whether a short row of measurements is all there is beside a number: the input of a table with few columns."""
    return len(beside) == 1 and beside[0].is_float and 1 < beside[0].size == beside[0].shape[-1]


def _is_image_of(leaf: Leaf, height_width: tuple[int, ...] | None) -> bool:
    shape = leaf.shape or ()
    if height_width is None:
        return False
    if leaf.kind == "PIL.Image":
        return shape[::-1] == height_width
    return len(shape) == 3 and height_width in (shape[1:], shape[:2])


def whole(lab: Lab, labels: Labels) -> Labels:
    """The labels of all samples, where the dataset keeps a table that agrees with those that were seen."""
    if labels.kind is not Kind.SAMPLE or lab.facts.kind == "stream":
        return labels
    seen = [
        (one.index, int(numbers.low))
        for one in samples_of(lab.epoch.appraisals)
        for numbers in one.numbers
        if numbers.path == labels.path and isinstance(one.index, int)
    ]
    table = lab.dataset.table(tuple(seen))
    if table is None or not table.counts.keys() >= labels.values.keys():
        return labels
    first = {**{value: Seen(index) for value, index in table.first.items()}, **labels.first}
    return replace(
        labels, values=table.counts, samples=table.counts, first=first, of=sum(table.counts.values()), table=table.where
    )


def chosen(found: Sequence[Labels], count: int, *, declared: bool) -> Labels | None:
    """The leaf that holds the labels, of so many classes; None where it is not clear which one does.

    Where several may, one that keeps to the classes is taken to be it, unless another one alone is called like a label.
    """
    fitting = [one for one in found if one.inside(count) >= (MOSTLY if one.repeats else NEARLY)]
    fitting = [one for one in fitting if declared or one.kind is not Kind.TOKEN]
    if declared and not fitting:  # whoever says how many classes there are may mean a leaf that keeps to none of them
        fitting = [one for one in found if one.named and one.repeats]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    named = [one for one in fitting if one.named]
    if len(named) == 1:
        return named[0]
    whole = [one for one in named or fitting if not one.outside(count, _MARKS)]
    return whole[0] if whole else None
