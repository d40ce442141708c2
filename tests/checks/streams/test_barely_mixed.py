"""A stream whose shuffle buffer is too small for it gets a note from DG206, and no finding."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

import dataguard


class Buffered(IterableDataset[torch.Tensor]):
    """Sorted samples, drawn from a buffer of so many."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[torch.Tensor]:
        buffer: list[int] = []
        for number in range(300):
            buffer.append(number)
            if len(buffer) == self.size:
                yield torch.full((4,), float(buffer.pop(random.randrange(self.size))))
        random.shuffle(buffer)
        yield from (torch.full((4,), float(number)) for number in buffer)


@pytest.mark.scan
@pytest.mark.parametrize(("size", "noted"), [(8, True), (300, False)])
def test_a_small_shuffle_buffer_is_noted(size: int, noted: bool) -> None:
    report = dataguard.check(DataLoader(Buffered(size), batch_size=8), select=["DG206"])
    (result,) = (one for one in report.results if one.code == "DG206")
    assert not report.failed
    assert ("barely mixes" in (result.reason or "")) is noted
