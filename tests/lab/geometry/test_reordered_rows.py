"""Entries in another order, and what is beside them."""

from __future__ import annotations

import numpy as np
import pytest

from dataguard.lab.core.records import Index
from dataguard.lab.geometry.reordered_rows import _compared, _order

BASES = np.eye(4)[np.random.default_rng(0).integers(0, 4, 24)]
LABELS = np.random.default_rng(1).integers(0, 2, 24)


@pytest.mark.parametrize(
    ("one", "two", "is_reversed"),
    [
        (BASES, BASES[::-1], True),
        (BASES, BASES[::-1, ::-1], True),
        (BASES.T, BASES.T[:, ::-1], True),
        (BASES.argmax(1), 3 - BASES.argmax(1)[::-1], True),
        (np.arange(24), np.roll(np.arange(24), 5), False),
    ],
    ids=["backwards", "other strand", "channels first", "other letters", "shuffled"],
)
def test_another_order_is_recognized(one: np.ndarray, two: np.ndarray, *, is_reversed: bool) -> None:
    order, backwards = _order(one, two, reversals_only=False)
    assert order is not None
    assert backwards is is_reversed


def test_letters_that_are_all_different_are_in_no_order() -> None:
    drawn = np.random.default_rng(2)
    one, two = drawn.permutation(100)[:24], drawn.permutation(100)[:24]
    assert _order(one, two, reversals_only=False)[0] is None
    assert _order(BASES, BASES, reversals_only=False)[0] is None, "the same"


def kept(draws: list[dict[str, np.ndarray]], others: list[dict[str, np.ndarray]]) -> int:
    states: dict[Index, list[dict[str, np.ndarray]]] = {0: draws, 1: others}
    found = _compared("x", "y", states)
    return found.kept if found else 0


def test_what_keeps_its_order_is_counted_but_for_positions_and_what_is_restored() -> None:
    other = [{"x": BASES[::-1], "y": LABELS[::-1]}, {"x": BASES, "y": LABELS}]
    assert kept([{"x": BASES, "y": LABELS}, {"x": BASES[::-1], "y": LABELS}], other) == 1
    assert kept([{"x": BASES, "y": LABELS}, {"x": BASES[::-1], "y": LABELS[::-1]}], other) == 0
    assert kept([{"x": BASES, "y": np.arange(24)}, {"x": BASES[::-1], "y": np.arange(24)}], other) == 0
    values = np.arange(24.0)
    assert kept([{"x": values, "y": values % 7}, {"x": values[::-1], "y": values % 7}], other) == 1
    assert kept([{"x": values % 7, "y": values % 7}, {"x": values[::-1] % 7, "y": values % 7}], other) == 0
