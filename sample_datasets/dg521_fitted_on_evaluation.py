"""DG521 fitted-on-evaluation: a scaler was fitted on training and evaluation together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from sample_datasets._parts import PHOTOGRAPHS, scratch, stored

Loaders = dict[str, DataLoader[Any]]
COUNT, WIDTH = 640, 6
TRAIN = 480


def table() -> np.ndarray:
    """Measurements on different scales: (samples, columns)."""
    drawn = np.random.default_rng(3).gamma(2.0, 1.5, (COUNT, WIDTH))
    return np.asarray(drawn * np.arange(1, WIDTH + 1) + 5)


def standardized(rows: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """As scikit-learn's `StandardScaler` does."""
    return np.asarray((rows - fitted.mean(0)) / fitted.std(0))


def ranged(rows: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """As scikit-learn's `MinMaxScaler` does."""
    low, high = fitted.min(0), fitted.max(0)
    return np.asarray((rows - low) / (high - low))


def rows(values: np.ndarray) -> TensorDataset:
    """A dataset of rows and labels."""
    return TensorDataset(torch.from_numpy(values).float(), torch.arange(len(values)) % 2)


def loaders(train: Dataset[Any], val: Dataset[Any]) -> Loaders:
    return {"train": DataLoader(train, batch_size=16, shuffle=True), "val": DataLoader(val, batch_size=16)}


def bad() -> Loaders:
    """Standardized, then split."""
    values = standardized(table(), table())  # culprit
    return loaders(rows(values[:TRAIN]), rows(values[TRAIN:]))


def bad_subsets() -> Loaders:
    """Scaled to a range from 0 to 1, then split into subsets of one dataset."""
    whole = rows(ranged(table(), table()))  # culprit
    order = np.random.default_rng(5).permutation(COUNT).tolist()
    return loaders(Subset(whole, order[:TRAIN]), Subset(whole, order[TRAIN:]))


class Listed(Dataset[Any]):
    """Rows in a list, of which each becomes a tensor when it is read."""

    def __init__(self, values: np.ndarray) -> None:
        self.records = [{"x": row.tolist(), "y": number % 2} for number, row in enumerate(values)]

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        record = self.records[index]
        return torch.tensor(record["x"]), record["y"]


def bad_listed() -> Loaders:
    """The same of rows that are in no array, with few enough to be read all."""
    values = standardized(table()[:240], table()[:240])  # culprit
    return loaders(Listed(values[:180]), Listed(values[180:]))


class Windows(Dataset[Any]):
    """Windows of a series, and the steps that follow each."""

    LENGTH, AHEAD = 24, 9

    def __init__(self, series: np.ndarray) -> None:
        self.series = torch.from_numpy(series).float()

    def __len__(self) -> int:
        return len(self.series) - self.LENGTH - self.AHEAD + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        end = index + self.LENGTH
        return self.series[index:end], self.series[end : end + self.AHEAD]


def windows(values: np.ndarray) -> Loaders:
    """The windows to be predicted in validation begin where training ends: their inputs are older."""
    return loaders(Windows(values[:TRAIN]), Windows(values[TRAIN - Windows.LENGTH :]))


def bad_windows() -> Loaders:
    """A series is standardized, then split; validation begins with the last window of training."""
    return windows(standardized(table(), table()))  # culprit


def good_windows() -> Loaders:
    """A series that is standardized by the part for training."""
    return windows(standardized(table(), table()[:TRAIN]))


def good_unscaled_windows() -> Loaders:
    """Series of which nothing was fitted: they come from an instrument."""
    return windows(table())


def good() -> Loaders:
    """Split, then standardized by the training rows."""
    train, val = table()[:TRAIN], table()[TRAIN:]
    return loaders(rows(standardized(train, train)), rows(standardized(val, train)))


def good_samples() -> Loaders:
    """Each sample is standardized by itself."""
    values = table()
    values = (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)
    return loaders(rows(values[:TRAIN]), rows(values[TRAIN:]))


def good_bytes() -> Loaders:
    """Bytes divided by 255: the range is that of the type."""
    values = np.random.default_rng(4).integers(0, 256, (COUNT, WIDTH)) / 255
    return loaders(rows(values[:TRAIN]), rows(values[TRAIN:]))


def good_apart() -> Loaders:
    """Each split is standardized by itself, so that both together are, too."""
    train, val = table()[:TRAIN], table()[TRAIN:]
    return loaders(rows(standardized(train, train)), rows(standardized(val, val)))


def good_range() -> Loaders:
    """Scaled to the range of the training rows."""
    train, val = table()[:TRAIN], table()[TRAIN:]
    return loaders(rows(ranged(train, train)), rows(ranged(val, train)))


def good_tiny() -> Loaders:
    """One column of twelve rows: its mean and deviation may be exact by chance."""
    values = standardized(table()[:12, :1], table()[:12, :1])
    return loaders(rows(values[:9]), rows(values[9:]))


ROOT = scratch("dg521-")


def stored_table() -> Path:
    """A table in a file, with a column of classes."""
    frame = pd.DataFrame(table(), columns=[f"x{number}" for number in range(WIDTH)])
    return stored(ROOT / "table.csv", partial(frame.assign(label=np.arange(COUNT) % 3).to_csv, index=False))


def split_at_random(frame: pd.DataFrame, fitted: pd.DataFrame | None = None) -> Loaders:
    """Two subsets of one dataset, whose columns are divided by the largest value of the fitted rows."""
    order = np.random.default_rng(5).permutation(COUNT)
    columns = [name for name in frame if name != "label"]
    largest = (frame.iloc[order[:TRAIN]] if fitted is None else fitted)[columns].max()
    values = torch.tensor((frame[columns] / largest).to_numpy(), dtype=torch.float32)
    whole = TensorDataset(values, torch.tensor(frame["label"].to_numpy()))
    return loaders(Subset(whole, order[:TRAIN].tolist()), Subset(whole, order[TRAIN:].tolist()))


def bad_divided() -> Loaders:
    """Columns of a file are divided by the largest value of all rows: no mean or range of the result shows it."""
    frame = pd.read_csv(stored_table())
    return split_at_random(frame, frame)  # culprit


def good_divided() -> Loaders:
    """The same, with the largest value of the training rows."""
    return split_at_random(pd.read_csv(stored_table()))


def good_sorted() -> Loaders:
    """Rows are sorted by a column: other values in evaluation rows would put other rows into training."""
    return split_at_random(pd.read_csv(stored_table()).sort_values("x0"))


def good_ranked() -> Loaders:
    """Rows are weighted by how many of their class there are in the whole table: no statistic of a column."""
    frame = pd.read_csv(stored_table())
    return split_at_random(frame.assign(weight=1.0 / frame.groupby("label")["label"].transform("size")))


class Centred(Dataset[Any]):
    """Photographs less their mean, which was computed before."""

    def __init__(self, paths: Sequence[Path], fitted: Sequence[Path]) -> None:
        self.paths = list(paths)
        self.mean = np.mean([pixels(path) for path in fitted], axis=(0, 1, 2))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(pixels(self.paths[index]) - self.mean).float()


def pixels(path: Path) -> np.ndarray:
    """A photograph of 16 x 16 pixels."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB").resize((16, 16)), dtype=np.float64)


def bad_mean() -> Loaders:
    """The mean of all photographs is subtracted, those for evaluation included."""
    train, val = PHOTOGRAPHS[:16], PHOTOGRAPHS[16:]
    return loaders(Centred(train, PHOTOGRAPHS), Centred(val, PHOTOGRAPHS))  # culprit


def good_mean() -> Loaders:
    """The mean of the photographs for training is subtracted."""
    train, val = PHOTOGRAPHS[:16], PHOTOGRAPHS[16:]
    return loaders(Centred(train, train), Centred(val, train))


def by_group(coded: Callable[[pd.DataFrame, np.ndarray], pd.Series]) -> Loaders:
    """Two subsets of a table whose groups are replaced by a number."""
    frame = pd.read_csv(stored_groups())
    order = np.random.default_rng(5).permutation(COUNT)
    frame = frame.assign(code=coded(frame, order[:TRAIN]))  # culprit
    values = torch.tensor(frame.drop(columns=["group", "label"]).to_numpy(), dtype=torch.float32)
    whole = TensorDataset(values, torch.tensor(frame["label"].to_numpy()))
    return loaders(Subset(whole, order[:TRAIN].tolist()), Subset(whole, order[TRAIN:].tolist()))


def stored_groups() -> Path:
    """The table with a column of five groups."""
    drawn = np.random.default_rng(6)
    frame = pd.read_csv(stored_table()).assign(
        group=drawn.choice(list("abcde"), COUNT), label=drawn.integers(0, 2, COUNT)
    )
    return stored(ROOT / "groups.csv", partial(frame.to_csv, index=False))


def bad_coded() -> Loaders:
    """The mean label of each group, over all rows."""
    return by_group(lambda frame, _: frame.groupby("group")["label"].transform("mean"))


def good_coded() -> Loaders:
    """The mean label of each group in the training rows."""
    return by_group(lambda frame, train: frame["group"].map(frame.iloc[train].groupby("group")["label"].mean()))


def good_frequencies() -> Loaders:
    """How many rows there are of each group, of which labels say nothing."""
    return by_group(lambda frame, _: frame.groupby("group")["label"].transform("size"))
