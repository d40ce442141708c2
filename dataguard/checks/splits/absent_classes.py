"""Classes of evaluation that no training sample has. Standard library only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataguard.checks.common.labels import MARKS, Kind, ignored, of_all_samples, shared_labels
from dataguard.settings.parsers import EVALUATION
from dataguard.stats.coincidence import CERTAIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataguard.lab.lab import Lab

FEWEST_TRAINED = 2
"""The fewest classes of training: with one, what is unlike it is looked for."""
MOST_NUMBERED, FEWEST_EACH = 100, 20
"""Classes of evaluation that training has none of may be meant, as new users, or people that are to be recognized:
those are more, and have fewer samples each."""


@dataclass(frozen=True, slots=True)
class AbsentClasses:
    """How many samples of each class were seen of `of` samples of evaluation, and how many training has of others."""

    path: str
    counts: Mapping[int, int]
    of: int
    trained: Mapping[int, int]


def absent_classes(lab: Lab, other: Lab) -> AbsentClasses | None:
    """The classes that evaluation has and training does not, if a random split would not leave them out.

    None unless the labels of all training samples are known, or where training has all classes up to some number: those
    beyond may be new ones on purpose.
    """
    if lab.facts.role not in EVALUATION or other.facts.role != "train":
        return None
    marks = {*ignored(lab.settings.contract), *MARKS}
    for labels, theirs in shared_labels(lab, other):
        if labels.kind is not Kind.SAMPLE:
            continue
        own, before = of_all_samples(lab, labels), of_all_samples(other, theirs)
        if before.table is None or not (own.repeats and before.repeats):
            continue
        counts = {value: count for value, count in own.values.items() if value not in marks}
        trained = {value: count for value, count in before.values.items() if value not in marks}
        absent = {value: count for value, count in sorted(counts.items()) if value not in trained}
        share = (lab.facts.length or 0) / ((lab.facts.length or 0) + sum(before.values.values()))
        if absent and _is_fault(absent, counts, trained, share):
            return AbsentClasses(labels.path, absent, own.of, trained)
    return None


def _is_fault(absent: Mapping[int, int], counts: Mapping[int, int], trained: Mapping[int, int], share: float) -> bool:
    """Whether these are no chance of a random split that gives such a `share` to evaluation, and no intention."""
    every = counts.keys() | trained.keys()
    if len(trained) < FEWEST_TRAINED or len(every) > MOST_NUMBERED or min(absent) > max(trained):
        return False
    if sum(absent.values()) < FEWEST_EACH * len(absent):
        return False
    if absent.keys() == counts.keys() and sorted(every) != list(range(max(every) + 1)):
        return False
    # Of each absent class, a random split gives all samples to evaluation; any of the classes may be such.
    return sum(absent.values()) * math.log10(share) + len(every) * math.log10(2) < CERTAIN
