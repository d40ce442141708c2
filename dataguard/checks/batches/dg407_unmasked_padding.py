"""DG407: padding that nothing tells from the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG407", "unmasked-padding", Severity.WARNING)
def dg407_unmasked_padding(lab: Lab) -> Judgement:
    """collate_fn pads samples to one length, and the batch does not tell how long they were.

    Symptom: predictions for a sample change with what else is in its batch; attention, means and recurrent states take
        padding for data.
    Cause: the batch carries neither lengths nor a mask, and the value that pads is one that the data have as well.
    Fix: return the lengths or a mask beside the padded tensor, or pad with a value that the data never have.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_sequence.html
    """
    padding = lab.batches.padding
    looked = {"samples": padding.samples, "padded leaves": len(padding.padded)}
    if not padding.padded:
        raise NotApplicable("no leaf of the batch is padded, as far as can be seen")
    untold = [one for one in padding.padded if not (one.told_by or one.distinct)]
    if untold:
        one = untold[0]
        short, row = min((length, row) for row, length in enumerate(one.lengths))
        yield Finding(
            message=f"row {row} of batch{one.leaf} is {short} long and padded with {one.fill} to {one.longest}, and "
            "nothing in the batch tells",
            evidence={
                "padded": [f"batch{other.leaf}" for other in untold],
                "lengths": list(one.lengths),
                "made of": one.source if one.source.startswith("batch") else f"sample{one.source}",
                "the data have this value as well": f"{one.fill}",
            },
        )
    told = next((one.told_by for one in padding.padded if one.told_by), None)
    silent = None if told else "lengths can only be told by the value that pads"
    return Looked(looked, None if untold else silent)
