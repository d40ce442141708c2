"""Where the windows of a split begin in its text, and which parts of the texts of two splits count as shared."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dataguard.lab.splits.shared_text import HeldText, SharedText, _compared, _first_and_step, _held, _text_of

WINDOW = 64
TEXT = np.random.default_rng(0).integers(0, 12, 6000)


def held(text: np.ndarray, step: int = 1, numbers: np.ndarray | None = None) -> HeldText:
    """The windows of a text at even steps, or those of these numbers."""
    numbers = np.arange((len(text) - WINDOW) // step + 1) if numbers is None else numbers
    return _held(text, WINDOW, 0, step, numbers, np.arange(len(numbers)))


@pytest.mark.parametrize(("first", "step"), [(0, 1), (7, 1), (0, 64), (3, 50)])
def test_windows_are_found_whatever_numbers_their_characters_get(first: int, step: int) -> None:
    renumbered = np.random.default_rng(1).permutation(12)
    rows = [(number, renumbered[TEXT[first + number * step :][:WINDOW]]) for number in (0, 20, 45, 90)]
    assert _first_and_step(TEXT, rows) == (first, step)


def test_a_window_that_occurs_twice_is_placed_by_the_others() -> None:
    text = np.concatenate([TEXT[:1000], TEXT[200:300], TEXT[1000:]])
    rows = [(number, text[number : number + WINDOW]) for number in (0, 210, 3000)]
    assert _first_and_step(text, rows) == (0, 1)
    assert _first_and_step(text, rows[1:2] * 2) is None


def test_windows_at_uneven_steps_are_not_placed() -> None:
    rows = [(number, TEXT[start : start + WINDOW]) for number, start in ((0, 0), (1, 500), (2, 700))]
    assert _first_and_step(TEXT, rows) is None


def test_what_a_text_is() -> None:
    for value in ("ab" * 40, b"ab" * 40, ["a", "b"] * 40, [97, 98] * 40, torch.tensor([97, 98] * 40)):
        assert np.array_equal(np.array(_text_of(value, 64)), [97, 98] * 40)
    for other in ("ab", [0.5] * 80, torch.zeros(80), torch.zeros(80, 2, dtype=torch.long), {"a": 1}, ["ab"] * 80):
        assert _text_of(other, 64) is None


@pytest.mark.parametrize(
    ("begin", "windows", "cut"),
    [(5000, 0, False), (5000 - WINDOW, 0, False), (4700, 300, True)],
    ids=["apart", "past", "overlap"],
)
def test_one_window_of_past_is_no_leak(begin: int, windows: int, cut: bool) -> None:
    shared = _compared(held(TEXT[begin:]), held(TEXT[:5000]))
    assert (shared.whole, shared.cut, bool(shared.windows)) == (True, cut, bool(windows))
    assert abs(shared.windows - windows) < WINDOW


def test_windows_that_are_drawn_at_random_share_all_if_they_overlap() -> None:
    def divided(step: int) -> SharedText:
        order = np.random.default_rng(2).permutation((len(TEXT) - WINDOW) // step + 1)
        cut = len(order) // 10
        return _compared(held(TEXT, step, np.sort(order[:cut])), held(TEXT, step, np.sort(order[cut:])))

    overlapping, apart = divided(1), divided(WINDOW)
    assert overlapping.windows > 0.9 * overlapping.of
    assert apart.windows == 0
