"""Whether all ranks read as many batches (DG203), and not the same ones (DG202): one small collective in each epoch.

It runs in a gloo group of its own. In the group of the training, a rank that ends an epoch early would exchange counts
with ranks that still exchange gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import combinations
from typing import Any

import torch.distributed as dist

from dataguard.core.model import Finding
from dataguard.machine.units import counted
from dataguard.training.batch_values import arrays_of
from dataguard.training.epoch_order import COMPARED_BATCHES, VARIED_SHARE, digest_of

FEWEST_BATCHES = 2
"""Batches that two ranks must have in common; they are compared whole, so that even one is no coincidence."""


class Ranks:
    """The ranks that read one loader; each of them must guard it with `ranks=True`.

    So many consecutive ranks, `per_group`, share a model and read the same batches.
    """

    def __init__(self, seconds: float, per_group: int = 1) -> None:
        self.seconds = seconds
        self.per_group = per_group
        self.compared = 0
        """In how many epochs the ranks have compared their numbers of batches."""
        self.contents = 0
        """In how many epochs they have compared the contents of their first batches."""
        self._digests: list[int] = []
        self._read: tuple[int, list[int]] | None = None
        self._group: Any = None
        self._lost = False

    def join(self) -> None:
        """Create the group of the ranks, once; all of them must call this."""
        several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        if several and self._group is None:
            self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=self.seconds))

    def see(self, number: int, batch: Any) -> None:
        """Record the largest leaf of one of the first batches of an epoch, which has this number in it."""
        if self._group is None or number >= COMPARED_BATCHES:
            return
        if number == 0:
            self._digests = []
        leaves = [leaf for _, leaf in arrays_of(batch)]
        digest = digest_of(max(leaves, key=_size)) if leaves else None
        if digest is not None:
            self._digests.append(digest)

    def end(self, epoch: int) -> None:
        """Keep what was recorded of a training epoch, to be compared the next time that ranks meet."""
        self._read = epoch, self._digests

    def compare(self, batches: int, epoch: int, *, read: bool) -> Iterator[tuple[str, Finding]]:
        """What is wrong, by code: ranks `read`, or are going to read, other numbers of batches; or they read the same.

        All ranks that joined must call this. A rank that does not answer in time is not asked again. That is a finding
        at the end of an epoch, which the others reach within a step; before an epoch, a rank may still be evaluating.
        The contents are those of the last training epoch that has ended.
        """
        if self._group is None or self._lost:
            return
        answers: list[Any] = [None] * dist.get_world_size()
        try:
            dist.all_gather_object(answers, (batches, self._read), group=self._group)
        except RuntimeError:  # gloo's for a timeout or a lost rank
            self._lost = True
            if read:
                rank = dist.get_rank()
                ended = f"rank {rank} ended epoch {epoch} after {counted(batches, 'batches')}"
                message = f"{ended}, and other ranks did not within {self.seconds:g} s"
                yield "DG203", Finding(message, {"rank": rank})
            return
        self._read = None
        self.compared += 1
        counts = [count for count, _ in answers]
        contents = [content for _, content in answers if content is not None]
        found = [*self._duplicates(contents), *_uneven(counts, epoch)]
        yield from found

    def _duplicates(self, contents: Sequence[tuple[int, list[int]]]) -> Iterator[tuple[str, Finding]]:
        """Two ranks that read the same batches in an epoch that all of them have ended, or of one group that do not."""
        if len(contents) < dist.get_world_size() or len({epoch for epoch, _ in contents}) > 1:
            return
        self.contents += 1
        for (first, (epoch, digests)), (second, (_, others)) in combinations(enumerate(contents), 2):
            compared = {"compared": f"the first {counted(len(digests), 'batches')}"}
            if first // self.per_group == second // self.per_group:
                if digests != others:
                    message = f"ranks {first} and {second} share a model, and read different batches in epoch {epoch}"
                    yield "DG202", Finding(message, compared)
                    return
                continue
            varied = len(set(digests)) > VARIED_SHARE * len(digests)
            if digests == others and len(digests) >= FEWEST_BATCHES and varied:
                message = f"ranks {first} and {second} read the same batches in epoch {epoch}"
                yield "DG202", Finding(message, compared)
                return


def _size(leaf: Any) -> int:
    size: int = leaf.numel() if hasattr(leaf, "numel") else leaf.size
    return size


def _uneven(counts: Sequence[int], epoch: int) -> Iterator[tuple[str, Finding]]:
    if len(set(counts)) > 1:
        least, most = counts.index(min(counts)), counts.index(max(counts))
        message = f"rank {least} has {counted(counts[least], 'batches')} in epoch {epoch}, rank {most} has"
        evidence = {"batches": {f"rank {number}": count for number, count in enumerate(counts)}}
        yield "DG203", Finding(f"{message} {counts[most]:,}", evidence)
