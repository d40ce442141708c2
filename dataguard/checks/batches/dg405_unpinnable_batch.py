"""DG405: a batch whose tensors pin_memory does not reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, Severity
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.batches.collate_observations import Pinning
    from dataguard.lab.lab import Lab


@check("DG405", "unpinnable-batch", Severity.ERROR)
def dg405_unpinnable_batch(lab: Lab) -> Judgement:
    """pin_memory=True, but the tensors in the batch are not pinned.

    Symptom: `to(device, non_blocking=True)` silently blocks on each copy, so copies and compute do not overlap; or the
        pinning thread raises.
    Cause: torch pins tensors in mappings, sequences and named tuples, and calls `pin_memory()` on any other object that
        has it; an object without it (a dataclass, a set, any plain object) is passed on unpinned.
    Fix: give the class a method `pin_memory(self)` that pins its tensors and returns self, or return a dict, tuple or
        named tuple.
    Links: https://docs.pytorch.org/docs/stable/data.html#memory-pinning
    """
    pinning = lab.batches.pinning
    message = _fault(pinning)
    if message:
        yield Finding(
            message=message,
            evidence={
                "batch type": pinning.kind,
                "tensors": pinning.before,
                "not pinned": [f"batch{path}" for path in pinning.unpinned[:16]],
                "checked by": "Tensor.is_pinned()" if pinning.real else "calls of Tensor.pin_memory()",
            },
        )
    note = None if pinning.before or message else "the batch has no tensors to pin"
    return Coverage({"tensors": pinning.before}, note)


def _fault(pinning: Pinning) -> str | None:
    if pinning.refused:
        return f"pinning the batch raises {pinning.refused}"
    if pinning.tensors < pinning.before:
        left = f"{pinning.before} became {pinning.tensors}, in a {pinning.result}"
        return f"pinning the {pinning.kind} loses tensors: {left}"
    if pinning.unpinned:
        first = f"batch{pinning.unpinned[0]}"
        return f"{counted(len(pinning.unpinned), 'tensors')} of {pinning.tensors} not pinned, e.g. {first}"
    return None
