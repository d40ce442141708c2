"""Whether all ranks read the same number of batches (DG203): one small collective in each epoch.

It runs in a gloo group of its own. In the group of the training, a rank that ends an epoch early would exchange counts
with ranks that still exchange gradients.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from dataguard.core.model import Finding
from dataguard.machine.units import counted


class Ranks:
    """The ranks that read one loader; each of them must guard it with `ranks=True`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.compared = 0
        """In how many epochs the ranks have compared their batches."""
        self._group: Any = None
        self._lost = False

    def join(self) -> None:
        """Create the group of the ranks, once; all of them must call this."""
        several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        if several and self._group is None:
            self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=self.seconds))

    def disagreement(self, batches: int, epoch: int, *, read: bool) -> Finding | None:
        """What is wrong if ranks `read`, or are going to read, other numbers of batches in an epoch.

        All ranks that joined must call this. A rank that does not answer in time is not asked again. That is a finding
        at the end of an epoch, which the others reach within a step; before an epoch, a rank may still be evaluating.
        """
        if self._group is None or self._lost:
            return None
        counts: list[Any] = [None] * dist.get_world_size()
        try:
            dist.all_gather_object(counts, batches, group=self._group)
        except RuntimeError:  # gloo's for a timeout or a lost rank
            self._lost = True
            if not read:
                return None
            rank = dist.get_rank()
            ended = f"rank {rank} ended epoch {epoch} after {counted(batches, 'batches')}"
            return Finding(f"{ended}, and other ranks did not within {self.seconds:g} s", {"rank": rank})
        self.compared += 1
        if len(set(counts)) == 1:
            return None
        least, most = counts.index(min(counts)), counts.index(max(counts))
        return Finding(
            f"rank {least} has {counted(counts[least], 'batches')} in epoch {epoch}, rank {most} has {counts[most]:,}",
            {"batches": {f"rank {number}": count for number, count in enumerate(counts)}},
        )
