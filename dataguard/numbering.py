"""What the values of a label mean: how many samples a class has, which values stand for none. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from dataguard.labels import UNLABELLED, VOID, Classes, Kind, Labels, batches_of, ignored

if TYPE_CHECKING:
    from dataguard.lab import Lab


def balance(labels: Labels, void: Collection[int], classes: Classes | None = None) -> str:
    """How many samples there are of each class, in a line; of pixels, boxes and tokens in how many samples."""
    limit = math.inf if classes is None else classes.count
    counts = {value: labels.samples[value] for value in sorted(labels.samples) if 0 <= value < limit}
    if not counts:
        return f"sample{labels.path} holds no class"
    number = f"{len(counts)} classes" if len(counts) != 1 else "one class"
    seen = number if classes is None or classes.count == len(counts) else f"{len(counts)} of {limit} classes"
    if len(counts) <= SHOWN:
        table = ", ".join(f"{value} × {times}" for value, times in counts.items())
    else:
        rarest = min(counts, key=lambda value: counts[value])
        table = f"{min(counts.values())} to {max(counts.values())} of each, the rarest is {rarest}"
    marks = [value for value in labels.values if value in void and not 0 <= value <= limit]
    said = f"; {' and '.join(map(str, marks))} stands for none" if marks else ""
    return f"sample{labels.path} has {seen} in {labels.of} samples: {table}{said}"


SHOWN = 12
"""Classes whose numbers are listed one by one."""


def meaningless(contract: Mapping[str, Any], labels: Labels, classes: Classes) -> tuple[int, ...]:
    """The values of a label that may stand for no class, or for one that is not counted."""
    void, declared = ignored(contract), classes.declared
    if labels.kind is Kind.PIXEL and "ignore_index" not in contract:
        undivided = set(labels.values) == {0, VOID} and labels.type_name != "uint8"
        background = () if declared or 0 not in labels.values else (classes.count,)  # names may leave it out
        return (*void, *background, *(() if declared else (UNLABELLED,)), *(() if undivided else (VOID,)))
    if declared:
        return void
    if labels.kind is Kind.BOX:  # torchvision's detectors count a background first
        return (*void, classes.count, *((UNLABELLED,) if labels.fixed else ()))
    signs = set(labels.values) == {-1, 1} and classes.count == 2
    unlabelled = 2 * labels.values.get(UNLABELLED, 0) >= sum(labels.values.values())
    return (*void, UNLABELLED) if signs or unlabelled else void


def arrives(lab: Lab, labels: Labels, value: int) -> bool:
    """Whether a value is there in a sample, and still in its batch: neither dataset nor collate_fn maps it."""
    seen = labels.first[value]
    if seen.batch is None:
        plain = lab.facts.default_collate or not lab.facts.batched
        numbers = lab.dataset.numbers(seen.index) if plain else ()
        return any(one.path == labels.path and one.low == value for one in numbers)
    batch = batches_of(lab.epoch.appraisals).get(seen.batch)
    holding = (one for one in batch.numbers if one.low <= value <= one.high) if batch else ()
    return batch is None or any(one.counts is None or value in one.counts for one in holding)
