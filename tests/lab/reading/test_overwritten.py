"""Which batches a later one overwrites, without workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from dataguard.lab.reading.epoch_trace import LATER_BATCHES, Overwritten, batches_taken, find_overwritten

ROWS = torch.arange(48.0).reshape(12, 4)
TAKEN = batches_taken(0)


def buffers(count: int) -> Callable[[list[Tensor]], Any]:
    """A collate_fn that fills so many buffers in turn."""
    held = [torch.empty(2, 4) for _ in range(count)]
    made = 0

    def collate(rows: list[Tensor]) -> Any:
        nonlocal made
        made += 1
        return {"x": torch.stack(rows, out=held[made % count]), "size": len(rows)}

    return collate


def one_list() -> Callable[[list[Tensor]], Any]:
    """A collate_fn that fills one list."""
    held: list[Tensor] = []

    def collate(rows: list[Tensor]) -> Any:
        held[:] = rows
        return held

    return collate


@pytest.mark.parametrize(
    ("collate", "found"),
    [
        (buffers(1), Overwritten(("['x']",), 1, TAKEN)),
        (buffers(2), Overwritten(("['x']",), 2, TAKEN)),
        (buffers(LATER_BATCHES + 1), Overwritten((), 0, TAKEN)),
        (one_list(), Overwritten(("[0]", "[1]"), 1, TAKEN)),
        (torch.stack, Overwritten((), 0, TAKEN)),
    ],
)
def test_what_changes_in_the_first_batch(collate: Any, found: Overwritten, tmp_path: Path) -> None:
    loader: DataLoader[Any] = DataLoader(ROWS, batch_size=2, collate_fn=collate)  # type: ignore[arg-type]
    assert find_overwritten(loader, tmp_path) == found


def test_equal_batches_of_one_buffer_are_right(tmp_path: Path) -> None:
    loader: DataLoader[Any] = DataLoader(torch.ones(12, 4), batch_size=2, collate_fn=buffers(1))  # type: ignore[arg-type]
    assert find_overwritten(loader, tmp_path).leaves == ()


def test_a_single_batch_has_none_after_it(tmp_path: Path) -> None:
    loader: DataLoader[Any] = DataLoader(ROWS[:2], batch_size=2, collate_fn=buffers(1))  # type: ignore[arg-type]
    assert find_overwritten(loader, tmp_path) == Overwritten((), 0, 1)
