"""Samples of files that have one name in several folders, from caches that know them by that alone or by their path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from dataguard.lab.dataset.shared_names import find_shared_names


class Files(Dataset[Any]):
    """Arrays of two folders with their class, read by `read`, with noise."""

    def __init__(self, root: Path, read: Callable[[dict[str, Any], Path], Any], equal: bool) -> None:
        self.entries = []
        for label, folder in enumerate(("cat", "dog")):
            (root / folder).mkdir()
            for number in range(5):
                path = root / folder / f"{number}.npy"
                np.save(path, np.full(4, number + (0.0 if equal else 10.0 * label)))
                self.entries.append((path, label))
        self.read = read
        self.cache: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        path, label = self.entries[index]
        return torch.from_numpy(self.read(self.cache, path)) + torch.rand(4), label


def by_name(cache: dict[str, Any], path: Path) -> Any:
    if path.name not in cache:
        cache[path.name] = np.load(path)
    return cache[path.name]


def by_stem_on_disk(_: dict[str, Any], path: Path) -> Any:
    kept = path.parent.parent / f"cached_{path.stem}.npy"
    if not kept.exists():
        np.save(kept, np.load(path) / 2)
    return np.load(kept)


def by_path(cache: dict[str, Any], path: Path) -> Any:
    if str(path) not in cache:
        cache[str(path)] = np.load(path)
    return cache[str(path)]


def both(_: dict[str, Any], path: Path) -> Any:
    """What several cameras saw at one time, whichever of them is listed."""
    return sum(np.load(path.parent.parent / folder / path.name) for folder in ("cat", "dog"))


def constant(_: dict[str, Any], path: Path) -> Any:
    return np.ones(4)


@pytest.mark.parametrize(
    ("read", "equal", "pairs", "leaf"),
    [
        (by_name, False, 4, "[0]"),
        (by_stem_on_disk, False, 4, "[0]"),
        (by_path, False, 4, ""),
        (both, False, 4, ""),
        (constant, False, 4, ""),
        (by_path, True, 0, ""),  # duplicates
    ],
)
def test_files_with_one_name(tmp_path: Path, read: Any, equal: bool, pairs: int, leaf: str) -> None:
    (tmp_path / "observed").mkdir()
    found = find_shared_names(DataLoader(Files(tmp_path, read, equal)), tmp_path / "observed")
    assert (len(found.pairs), found.leaf) == (pairs, leaf)
