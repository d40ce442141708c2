"""Class indices: how many samples each class has, and which values mark no class. Standard library only."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dataguard.checks.common.label_kinds import SMALLER, Kind
from dataguard.checks.common.labels import (
    UNLABELLED,
    VOID,
    Classes,
    Labels,
    batches_of,
    ignored,
    is_named,
    of_all_samples,
)

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


def balance(labels: Labels, void: Collection[int], classes: Classes | None = None) -> str:
    """The number of samples per class in one line; for pixels, boxes and tokens, the samples that contain the class."""
    limit = math.inf if classes is None else classes.count
    counts = {value: labels.samples[value] for value in sorted(labels.samples) if 0 <= value < limit}
    if not counts:
        return f"sample{labels.path} has no class"
    number = f"{len(counts)} classes" if len(counts) != 1 else "one class"
    seen = number if classes is None or classes.count == len(counts) else f"{len(counts)} of {limit} classes"
    if len(counts) <= SHOWN:
        table = ", ".join(f"{value} × {times}" for value, times in counts.items())
    else:
        rarest = min(counts, key=lambda value: counts[value])
        table = f"{min(counts.values())} to {max(counts.values())} of each, the rarest is {rarest}"
    marks = [value for value in labels.values if value in void and not 0 <= value <= limit]
    verb = "marks" if len(marks) == 1 else "mark"
    unlabelled = f"; {' and '.join(map(str, marks))} {verb} no class" if marks else ""
    return f"sample{labels.path} has {seen} in {labels.of} samples: {table}{unlabelled}"


SHOWN = 12
"""Up to this many classes, the count of each is listed."""


def meaningless(contract: Mapping[str, Any], labels: Labels, classes: Classes) -> tuple[int, ...]:
    """The values of a label that may mark no class, or a background class that is not counted."""
    void, declared = ignored(contract), classes.declared
    if labels.kind is Kind.PIXEL and "ignore_index" not in contract:
        undivided = set(labels.values) == {0, VOID} and labels.type_name != "uint8"
        background = () if declared or 0 not in labels.values else (classes.count,)  # class names may omit it
        return (*void, *background, *(() if declared else (UNLABELLED,)), *(() if undivided or declared else (VOID,)))
    if declared:
        return void
    if labels.kind is Kind.BOX:  # torchvision's detectors count a background first
        return (*void, classes.count, *((UNLABELLED,) if labels.fixed else ()))
    signs = set(labels.values) == {-1, 1} and classes.count == 2
    unlabelled = 2 * labels.values.get(UNLABELLED, 0) >= sum(labels.values.values())
    return (*void, UNLABELLED) if signs or unlabelled else void


def inferred(lab: Lab, found: Sequence[Labels]) -> tuple[Labels, Classes] | None:
    """The likely number of classes if it is not declared, and if some labels are then out of range.

    Only a leaf with the name of a label counts, or one without a name that is not beside tokens, whose next one it may
    be. Every value must occur in several samples, and enough samples were seen that a gap is no coincidence.
    """
    likely = [one for one in found if one.repeats and one.kind in (Kind.SAMPLE, Kind.PIXEL)]
    labels = likely[0] if len(likely) == 1 else None
    if labels is None or not is_presumed_label(lab, labels.path):
        return None
    numbers = sorted(labels.values)
    count = sum(number >= 0 for number in numbers)
    often = min(labels.samples.values()) >= FEWEST and labels.of >= MANY * len(numbers)
    if not often or count < 2 or not _is_odd(labels, numbers, count):
        return None
    return labels, Classes(count, "the labels look like", declared=False)


FEWEST, MANY = 4, 8
"""The least number of samples with each value, and of samples per value."""


def is_presumed_label(lab: Lab, path: str) -> bool:
    """Whether a leaf has the name of a label, or no name in samples without tokens."""
    return is_named(path) or (bool(_PLACE.match(path)) and not _has_tokens(lab))


_PLACE = re.compile(r"\[\d+\]$")


def _is_odd(labels: Labels, numbers: Sequence[int], count: int) -> bool:
    """Whether these values are not 0 to count - 1: they start at 1, have gaps, or include a mark for no class."""
    if labels.kind is Kind.PIXEL:  # a rare class is in few masks, and 255 marks edges
        undivided = numbers == [0, VOID] and labels.type_name != "uint8"
        return undivided or numbers == list(range(1, count + 1))
    marked = numbers == list(range(UNLABELLED, count)) and 2 * labels.values[UNLABELLED] < sum(labels.values.values())
    return marked or numbers[0] == 1 == numbers[-1] - count + 1 or (numbers[0] >= 0 and _has_gaps(numbers))


def _has_tokens(lab: Lab) -> bool:
    """Whether a sample holds a row of integers, like tokens."""
    leaves = lab.epoch.samples[0].leaves
    return any(len(leaf.shape or ()) == 1 and leaf.size >= SMALLER and "int" in (leaf.dtype or "") for leaf in leaves)


def _has_gaps(numbers: Sequence[int]) -> bool:
    return numbers[-1] - numbers[0] >= len(numbers)


def balance_without_count(lab: Lab, found: Sequence[Labels]) -> str | None:
    """The class balance of the only likely label if the number of classes is unknown."""
    likely = [one for one in found if one.repeats and one.kind is Kind.SAMPLE and len(one.values) > 1]
    return balance(of_all_samples(lab, likely[0]), ignored(lab.settings.contract)) if len(likely) == 1 else None


def out_of_range(lab: Lab, labels: Labels, classes: Classes) -> list[int]:
    """The values out of range that reach a batch."""
    void = meaningless(lab.settings.contract, labels, classes)
    return [value for value in labels.outside(classes.count, void)[:MOST] if _arrives(lab, labels, value)]


MOST = 8
"""At most this many values out of range are checked."""


def _arrives(lab: Lab, labels: Labels, value: int) -> bool:
    """Whether a value of a sample is still in its batch, so that collate_fn does not map it."""
    seen = labels.first[value]
    if seen.batch is None:
        plain = lab.facts.default_collate or not lab.facts.batched
        numbers = lab.dataset.numbers(seen.index) if plain else ()
        return any(one.path == labels.path and one.low == value for one in numbers)
    batch = batches_of(lab.epoch.value_summaries).get(seen.batch)
    holding = (one for one in batch.numbers if one.low <= value <= one.high) if batch else ()
    return batch is None or any(one.counts is None or value in one.counts for one in holding)
