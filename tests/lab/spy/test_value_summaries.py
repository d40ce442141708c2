"""Numbers of leaves, summed up in the worker."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dataguard.lab.core.leaves import describe
from dataguard.lab.core.records import Numbers
from dataguard.lab.spy.recording import numbers_of


def only(value: Any, *, rows: bool = False) -> Numbers:
    (found,) = numbers_of(value, rows=rows)
    return found


@pytest.mark.parametrize(
    ("value", "counts", "is_float"),
    [
        (3, {3: 1}, False),
        (True, {1: 1}, False),
        (2.0, {2: 1}, True),
        (2.5, None, True),
        (torch.tensor([0, 2, 2, -100]), {-100: 1, 0: 1, 2: 2}, False),
        (np.array([[0, 255], [255, 255]], np.uint8), {0: 1, 255: 3}, False),
        (torch.tensor([1.0, 3.0], dtype=torch.bfloat16), {1: 1, 3: 1}, True),
        (torch.tensor([0.0, float("nan")]), {0: 1}, True),
        (list(range(20)), dict.fromkeys(range(20), 1), False),
        (Image.new("L", (4, 2), 7), {7: 8}, False),
        (torch.arange(10_000), None, False),
        (torch.tensor([0, 1 << 40]), {0: 1, 1 << 40: 1}, False),
    ],
)
def test_whole_numbers_are_counted(value: Any, counts: dict[int, int] | None, is_float: bool) -> None:
    found = only(value)
    assert (found.counts, found.is_float) == (counts, is_float)


@pytest.mark.parametrize(
    "value",
    [
        "text",
        None,
        b"bytes",
        torch.zeros(0),
        torch.full((2,), float("nan")),
        torch.zeros(3, 32, 32, dtype=torch.uint8),
        torch.zeros(4, device="meta"),
        torch.zeros(2, 2).to_sparse(),
        torch.zeros(2, dtype=torch.complex64),
        np.array(["a", "b"]),
        Image.new("RGB", (8, 8)),
    ],
)
def test_what_holds_no_numbers_of_interest_is_left_out(value: Any) -> None:
    assert list(numbers_of(value)) == []


def test_a_mask_that_was_divided_is_counted_as_it_was() -> None:
    mask = torch.arange(5).repeat(20, 1)
    found = only(mask / 255)
    assert (found.divided, found.whole, found.counts) == (True, False, dict.fromkeys(range(5), 20))
    assert not only(torch.rand(20, 5)).divided


def test_rows_are_summed_up() -> None:
    (row,) = only(torch.tensor([[0.7, 0.2, 0.1]]), rows=True).rows
    assert (row.sum, row.largest, row.second, row.least) == pytest.approx((1, 0.7, 0.2, 0.1))


@pytest.mark.parametrize(
    ("value", "constant"),
    [
        (torch.zeros(3, 8, 8), True),
        (torch.zeros(3, 8, 8).index_fill(2, torch.tensor([7]), 1), False),
        (torch.zeros(8), False),
        (torch.full((64,), float("nan")), False),
        (np.full((8, 8), 3, np.uint8), True),
        (Image.new("RGB", (8, 8), (1, 2, 3)), True),
        (Image.linear_gradient("L"), False),
        (torch.zeros(64, dtype=torch.float8_e4m3fn), True),
    ],
)
def test_an_array_of_one_value_is_constant(value: Any, constant: bool) -> None:
    leaf = describe("", value)
    assert leaf.digest
    assert leaf.constant is constant
