"""DG304: an index from the end that means something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.drifts import unsteady
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, check

if TYPE_CHECKING:
    from dataguard.lab import Lab


@check("DG304", "negative-index", Severity.WARNING)
def dg304_negative_index(lab: Lab) -> Judgement:
    """dataset[-1] neither raises nor gives the last sample.

    Symptom: no error at all; `dataset[-1]` in a notebook or a test shows a sample of another split, an empty window or
        one that is put together from both ends of the data.
    Cause: the index goes through arithmetic before it is looked up: an offset (`data[self.start + index]`), a window
        (`data[index : index + n]`), or a check of the upper end of the range only.
    Fix: `index = range(len(self))[index]` at the top of `__getitem__`: it counts negative indices from the end, and
        raises IndexError for all others.
    Links: https://docs.python.org/3/reference/datamodel.html#object.__getitem__
    """
    spans = lab.dataset.spans
    last, negative, ends = spans.last, spans.negative, lab.ends
    if last.incident:
        raise NotApplicable(f"the last sample cannot be read: {last.incident.headline}")
    note = None
    unlike = [leaf for leaf in spans.unlike if leaf not in unsteady(lab)]
    if unlike:
        twins = [one.index for one in ends.inside if not one.incident and one.digests == negative.digests]
        shapes = (
            [(leaf.path, leaf.shape) for leaf in last.leaves],
            [(leaf.path, leaf.shape) for leaf in negative.leaves],
        )
        bounded = spans.far.incident is not None
        what = f"dataset[{twins[0]}]" if twins else "another sample"
        if twins or (bounded and not spans.seeded) or shapes[0] != shapes[1]:
            yield Finding(
                message=f"dataset[-1] is {what}, and not dataset[{ends.length - 1}]",
                evidence={
                    "leaves that differ": [f"sample{leaf}" for leaf in unlike],
                    "shapes": "alike" if shapes[0] == shapes[1] else [str(dict(one)) for one in shapes],
                },
                at=lab.dataset.place,
                repro=lab.repro_reads([-1, ends.length - 1]),
            )
        else:
            note = "dataset[-1] is a sample that no index of the range has: its number decides what is drawn or made"
    return Looked({"reads": 3}, note)
