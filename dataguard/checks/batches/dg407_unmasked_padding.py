"""DG407: padding without lengths or a mask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

_LACKING = "the batch has no lengths or mask"


@check("DG407", "unmasked-padding", Severity.WARNING)
def dg407_unmasked_padding(lab: Lab) -> Judgement:
    """collate_fn pads samples to a common length, and the batch has no lengths or mask.

    Symptom: predictions for a sample depend on the other samples in its batch; attention, means and recurrent states
        treat padding as data.
    Cause: the batch has neither lengths nor a mask, or has lengths that were taken after padding, and the padding value
        also occurs in the data.
    Fix: return the lengths or a mask with the padded tensor, or pad with a value that never occurs in the data.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_sequence.html
    """
    padding = lab.batches.padding
    looked = {"samples": padding.samples, "padded leaves": len(padding.padded)}
    if not padding.padded:
        raise NotApplicable("no padded leaf seen in the batch")
    masked = next((one for one in padding.padded if one.full_mask), None)
    if masked is not None:
        short, row = min((length, row) for row, length in enumerate(masked.lengths))
        yield Finding(
            message=f"batch{masked.full_mask} is 1 everywhere, but row {row} of batch{masked.leaf} has length {short} "
            f"and is padded to {masked.longest}",
            evidence={"lengths": list(masked.lengths), "padding value": masked.fill},
        )
        return Coverage(looked)
    ambiguous = [one for one in padding.padded if not (one.lengths_from or one.distinct)]
    if ambiguous:
        one = ambiguous[0]
        short, row = min((length, row) for row, length in enumerate(one.lengths))
        lacking = f"batch{one.full_lengths} is {one.longest} everywhere" if one.full_lengths else _LACKING
        yield Finding(
            message=f"row {row} of batch{one.leaf} has length {short} and is padded with {one.fill} to {one.longest}, "
            f"but {lacking}",
            evidence={
                "padded leaves": [f"batch{other.leaf}" for other in ambiguous],
                "lengths": list(one.lengths),
                "padded from": one.source if one.source.startswith("batch") else f"sample{one.source}",
                "padding value": f"{one.fill}, which the data also contain",
            },
        )
    explicit = any(one.lengths_from for one in padding.padded)
    return Coverage(looked, None if ambiguous or explicit else "only the padding value shows the lengths")
