"""The forms of labels in a batch: class indices, one-hot rows, class probabilities. Standard library only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import TYPE_CHECKING

from dataguard.checks.common.labels import (
    FEWEST_PER_VALUE,
    MEAN_PER_VALUE,
    SMALLER,
    VOID,
    batches_of,
    candidates,
    classes_of,
    is_named,
    is_presumed_label,
    samples_of,
)

if TYPE_CHECKING:
    from dataguard.lab.core.records import Numbers, Row, ValueSummary
    from dataguard.lab.lab import Lab

SUM_TOLERANCE = 1e-3
"""The tolerance for the sum of probabilities: float16 has steps of that size around 1."""
FEWEST_VALUES = 3
"""Fewest different integers that count as classes: two may be binary targets, which binary losses take as floats."""
_MOST_WRONG = 0.1
"""The most different values that are no class index, as a share of the classes, in a leaf that holds such indices."""


@dataclass(frozen=True, slots=True)
class Table:
    """A leaf of batches that has an entry for each sample and is smaller than another leaf.

    `numbers` are its values, batch by batch; `first` are the indices of the first batch.
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
        """Whether its values are floats."""
        return self.numbers[0].is_float

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in the first batch."""
        return self.numbers[0].shape

    @property
    def rank(self) -> int:
        """Its number of axes, the batch axis included."""
        return len(self.shape)

    @property
    def width(self) -> int | None:
        """The length of its rows, if it has two axes."""
        return self.shape[1] if self.rank == 2 else None

    @property
    def values(self) -> set[int] | None:
        """Its distinct values, if all are integers and few; else None."""
        counts = [numbers.counts for numbers in self.numbers if numbers.whole]
        whole = len(counts) == len(self.numbers) and None not in counts
        return {value for values in counts for value in values or ()} if whole else None

    @property
    def rows(self) -> list[Row]:
        """Its rows in all batches."""
        return [row for numbers in self.numbers for row in numbers.rows] if self.rank == 2 else []

    @property
    def named(self) -> bool:
        """Whether it has the name of a label."""
        return is_named(self.path)

    @property
    def one_hot(self) -> bool:
        """Whether each row has a single 1 and otherwise zeros."""
        flags = ((row.sum, row.largest, row.second, row.least) == (1, 1, 0, 0) for row in self.rows)
        return bool(self.rows) and all(flags)

    @property
    def is_probabilities(self) -> bool:
        """Whether each row is non-negative and sums to 1."""
        rows = self.rows
        return bool(rows) and all(row.least >= 0 and _is_one(row.sum) for row in rows)

    @property
    def spelled(self) -> str:
        """Its type and shape, with N for the batch size."""
        sizes = ", ".join(["N", *map(str, self.shape[1:])])
        return f"{self.type_name} of shape ({sizes}{',' if self.rank == 1 else ''})"


def tables(lab: Lab) -> list[Table]:
    """The leaves of batches that may be labels, in order."""
    epoch = lab.epoch
    batches = batches_of(epoch.value_summaries)
    members: dict[tuple[int | None, int], list[ValueSummary]] = defaultdict(list)
    for sample in samples_of(epoch.value_summaries):
        members[sample.worker, sample.batch].append(sample)
    by_path: dict[str, list[tuple[Numbers, list[ValueSummary]]]] = defaultdict(list)
    for batch in epoch.batches:
        batch_key = (batch.worker, batch.batch)
        if batch_key not in batches or batch.incident:
            continue
        strings = any(leaf.kind == "str" for leaf in batch.leaves)
        largest = max((leaf.size for leaf in batch.leaves), default=0)
        for numbers in batches[batch_key].numbers:
            small = SMALLER * numbers.size <= largest or strings or (len(numbers.shape) > 2 and numbers.size < largest)
            small = small or _is_beside_rows(numbers, batches[batch_key].numbers)
            if small and numbers.shape and numbers.shape[0] == batch.size:
                by_path[numbers.path].append((numbers, members[batch_key]))
    return [
        Table(path, [numbers for numbers, _ in seen], [summary.index for summary in seen[0][1]])
        for path, seen in by_path.items()
        if len({len(numbers.shape) for numbers, _ in seen}) == 1
    ]


def _is_beside_rows(numbers: Numbers, all_of_them: Sequence[Numbers]) -> bool:
    """Whether the only other leaf is rows of a few floats, larger than this one."""
    others = [other for other in all_of_them if other is not numbers]
    return len(others) == 1 and others[0].is_float and len(others[0].shape) == 2 and numbers.size < others[0].size


def fits(table: Table, form: str, classes: int | None) -> bool:
    """Whether a leaf has a form that the contract may declare, for this many classes if that is known."""
    values, wide = table.values, classes is None or table.width == classes
    if form == "index":
        inside = values is None or classes is None or any(0 <= value < classes for value in values)
        channels = table.rank > 1 and table.shape[1] == 1
        return table.type_name == "int64" and not channels and inside
    if form == "one-hot":
        return table.one_hot and wide
    if form == "soft":
        return table.is_float and table.is_probabilities and wide
    if form == "binary":
        return values is not None and values <= {0, 1} and (table.width in (None, 1))
    if form == "multilabel":
        return values is not None and values <= {0, 1} and table.rank == 2 and wide
    return table.is_float


def inferred(lab: Lab, label_tables: Sequence[Table]) -> int | None:
    """The number of classes, inferred from the only leaf that may be a label.

    It has a column for each class, or each of the indices many times. Floats count as indices only beside images, or
    with the name of a label, because counts in forecasting look the same.
    """
    table = label_tables[0] if len(label_tables) == 1 else None
    if table is None or not is_presumed_label(lab, table.path):
        return None
    if table.rank == 2 and table.width != 1:
        return table.width
    values, entries = table.values or set(), sum(numbers.shape[0] for numbers in table.numbers)
    clear = not table.is_float or table.named or any(len(leaf.shape or ()) > 2 for leaf in lab.epoch.samples[0].leaves)
    often = FEWEST_PER_VALUE if table.width == 1 and not table.is_float else MEAN_PER_VALUE
    every = values == set(range(len(values))) and entries >= often * len(values)
    return len(values) if values and clear and every else None


def float_indices(lab: Lab) -> str | None:
    """The path of labels that hold class indices as floats, which DG503 reports; None without such labels."""
    if not lab.facts.batched or lab.settings.contract.get("target_form"):
        return None
    classes, label_tables = classes_of(lab), tables(lab)
    count = classes.count if classes else inferred(lab, label_tables)
    wrong = misread_among(lab, label_tables, count) if count else None
    return wrong[0].path if wrong and wrong[0].is_float and wrong[0].width in (None, 1) else None


def misread_among(lab: Lab, label_tables: Sequence[Table], classes: int) -> tuple[Table, str] | None:
    """The first leaf that every loss misreads, and why; None if a loss accepts one as it is."""
    if any(_is_usual(table, classes) for table in label_tables):
        return None
    return next(((table, wrong) for table in label_tables if (wrong := misread(lab, table, classes))), None)


def _is_usual(table: Table, classes: int) -> bool:
    """Whether cross entropy or binary cross entropy accepts a leaf as it is."""
    few = table.values is None or len(table.values) <= classes + 1
    usual = fits(table, "index", classes) and table.rank == 1 and few
    several = fits(table, "multilabel", classes) and not table.one_hot
    return usual or several or fits(table, "soft", classes)


def misread(lab: Lab, table: Table, classes: int) -> str | None:
    """What is wrong with labels of this many classes under every loss; None if some loss accepts them."""
    values = table.values
    outside = sorted(value for value in values or () if not 0 <= value < classes)
    indices = values is not None and len(values) >= FEWEST_VALUES <= classes and len(outside) <= _MOST_WRONG * classes
    if indices and (table.width == 1 or (table.is_float and table.rank == 1)):
        wrong = f", and {outside[0]} is none of the {classes} classes" if outside else ""
        return f"holds class indices as {table.spelled}: cross entropy expects int64 of shape (N,){wrong}"
    if table.is_float and table.rank == 1 and values is None and _were_indices(lab, table, classes):
        return f"holds class indices that collate_fn mixes into fractions: mix one-hot rows of the {classes} classes"
    if table.width != classes or classes < 2 or not table.rows:
        return None
    if table.one_hot and not table.is_float and len(table.rows) > 1:
        return f"holds one-hot rows as {table.spelled}: cross entropy expects floats, or class indices"
    uneven = _is_scaled(table.rows) or _was_an_index(lab, table) or _were_probabilities(lab, table)
    if table.is_float and not table.is_probabilities and uneven:
        sums = [row.sum for row in table.rows if not _is_one(row.sum)]
        ends = dict.fromkeys((f"{min(sums):.3g}", f"{max(sums):.3g}"))
        return f"holds probabilities of {classes} classes that sum to {' to '.join(ends)} instead of 1"
    return None


def _is_scaled(rows: Sequence[Row]) -> bool:
    """Whether every row has one large value among equal small ones, and neither the row nor such a pair sums to 1.

    Binary cross entropy per class takes such pairs: 0.95 among values of 0.05.
    """
    first = rows[0]
    on, off = first.largest, first.least
    alike = all(
        all(isclose(*pair, abs_tol=SUM_TOLERANCE) for pair in ((row.largest, on), (row.second, off), (row.least, off)))
        for row in rows
    )
    return alike and len(rows) > 1 and on > off >= 0 and not _is_one(on + off)


def _was_an_index(lab: Lab, table: Table) -> bool:
    """Whether collate_fn made each row from one class index, so that it must sum to 1."""
    nonnegative = all(row.least >= 0 for row in table.rows)
    return nonnegative and any(labels.path == table.path for labels in candidates(lab))


def _were_indices(lab: Lab, table: Table, classes: int) -> bool:
    """Whether collate_fn mixes class indices of three classes or more into more values than there are classes."""
    labels = next((candidate for candidate in candidates(lab) if candidate.path == table.path), None)
    several = labels is not None and len(labels.values) >= FEWEST_VALUES and not labels.outside(classes, ())
    return several and len({value for numbers in table.numbers for value in numbers.values}) > classes


def _were_probabilities(lab: Lab, table: Table) -> bool:
    """Whether collate_fn mixes rows that sum to 1 into rows that do not.

    Integer rows are multilabel targets, for example of overlaid sounds.
    """
    summaries = samples_of(lab.epoch.value_summaries)
    numbers = [leaf for sample in summaries for leaf in sample.numbers if leaf.path == table.path]
    single = all(leaf.shape == (table.width,) and leaf.low >= 0 and _is_one(sum(leaf.values)) for leaf in numbers)
    mixed = all(row.least >= 0 for row in table.rows) and not all(leaf.whole for leaf in table.numbers)
    return bool(numbers) and single and mixed


def _is_one(total: float) -> bool:
    return isclose(total, 1, abs_tol=SUM_TOLERANCE)


def divided(lab: Lab, classes: int) -> Mapping[str, str]:
    """The masks whose class indices were divided by 255, by path, with a message."""
    divided_indices: dict[str, set[int]] = defaultdict(set)
    whole: set[str] = set()
    for path, numbers in _masks(lab):
        if numbers.divided and numbers.counts is not None:
            divided_indices[path] |= set(numbers.counts)
        elif numbers.high > 0:
            whole.add(path)
    return {
        path: f"holds class indices divided by 255, up to {max(values) / 255:.3g}"
        for path, values in divided_indices.items()
        if path not in whole and max(values - {VOID}) < classes
    }


def _masks(lab: Lab) -> Iterator[tuple[str, Numbers]]:
    """Float leaves in the shape of masks, beside a larger leaf."""
    for sample in samples_of(lab.epoch.value_summaries):
        for numbers in sample.numbers:
            height_width = numbers.shape[-2:]
            images = (
                image for image in sample.numbers if image.shape[-2:] == height_width and image.size > numbers.size
            )
            if numbers.is_float and len(numbers.shape) in (2, 3) and any(images):
                yield numbers.path, numbers
