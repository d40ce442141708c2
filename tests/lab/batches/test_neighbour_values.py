"""How rows differ between two batches."""

from __future__ import annotations

import pytest
import torch

from dataguard.lab.batches.neighbours import rescaled, shares

ROWS = list(torch.rand(6, 4, 5, generator=torch.Generator().manual_seed(0)))


def test_equal_rows_do_not_differ() -> None:
    assert rescaled(ROWS, ROWS) == 0


@pytest.mark.parametrize("shape", [(), (5,), (4, 1), (4, 5)], ids=str)
def test_a_factor_and_an_offset_serve_any_axis(shape: tuple[int, ...]) -> None:
    draws = torch.Generator().manual_seed(0)
    factor, offset = 1 + torch.rand(shape, generator=draws), torch.rand(shape, generator=draws)
    found = rescaled(ROWS, [row * factor + offset for row in ROWS])
    assert found is not None
    assert found > 0.1


def test_a_mixture_is_no_such_map() -> None:
    assert rescaled(ROWS, [(row + other) / 2 for row, other in zip(ROWS, ROWS[::-1], strict=True)]) is None


def test_two_values_prove_nothing() -> None:
    signs = [(row > 0.5).float() for row in ROWS]
    assert rescaled(signs, [sign * 2 + 1 for sign in signs]) is None


def test_shares_of_a_mixture_and_of_a_paste() -> None:
    (other, share), *_ = shares(0.3 * ROWS[0] + 0.7 * ROWS[2], ROWS, 0)
    assert (other, round(share, 4)) == (2, 0.7)
    pasted = ROWS[0].clone()
    pasted[:2] = ROWS[3][:2]
    assert list(shares(pasted, ROWS, 0)) == [(3, 0.5)]
    assert not list(shares(torch.rand(4, 5), ROWS, 0))
