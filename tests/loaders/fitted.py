"""Splits of files whose columns are standardized, by the rows that `FITTED` names: all, or those for training."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from sample_datasets._parts import scratch, stored

Loaders = dict[str, DataLoader[Any]]
ROOT = scratch("fitted-")
ROWS, TRAIN, COLUMNS = 1200, 900, ["a", "b", "c", "d"]
EPISODES, TRAINING_EPISODES = 12, 9


def walk() -> np.ndarray:
    """A random walk in four columns, as float32: (rows, columns)."""
    return np.random.default_rng(0).normal(size=(ROWS, len(COLUMNS))).cumsum(0).astype(np.float32)


def pair(train: Any, val: Any) -> Loaders:
    """A loader for training, and one for validation."""
    return {"train": DataLoader(train, batch_size=8, shuffle=True), "val": DataLoader(val, batch_size=8)}


def standardized(rows: Any, fitted: Any) -> Any:
    """As scikit-learn's `StandardScaler` does."""
    return (rows - fitted.mean(0)) / fitted.std(0)


class Windows(Dataset[Any]):
    """Windows of 24 rows, and the first column of the six rows after each."""

    def __init__(self, rows: np.ndarray, noise: float = 0.0) -> None:
        self.rows = rows
        self.noise = np.float32(noise)

    def __len__(self) -> int:
        return len(self.rows) - 30

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        rows = self.rows[index : index + 30]
        if self.noise:
            rows += self.noise * torch.randn(rows.shape).numpy()  # in place: reading changes the rows
        return torch.from_numpy(rows[:24]), torch.from_numpy(rows[24:, 0])


def windows(every: bool) -> Loaders:
    """A series in one file; validation begins with the last window of training."""
    # A factory that has to write is not called with changed rows.
    rows = np.load(stored(ROOT / "walk.npy", lambda path: np.save(path, walk())))
    rows = standardized(rows, rows if every else rows[:TRAIN])
    return pair(Windows(rows[:TRAIN]), Windows(rows[TRAIN - 24 :]))


def each_split(every: bool) -> Loaders:
    """A series in one file, which each split loads and scales; reading adds noise to the training rows in place."""
    path = stored(ROOT / "each.csv", partial(pd.DataFrame(walk(), columns=COLUMNS).to_csv, index=False))

    def scaled() -> np.ndarray:
        rows = pd.read_csv(path).to_numpy(np.float32)
        return np.asarray(standardized(rows, rows if every else rows[:TRAIN]))

    return pair(Windows(scaled()[:TRAIN], noise=0.01), Windows(scaled()[TRAIN - 24 :]))


def two_files(every: bool) -> Loaders:
    """A table for each split."""
    paths = [ROOT / "train.csv", ROOT / "val.csv"]
    frame = pd.DataFrame(walk(), columns=COLUMNS)
    for path, part in zip(paths, (frame[:TRAIN], frame[TRAIN:]), strict=True):
        stored(path, partial(part.to_csv, index=False))
    train, val = map(pd.read_csv, paths)
    fitted = pd.concat([train, val]) if every else train
    tables = (torch.tensor(standardized(part, fitted).to_numpy()).float() for part in (train, val))
    return pair(*map(TensorDataset, tables))


class Episodes(Dataset[Any]):
    """The first rows of each of some episodes, less a mean."""

    def __init__(self, path: Path, names: list[str], mean: np.ndarray) -> None:
        self.path = path
        self.names = names
        self.mean = mean

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Tensor:
        with h5py.File(self.path) as file:
            return torch.from_numpy(file[f"{self.names[index]}/observations"][:20] - self.mean)


def episodes(every: bool) -> Loaders:
    """An HDF5 file with a group for each episode."""
    path, names = ROOT / "episodes.h5", [f"demo_{number}" for number in range(EPISODES)]
    if not path.exists():
        with h5py.File(path, "w") as file:
            for name, rows in zip(names, np.split(walk(), EPISODES), strict=True):
                file[f"{name}/observations"] = rows
    fitted = names if every else names[:TRAINING_EPISODES]
    with h5py.File(path) as file:
        mean = np.concatenate([file[f"{name}/observations"][:] for name in fitted]).mean(0)
    return pair(*(Episodes(path, part, mean) for part in (names[:TRAINING_EPISODES], names[TRAINING_EPISODES:])))


MADE = {"windows": windows, "each_split": each_split, "two_files": two_files, "episodes": episodes}


def fitted_on_all(which: str) -> Loaders:
    """Fitted on the rows of both splits."""
    return MADE[which](True)


def fitted_on_training(which: str) -> Loaders:
    """Fitted on the training rows."""
    return MADE[which](False)
