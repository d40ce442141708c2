"""Inputs that depend on the rows of their target, and those that only look so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from dataguard.checks.provenance.dg528_look_ahead import computed_late, held_by
from dataguard.lab.process.isolation import isolated
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.row_axes import find_axes
from dataguard.lab.rows.window_rows import Windows, find_windows, inputs_of, target_of
from tests.lab.provenance.test_group_ends import Held

ROWS, PAST, NEXT = 300, 16, 8
PRICES = np.random.default_rng(2).normal(size=(ROWS, 3)).cumsum(0).astype(np.float32)
GAPS = np.where(np.random.default_rng(4).random((ROWS, 3)) < 0.5, np.nan, PRICES)


def past(self: Any, index: int) -> Any:
    return self.values[index : index + PAST]


def direction(self: Any, index: int) -> Any:
    end = index + PAST
    return past(self, index), float(self.values[end, 0] > self.values[end - 1, 0])


def log_return(self: Any, index: int) -> Any:
    end = index + PAST
    return past(self, index), np.log1p(abs(self.values[end, 0])) - np.log1p(abs(self.values[end - 1, 0]))


def mean(self: Any, index: int) -> Any:
    return past(self, index), past(self, index)[:, 0].mean()


def filled_backwards(self: Any, index: int) -> Any:
    window = self.values[index : index + PAST + NEXT].copy()
    for row in range(len(window) - 2, -1, -1):
        window[row] = np.where(np.isnan(window[row]), window[row + 1], window[row])
    return window[:PAST], window[PAST:, 0]


def midpoint(self: Any, index: int) -> Any:
    return past(self, index)[:, :2], past(self, index)[PAST // 2, 2]


def imputed(self: Any, index: int) -> Any:
    window = past(self, index)
    hidden = np.arange(PAST) % 3 == index % 3
    return {"x": np.where(hidden[:, None], 0, window), "mask": hidden, "y": window}


def scaled_alone(self: Any, index: int) -> Any:
    window = past(self, index)
    future = self.values[index + PAST : index + PAST + NEXT]
    return (window - window.mean(0)) / window.std(0), (future - window.mean(0)) / window.std(0)


def teacher_forced(self: Any, index: int) -> Any:
    end = index + PAST
    return {
        "encoder_input": past(self, index),
        "decoder_input": self.values[end - 1 : end - 1 + NEXT],
        "target": self.values[end : end + NEXT],
    }


def two_too_late(self: Any, index: int) -> Any:
    end = index + PAST
    return {"history": past(self, index), "horizon": self.values[end - 2 : end - 2 + NEXT]}


def next_label(self: Any, index: int) -> Any:
    """A label of the last row, which the input holds as a column."""
    return past(self, index), self.values[index + PAST - 1, 2]


def neighbours(self: Any, index: int) -> Any:
    """A row, and what is to be told of it by another column."""
    return self.values[index, :2], self.values[index, 2]


def mixed(self: Any, index: int) -> Any:
    """A row, in part replaced by an earlier one."""
    other = self.values[index * 7 % 50]
    return np.where(np.arange(3) < 2, other, self.values[index]), self.values[index, 2]


def wide(self: Any, index: int) -> Any:
    """Many features of a window, and a column of its last row that is none of them."""
    return past(self, index)[:, :-1], self.values[index + PAST - 1, -1]


def nodes(self: Any, index: int) -> Any:
    """One quantity of some nodes, and another one in the last row."""
    return past(self, index)[..., 0], self.values[index + PAST - 1, :, 1]


def channels_first(self: Any, index: int) -> Any:
    """Columns of a table whose rows are along its second axis."""
    end = index + PAST
    return self.values[:, index:end], self.values[0, end : end + NEXT]


def channels_first_too_late(self: Any, index: int) -> Any:
    end = index + PAST
    return self.values[:, index:end], self.values[0, end - 1 : end - 1 + NEXT]


def kept(self: Any, index: int) -> Any:
    """The boxes of four images, of which those in a crop are kept, and their classes."""
    chosen = [index, index * 7 % 50, index * 11 % 50, index * 13 % 50]
    boxes = np.concatenate([self.values[one] + [corner % 2, corner // 2, 0] for corner, one in enumerate(chosen)])
    boxes = boxes[(np.abs(boxes[:, :2] - 1) < 0.6).all(1)]
    return {"boxes": boxes[:, :2], "labels": boxes[:, 2]}


def running(self: Any, index: int) -> Any:
    """A row, scaled by a mean that each read moves, and a column of it."""
    self.mean = getattr(self, "mean", 0.0) * 0.9 + self.values[index, :2] * 0.1
    return self.values[index - 3 : index + 1, :2] - self.mean, self.values[index, 2]


LABELLED = np.column_stack([PRICES[:, :2], np.arange(ROWS) * 7 % 3])
SAMPLES: dict[str, tuple[Callable[[Any, int], Any], Any, bool]] = {
    "direction": (direction, PRICES, False),
    "log return": (log_return, PRICES, False),
    "mean": (mean, PRICES, False),
    "filled backwards": (filled_backwards, GAPS, True),
    "midpoint": (midpoint, PRICES, False),
    "imputed": (imputed, PRICES, False),
    "scaled alone": (scaled_alone, PRICES, False),
    "teacher forced": (teacher_forced, PRICES, False),
    "two rows": (two_too_late, PRICES, True),
    "label in the input": (next_label, LABELLED, True),
    "one row": (neighbours, PRICES, False),
    "mixed": (mixed, PRICES, False),
    "wide": (wide, np.random.default_rng(6).random((ROWS, 100), np.float32), False),
    "channels first": (channels_first, PRICES.T, False),
    "channels first, one row": (channels_first_too_late, PRICES.T, True),
    "many channels first": (channels_first_too_late, np.tile(PRICES.T, (8, 1)), True),
    "kept": (kept, list(np.random.default_rng(6).random((ROWS, 6, 3))), False),
    "running": (running, PRICES, False),
    "nodes": (nodes, np.random.default_rng(6).random((ROWS, 4, 2), np.float32), False),
}
"""What makes samples, the rows of which, and whether an input looks ahead."""


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Windows]:
    """The windows of all of them, found by one process that may change their rows."""
    folder: Path = tmp_path_factory.mktemp("windows")

    def find() -> dict[str, Windows]:
        made = {
            name: DataLoader(Held(sample, ROWS - PAST - NEXT, values=values.copy()))
            for name, (sample, values, _) in SAMPLES.items()
        }
        readers = {name: Reader(loader, folder) for name, loader in made.items()}
        indices = [60, 61, 130, 190]
        axes = {name: find_axes(reader.read, reader.dataset, indices) for name, reader in readers.items()}
        return {
            name: find_windows(reader, indices, None, (), affordable=True, axes=axes[name])
            for name, reader in readers.items()
        }

    return isolated(find, folder, timeout=100, allowed=100)


@pytest.mark.scan
@pytest.mark.parametrize("name", SAMPLES)
def test_inputs_that_look_ahead(name: str, windows: dict[str, Windows]) -> None:
    pairs = [(window, one) for window in windows[name].windows for one in window.inputs]
    assert any(held_by(*pair) or computed_late(*pair) for pair in pairs) is SAMPLES[name][2], windows[name]


@pytest.mark.parametrize(
    ("paths", "target"),
    [
        (["[0]", "[1]"], "[1]"),
        (["[0]['a']", "[0]['b']", "[1]"], "[1]"),
        (["[0]", "[1]", "[2]"], None),
        (["['x']", "['y']"], "['y']"),
        (["['past_target']", "['future_target']", "['future_time_feat']"], "['future_target']"),
        (["['history']", "['horizon']"], "['horizon']"),
        (["['x']", "['label']", "['label_mask']"], "['label']"),
        (["['a']", "['b']"], None),
        ([""], None),
    ],
)
def test_the_leaf_that_is_to_be_predicted(paths: list[str], target: str | None) -> None:
    assert target_of(paths) == target


def test_a_declared_target_comes_first() -> None:
    assert target_of(["['x']", "['y']"], "x") == "['x']"
    assert target_of(["['x']", "['y']"], "z") is None


def test_leaves_of_later_rows_are_no_inputs() -> None:
    paths = ["['past_target']", "['future_target']", "['decoder_input']", "['teacher']", "['value']", "['y_time']"]
    assert inputs_of(paths, "['future_target']") == ["['past_target']", "['value']"]
