"""Rows of a batch are recognised by what they hold."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dataguard.lab.batches.batch_rows import columns, holds


@pytest.mark.parametrize(
    ("row", "content", "same"),
    [
        (torch.tensor([1, 2, 3]), torch.tensor([1, 2, 3]), True),
        (torch.tensor([1.0, 2.0]), torch.tensor([1, 2]), True),
        (torch.tensor([1, 2, 0, 0]), torch.tensor([1, 2]), True),
        (torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2]), True),
        (torch.tensor([1, 2, 0, 7]), torch.tensor([1, 2]), False),
        (torch.tensor([1, 2]), torch.tensor([1, 2, 3]), True),
        (torch.tensor([1, 2]), torch.tensor([2, 1]), False),
        (torch.tensor([3]), torch.tensor(3), True),
        (torch.tensor([[1, 0], [2, 0], [0, 0]]), torch.tensor([[1], [2]]), True),
        (torch.tensor([torch.nan, 1]), torch.tensor([torch.nan, 1]), True),
        (torch.tensor([torch.nan, torch.nan]), torch.tensor([1.0]), False),
        (torch.tensor([5.0, torch.nan]), torch.tensor([5.0]), True),
        (torch.tensor([-100, -100]), torch.empty(0, dtype=torch.int64), True),
        (torch.tensor(0.1), torch.tensor(0.1, dtype=torch.float64), True),
        (torch.tensor(True), torch.tensor(1), True),
        (b"a", b"a", True),
        (b"a", b"b", False),
        (torch.tensor(1), b"a", False),
    ],
    ids=str,
)
def test_a_row_holds_a_content(row: Any, content: Any, same: bool) -> None:
    assert holds(row, content) is same


def test_channels_of_a_listed_image_are_no_rows_of_the_batch() -> None:
    images = [torch.full((4, 3, 3), float(number)) for number in range(4)]
    names = [column.name for column in columns({"image": images, "label": torch.arange(4)}, 4)]
    assert names == ["['label']", "['image'][*]"]
    assert "[0]" in [column.name for column in columns((torch.zeros(2, 3), torch.arange(2)), 2)]
