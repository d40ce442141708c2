"""Rows of a batch are recognised by what they hold."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
import torch
from torch import Tensor

from dataguard.lab.batches.batch_rows import UnmovedNumbers, columns, holds, unmoved_numbers


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


def graphs(**more: list[Tensor]) -> list[dict[str, Tensor]]:
    """Rings of 3 to 8 nodes, the first two of which are joined once more, and other leaves of each."""
    rings = []
    for place, nodes in enumerate(range(3, 9)):
        around = torch.arange(nodes)
        edges = torch.cat([torch.stack([around, around.roll(1)]), torch.tensor([[0], [1]])], 1)
        others = {name: parts[place] for name, parts in more.items()}
        rings.append({"x": torch.rand(nodes, 2), "edges": edges, **others})
    return rings


@pytest.mark.parametrize(
    ("more", "offsets", "found"),
    [
        ({}, False, {"edges": UnmovedNumbers("x", 4, 3)}),
        ({}, True, {}),
        ({"bonds": [torch.tensor([nodes + 1]) for nodes in range(3, 9)]}, False, {}),
        ({"order": [torch.arange(nodes) for nodes in range(3, 9)]}, True, {}),
        ({"kinds": [torch.randint(0, 3, (nodes, 2)) for nodes in range(3, 9)]}, True, {}),
    ],
    ids=["no offsets", "offsets", "counted", "positions", "classes"],
)
def test_edges_are_joined_with_the_offsets_of_their_nodes(
    more: dict[str, list[Tensor]], offsets: bool, found: dict[str, UnmovedNumbers]
) -> None:
    samples = graphs(**more)
    starts = accumulate((len(sample["x"]) for sample in samples), initial=0)
    moved = [
        sample | {"edges": sample["edges"] + (start if offsets else 0)}
        for sample, start in zip(samples, starts, strict=False)
    ]
    batch = {name: torch.cat([sample[name] for sample in moved], int(name == "edges")) for name in samples[0]}
    assert unmoved_numbers(batch, samples) == found


@pytest.mark.parametrize(("rows", "split"), [(20, True), (40, True), (41, False)])
def test_a_sample_may_have_ten_rows(rows: int, split: bool) -> None:
    assert [len(column.rows) for column in columns(torch.zeros(rows, 3), 4)] == [rows] * split
