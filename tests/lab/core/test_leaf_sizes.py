"""Samples of gigabytes are held in small numbers, and tested in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dataguard.lab.core.leaves import MOST_HELD, VALUES_AT_ONCE, keep, leaves_of


@pytest.mark.parametrize(("size", "expected"), [(1, 4), (MOST_HELD, 2)])
def test_large_samples_are_kept_in_smaller_numbers(size: int, expected: int) -> None:
    sample = np.broadcast_to(np.uint8(0), size)
    kept: list[Any] = []
    for _ in range(10):
        keep(sample, kept, 2, 4)
    assert len(kept) == expected


@pytest.mark.parametrize("kind", [torch.from_numpy, np.asarray])
def test_values_of_all_pieces_are_counted(kind: Any) -> None:
    values = np.zeros(VALUES_AT_ONCE + 2, dtype=np.float32)
    values[[0, -1]] = np.nan, np.inf
    (mixed,) = leaves_of(kind(values))
    assert (mixed.nan, mixed.inf, mixed.mask, mixed.constant) == (1, 1, False, False)
    values[:] = 0
    values[[0, -1]] = -np.inf
    (mask,) = leaves_of(kind(values))
    assert (mask.nan, mask.inf, mask.mask) == (0, 2, True)


@pytest.mark.parametrize("kind", [torch.from_numpy, np.asarray])
def test_a_large_array_of_one_value_is_constant(kind: Any) -> None:
    values = np.full(VALUES_AT_ONCE + 2, 3.0)
    assert leaves_of(kind(values))[0].constant
    values[-1] = 4
    assert not leaves_of(kind(values))[0].constant
