"""Rows of numbers and their classes, which several modules read."""

from __future__ import annotations

import numpy as np
import torch
from torch.utils.data import (
    TensorDataset,
)

ROWS = 96


def rows(count: int = ROWS, columns: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, columns)).astype(np.float32)


def classes(count: int = ROWS, number: int = 4, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, number, count)


def table() -> TensorDataset:
    return TensorDataset(torch.from_numpy(rows()), torch.from_numpy(classes()))
