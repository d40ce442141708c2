"""DG304: an index from the end that means something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import is_input, unsteady
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG304", "negative-index", Severity.WARNING)
def dg304_negative_index(lab: Lab) -> Judgement:
    """dataset[-1] neither raises nor gives the last sample.

    Symptom: no error at all; `dataset[-1]` in a notebook or a test shows a sample of another split, or one that is put
        together from both ends of the data.
    Cause: the index goes through arithmetic before it is looked up: an offset (`data[self.start + index]`), a
        neighbour (`data[index + 1]`), or a check of the upper end of the range only.
    Fix: `index = range(len(self))[index]` at the top of `__getitem__`: it counts negative indices from the end, and
        raises IndexError for all others.
    Links: https://docs.python.org/3/reference/datamodel.html#object.__getitem__
    """
    spans = lab.dataset.spans
    last, negative, ends = spans.last, spans.negative, lab.dataset.ends
    if last.incident:
        raise NotApplicable(f"the last sample cannot be read: {last.incident.headline}")
    note = None
    unlike = [leaf for leaf in spans.unlike if leaf not in unsteady(lab)]
    if unlike:
        # A label that is worked out from the number of the sample is no other sample.
        whole = any(is_input(leaf, [last]) for leaf in unlike)
        twins = [one.index for one in ends.inside if not one.incident and one.digests == negative.digests]
        alike = [leaf.shape for leaf in last.leaves] == [leaf.shape for leaf in negative.leaves]
        if whole and (twins or (alike and spans.far.incident is not None and not spans.seeded)):
            yield Finding(
                message=f"dataset[-1] is {f'dataset[{twins[0]}]' if twins else 'another sample'}, "
                f"and not dataset[{ends.length - 1}]",
                evidence={"leaves that differ": [f"sample{leaf}" for leaf in unlike]},
                at=lab.dataset.place,
                repro=lab.repro.reads([-1, ends.length - 1]),
            )
        elif not whole:
            note = f"dataset[-1] is the last sample, but for sample{unlike[0]}, which follows from the index itself"
        elif alike:
            note = "dataset[-1] is a sample that no index of the range has: its number decides what is drawn or made"
        else:
            note = "dataset[-1] does not raise, and has another shape than samples have: nobody takes it for one"
    return Looked({"reads": 3}, note)
