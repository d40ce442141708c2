"""Along which axis of an array the rows are that samples come from."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from dataguard.lab.provenance.held_rows import find_rows
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.row_axes import find_axes
from tests.lab.rows.test_stores import Held

RANDOM = np.random.default_rng(0)
SIGNALS = RANDOM.random((16, 400), np.float32)
TRIALS = RANDOM.random((12, 10, 40))
RECORDINGS = [RANDOM.random((12, 180)) for _ in range(3)]

Make = Callable[[Any, int], Any]


def standardized(self: Any, index: int) -> Any:
    """A window whose values depend on all of its rows."""
    window = self.x[:, index * 9 : index * 9 + 20]
    return (window - window.mean()) / window.std()


def described(self: Any, index: int) -> Any:
    """A window, a statistic of all rows, and a number that a few rows decide."""
    window = self.x[:, index * 9 : index * 9 + 9]
    return {"x": window, "mean": self.x.mean(1), "loudest": int(window[:, 0].argmax())}


def cropped(self: Any, index: int) -> Any:
    """A part of an image."""
    top = int(torch.randint(4, ()))
    return self.x[index, top : top + 6, index % 4 : index % 4 + 6]


def in_one_recording(self: Any, index: int) -> Any:
    """A window of one of several recordings."""
    start = index % 16 * 9
    return self.x[index // 16][:, start : start + 9]


CASES: dict[str, tuple[Make, Any, int]] = {
    "windows of channels": (lambda self, i: self.x[:, i * 9 : i * 9 + 9], SIGNALS, 1),
    "a tensor": (lambda self, i: self.x[:, i * 9 : i * 9 + 9], torch.tensor(SIGNALS), 1),
    "three channels": (lambda self, i: self.x[:, i * 9 : i * 9 + 9], SIGNALS[:3], 1),
    "booleans": (lambda self, i: self.x[:, i * 9 : i * 9 + 9] > 0.5, SIGNALS, 1),
    "windows of unlike lengths": (lambda self, i: self.x[:, i * 9 : i * 9 + 9 + i % 5], SIGNALS, 1),
    "standardized windows": (standardized, SIGNALS, 1),
    "described windows": (described, SIGNALS, 1),
    "trials along the last axis": (lambda self, i: self.x[:, :, i], TRIALS, 2),
    "equal recordings": (in_one_recording, RECORDINGS, 1),
    "unlike recordings": (in_one_recording, [one[:, number:] for number, one in enumerate(RECORDINGS)], 0),
    "rows": (lambda self, i: self.x[i * 9 : i * 9 + 9], SIGNALS.T, 0),
    "crops": (cropped, TRIALS.T, 0),
    "rows of a square matrix": (lambda self, i: self.x[i], RANDOM.random((40, 40)), 0),
    "windows of a chosen recording": (lambda self, i: self.x[i // 10, :, i % 10 : i % 10 + 9], TRIALS, 0),
    "all rows": (lambda self, i: self.x * (i + 1), SIGNALS, 0),
    "all rows, centred": (lambda self, i: self.x[:, :200] - self.x.mean(1, keepdims=True), SIGNALS, 0),
}
"""What makes samples, what they are made of, and the axis of its rows, if that has to be found."""


@pytest.mark.parametrize("name", CASES)
def test_the_axis_of_the_rows(name: str) -> None:
    make, held, axis = CASES[name]
    held = copy.deepcopy(held)
    before = repr(held)
    dataset = Held(make, x=held)

    def read(index: Any) -> Any:
        torch.manual_seed(0)
        return dataset[index]

    assert find_axes(read, dataset, [0, 3, 7, 20, 38]) == ({"dataset.x": axis} if axis else {})
    assert repr(held) == before


@pytest.mark.parametrize("name", ["windows of channels", "a tensor", "three channels", "unlike recordings"])
def test_rows_along_another_axis(name: str, tmp_path: Any) -> None:
    make, held, _ = CASES[name]
    origins = find_rows(Reader(DataLoader(Held(make, x=held)), tmp_path), [3, 20])
    source = "dataset.x[*][:, *]" if isinstance(held, list) else "dataset.x[:, *]"
    assert [leaf.source for sample in origins.samples for leaf in sample.leaves] == [source] * 2
    (first,) = origins.samples[0].leaves
    assert (first.axis, first.rows) == (1, tuple(range(27, 36)))


def test_an_array_that_one_sample_reads() -> None:
    dataset = Held(lambda self, i: self.x[:, 4:9] if i == 7 else np.zeros(5), x=SIGNALS.copy())
    assert find_axes(lambda index: dataset[index], dataset, [0, 7, 20]) == {"dataset.x": 1}
    assert find_axes(lambda index: dataset[index], dataset, [0, 20]) == {}
