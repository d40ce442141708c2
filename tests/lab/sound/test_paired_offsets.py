"""Offsets between two windows of one noise."""

from __future__ import annotations

import numpy as np
import pytest

from dataguard.lab.sound.paired_offsets import PERIOD, PairedOffsets, offset_between

NOISE = np.resize(np.random.default_rng(0).uniform(-0.1, 0.1, PERIOD), 16_000)


def window(start: int, length: int = 4_000) -> np.ndarray:
    return NOISE[start : start + length]


@pytest.mark.parametrize(("start", "offset"), [(300, 0), (370, 70), (260, -40), (300 + 3 * PERIOD, 0), (9_000, 47)])
def test_the_offset_of_two_windows(start: int, offset: int) -> None:
    assert offset_between(window(300), window(start)) == offset
    hiss = np.random.default_rng(1).normal(0, 0.05, 4_000)
    assert offset_between(-2 * window(300) + hiss + 1, window(start)) == offset


@pytest.mark.parametrize(
    "other",
    [
        None,
        window(300, 3_999),
        np.zeros(4_000),
        np.random.default_rng(2).normal(size=4_000),
        np.repeat(window(300, 2_000), 2),  # of another rate
    ],
)
def test_other_waveforms_have_no_offset(other: np.ndarray | None) -> None:
    assert offset_between(window(300), other) is None


def test_windows_of_two_periods_are_needed() -> None:
    assert offset_between(window(0, 2 * PERIOD), window(5, 2 * PERIOD)) == 5
    assert offset_between(window(0, 2 * PERIOD - 1), window(5, 2 * PERIOD - 1)) is None


@pytest.mark.parametrize(
    ("offsets", "apart"),
    [
        ((0, 0, 0, 0, 0), False),
        ((3, -3, 0, 2, 8), False),  # codecs
        ((40, 40, 40, 40, 40), False),  # a delay of the task
        ((40, 0, 0, -90, 0), False),
        ((40, 0, 12, -90, 0), True),
    ],
)
def test_windows_are_drawn_apart(offsets: tuple[int, ...], apart: bool) -> None:
    assert PairedOffsets(("a", "b"), ("a.wav", "b.wav"), offsets, 0, collated=False).apart is apart
