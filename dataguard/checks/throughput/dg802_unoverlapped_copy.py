"""DG802: copies to the device that do not overlap with computation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

_NOTABLE_SHARE = 0.05
"""The smallest share of the step that a copy must take to be reported. Chosen, not derived."""
_FEWEST_OVERLAP = 0.5
"""The share of a copy that has to overlap with computation. Chosen, not derived."""


@check("DG802", "unoverlapped-copy", Severity.WARNING)
def dg802_unoverlapped_copy(lab: Lab) -> Judgement:
    """Copying a batch to the accelerator does not overlap with computation.

    Symptom: the device computes nothing while a batch is copied to it, although the loop uses `non_blocking=True`.
    Cause: the tensors of the batch are in pageable memory: `pin_memory` is off, or does not reach into a custom batch
        class. The call then blocks until the copy is done.
    Fix: `pin_memory=True`, with a `pin_memory` method in a batch class of your own, and
        `batch.to(device, non_blocking=True)` in the training loop.
    Links: https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    """
    step = lab.throughput.step
    delivered = lab.throughput.copies
    copying = delivered.copying
    coverage = Coverage({"bytes": delivered.count})
    if (
        copying is None
        or copying.alone < _NOTABLE_SHARE * step
        or copying.overlap >= _FEWEST_OVERLAP
        or not delivered.unpinned
    ):
        return coverage
    yield Finding(
        message=f"copying a batch takes {copying.alone * 1e3:.3g} ms, of which {copying.overlap:.0%} overlaps compute",
        evidence=without_empty(
            {
                "not pinned": list(delivered.unpinned),
                "pin_memory": lab.facts.pin_memory,
                "bytes": delivered.count,
                "rate": f"{copying.rate / 1e9:.3g} GB/s",
                "step": f"{step * 1e3:.3g} ms",
            }
        ),
    )
    return coverage
