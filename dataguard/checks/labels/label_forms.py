"""The forms in which labels reach a model: numbers of classes, ones and zeros, shares. Standard library only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import TYPE_CHECKING

from dataguard.checks.common.labels import SMALLER, batches_of, candidates, is_named, samples_of
from dataguard.checks.labels.class_numbers import MANY, stands_as_label

if TYPE_CHECKING:
    from dataguard.lab.core.value_summary import Appraisal, Numbers, Row
    from dataguard.lab.lab import Lab

SUM = 1e-3
"""How far the sum of shares may be off."""
FEWEST_VALUES = 3
"""Different whole numbers that are classes: two may be yes and no, which losses for these take as floats."""


@dataclass(frozen=True, slots=True)
class Table:
    """A leaf of batches that has an entry for each sample and is small against another one.

    `path` is that of the leaf; `numbers` are what it holds, batch by batch; `first` are the samples of the first batch.
    """

    path: str
    numbers: Sequence[Numbers]
    first: Sequence[object]

    @property
    def type_name(self) -> str:
        """The type of its values."""
        return self.numbers[0].type_name

    @property
    def is_float(self) -> bool:
        """Whether its values are floating point numbers."""
        return self.numbers[0].is_float

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in the first batch."""
        return self.numbers[0].shape

    @property
    def rank(self) -> int:
        """How many axes it has, that of samples among them."""
        return len(self.shape)

    @property
    def width(self) -> int | None:
        """The length of its rows, where it is a table of them."""
        return self.shape[1] if self.rank == 2 else None

    @property
    def values(self) -> set[int] | None:
        """The whole numbers that it holds; None where there are others, or many."""
        counts = [one.counts for one in self.numbers if one.whole]
        whole = len(counts) == len(self.numbers) and None not in counts
        return {value for one in counts for value in one or ()} if whole else None

    @property
    def rows(self) -> list[Row]:
        """Its rows, of all batches."""
        return [row for one in self.numbers for row in one.rows] if self.rank == 2 else []

    @property
    def named(self) -> bool:
        """Whether it is called like a label."""
        return is_named(self.path)

    @property
    def one_hot(self) -> bool:
        """Whether each row has a single 1 among zeros."""
        flags = ((row.sum, row.largest, row.second, row.least) == (1, 1, 0, 0) for row in self.rows)
        return bool(self.rows) and all(flags)

    @property
    def shares(self) -> bool:
        """Whether each row holds shares of one whole."""
        rows = self.rows
        return bool(rows) and all(row.least >= 0 and _is_one(row.sum) for row in rows)

    @property
    def spelled(self) -> str:
        """Its type and shape, with N samples."""
        sizes = ", ".join(["N", *map(str, self.shape[1:])])
        return f"{self.type_name} of shape ({sizes}{',' if self.rank == 1 else ''})"


def tables(lab: Lab) -> list[Table]:
    """The leaves of batches that may be labels, in their order."""
    epoch = lab.epoch
    batches = batches_of(epoch.appraisals)
    members: dict[tuple[int | None, int], list[Appraisal]] = defaultdict(list)
    for sample in samples_of(epoch.appraisals):
        members[sample.worker, sample.batch].append(sample)
    found: dict[str, list[tuple[Numbers, list[Appraisal]]]] = defaultdict(list)
    for batch in epoch.batches:
        place = (batch.worker, batch.batch)
        if place not in batches or batch.incident:
            continue
        texts = any(leaf.kind == "str" for leaf in batch.leaves)
        largest = max((leaf.size for leaf in batch.leaves), default=0)
        for numbers in batches[place].numbers:
            small = SMALLER * numbers.size <= largest or texts or (len(numbers.shape) > 2 and numbers.size < largest)
            small = small or _is_beside_rows(numbers, batches[place].numbers)
            if small and numbers.shape and numbers.shape[0] == batch.size:
                found[numbers.path].append((numbers, members[place]))
    return [
        Table(path, [numbers for numbers, _ in seen], [one.index for one in seen[0][1]])
        for path, seen in found.items()
        if len({len(numbers.shape) for numbers, _ in seen}) == 1
    ]


def _is_beside_rows(numbers: Numbers, all_of_them: Sequence[Numbers]) -> bool:
    """Whether rows of a few measurements, wider than it is, are all there is beside a leaf."""
    others = [one for one in all_of_them if one is not numbers]
    return len(others) == 1 and others[0].is_float and len(others[0].shape) == 2 and numbers.size < others[0].size


def fits(table: Table, form: str, classes: int | None) -> bool:
    """Whether a leaf has a form that the contract may name, for so many classes where that is known."""
    values, wide = table.values, classes is None or table.width == classes
    if form == "index":
        inside = values is None or classes is None or any(0 <= value < classes for value in values)
        channels = table.rank > 1 and table.shape[1] == 1
        return table.type_name == "int64" and not channels and inside
    if form == "one-hot":
        return table.one_hot and wide
    if form == "soft":
        return table.is_float and table.shares and wide
    if form == "binary":
        return values is not None and values <= {0, 1} and (table.width in (None, 1))
    if form == "multilabel":
        return values is not None and values <= {0, 1} and table.rank == 2 and wide
    return table.is_float


def guessed(lab: Lab, found: Sequence[Table]) -> int | None:
    """How many classes the only leaf that may be a label tells of itself, where nobody else does.

    It has a column for each, or all of their numbers, again and again. Floats are taken for such numbers beside images
    alone, or by their name: what is counted and forecast looks like that, too.
    """
    table = found[0] if len(found) == 1 else None
    if table is None or not stands_as_label(lab, table.path):
        return None
    if table.rank == 2 and table.width != 1:
        return table.width
    values, entries = table.values or set(), sum(one.shape[0] for one in table.numbers)
    clear = not table.is_float or table.named or any(len(leaf.shape or ()) > 2 for leaf in lab.epoch.samples[0].leaves)
    every = values == set(range(len(values))) and entries >= MANY * len(values)
    return len(values) if clear and every else None


def misread(lab: Lab, table: Table, classes: int) -> str | None:
    """What is wrong with the form of labels of so many classes, whatever the loss; None where some loss may mean it."""
    values = table.values
    numbered = (
        values is not None and len(values) >= FEWEST_VALUES <= classes and 0 <= min(values) <= max(values) < classes
    )
    if numbered and (table.width == 1 or (table.is_float and table.rank == 1)):
        return f"holds numbers of classes as {table.spelled}: cross entropy takes them as int64 of shape (N,)"
    if table.is_float and table.rank == 1 and values is None and _was_a_class(lab, table, classes):
        return f"holds numbers of classes that collate_fn mixes to fractions: mix shares of the {classes} classes"
    if table.width != classes or classes < 2 or not table.rows:
        return None
    if table.one_hot and not table.is_float and len(table.rows) > 1:
        return f"holds ones and zeros as {table.spelled}: cross entropy takes shares as floats, or numbers of classes"
    broken = _is_scaled(table.rows) or _was_a_number(lab, table) or _were_shares(lab, table)
    if table.is_float and not table.shares and broken:
        sums = [row.sum for row in table.rows if not _is_one(row.sum)]
        ends = dict.fromkeys((f"{min(sums):.3g}", f"{max(sums):.3g}"))
        return f"holds shares of {classes} classes whose sum is not 1 but {' to '.join(ends)}"
    return None


def _is_scaled(rows: Sequence[Row]) -> bool:
    """Whether every row has one large value among equal small ones, which add up neither to 1, nor to 1 in pairs.

    A loss for yes and no, class by class, takes such pairs: 0.95 among values of 0.05.
    """
    first = rows[0]
    on, off = first.largest, first.least
    alike = all(
        all(isclose(*pair, abs_tol=SUM) for pair in ((row.largest, on), (row.second, off), (row.least, off)))
        for row in rows
    )
    return alike and len(rows) > 1 and on > off >= 0 and not _is_one(on + off)


def _was_a_number(lab: Lab, table: Table) -> bool:
    """Whether collate_fn made the rows of numbers of classes, one for each sample, so that shares have to sum to 1."""
    nonnegative = all(row.least >= 0 for row in table.rows)
    return nonnegative and any(labels.path == table.path for labels in candidates(lab))


def _was_a_class(lab: Lab, table: Table, classes: int) -> bool:
    """Whether collate_fn mixes numbers of classes, beyond yes and no: it makes more values than there are classes."""
    labels = next((one for one in candidates(lab) if one.path == table.path), None)
    several = labels is not None and len(labels.values) >= FEWEST_VALUES and not labels.outside(classes, ())
    return several and len({value for one in table.numbers for value in one.values}) > classes


def _were_shares(lab: Lab, table: Table) -> bool:
    """Whether collate_fn mixes shares that sum to 1 to others that do not.

    Whole numbers are several answers of yes and no, as of sounds that are laid over each other.
    """
    numbers = [one for sample in samples_of(lab.epoch.appraisals) for one in sample.numbers if one.path == table.path]
    shares = all(one.shape == (table.width,) and one.low >= 0 and _is_one(sum(one.values)) for one in numbers)
    mixed = all(row.least >= 0 for row in table.rows) and not all(one.whole for one in table.numbers)
    return bool(numbers) and shares and mixed


def _is_one(total: float) -> bool:
    return isclose(total, 1, abs_tol=SUM)


def divided(lab: Lab, classes: int) -> Mapping[str, str]:
    """The masks whose numbers of classes were divided by 255, by their path, with what is said of them."""
    found: dict[str, set[int]] = defaultdict(set)
    whole: set[str] = set()
    for path, numbers in _masks(lab):
        if numbers.divided and numbers.counts is not None:
            found[path] |= set(numbers.counts)
        elif numbers.high > 0:
            whole.add(path)
    return {
        path: f"holds the numbers of classes divided by 255, up to {max(values) / 255:.3g}"
        for path, values in found.items()
        if path not in whole and 0 < max(values - {_VOID}, default=0) < classes
    }


_VOID = 255


def _masks(lab: Lab) -> Iterator[tuple[str, Numbers]]:
    """Leaves of floats in the shape of masks, beside something larger."""
    for sample in samples_of(lab.epoch.appraisals):
        for numbers in sample.numbers:
            height_width = numbers.shape[-2:]
            images = (one for one in sample.numbers if one.shape[-2:] == height_width and one.size > numbers.size)
            if numbers.is_float and len(numbers.shape) in (2, 3) and any(images):
                yield numbers.path, numbers
