"""DG306: a label that depends on earlier reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import item_of, shifts, shown
from dataguard.core.model import Coverage, Finding, Judgement, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG306", "shifting-label", Severity.ERROR)
def dg306_shifting_label(lab: Lab) -> Judgement:
    """The label of an index depends on what was read before, while its input stays the same.

    Symptom: no error; the model learns from labels of other samples, all the more once the order is shuffled or workers
        share the work.
    Cause: labels come from state that advances with every read: an iterator, a counter, a list that is popped, class
        indices assigned in order of first appearance, an attribute that the last read left behind.
    Fix: make the label a function of the index: look it up in a table that `__init__` fills once, in sorted order.
    Links: https://docs.pytorch.org/docs/stable/data.html#map-style-datasets
    """
    readings = lab.dataset.readings
    shifted = shifts(lab)
    if shifted:
        leaf, shift = next(iter(shifted.items()))
        index, changed = item_of(readings, shift.drift), lab.dataset.changed_attributes
        yield Finding(
            message=f"sample{leaf} of index {index} is {shown(shift.before)} in one read and {shown(shift.after)} in "
            f"another, while sample{shift.input} stays the same: it depends on {shift.drift.cause.value}",
            evidence=without_empty(
                {
                    "fix here": "look the label up by index, in a table that __init__ fills",
                    "labels that change": [f"sample{path}" for path in shifted],
                    "frozen RNGs": "all that were found",
                    "changed by reading": [attribute.what for attribute in changed],
                }
            ),
            at=changed[0] if changed else lab.dataset.shifting_line(index),
            repro=lab.repro.samples(index, *(other for other in readings.items if other != index), index),
            sample=index,
        )
    return Coverage(readings.exercised)
