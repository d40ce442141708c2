"""Findings about a sample say what it is read from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

import dataguard

pytestmark = pytest.mark.scan
COUNT, INDEX = 24, 7


class Files(Dataset[Any]):
    """A file a sample; one holds what is not finite, or raises once it is open."""

    def __init__(self, folder: Path, *, raises: bool = False) -> None:
        self.paths = [folder / f"{number:02}.npy" for number in range(COUNT)]
        self.raises = raises
        for number, path in enumerate(self.paths):
            np.save(path, np.full((), np.inf if number == INDEX and not raises else number, np.float32))

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        value = np.load(self.paths[index])
        if self.raises and index == INDEX:
            raise ValueError("no label")
        return torch.full((4,), float(value))


class Windows(Files):
    """Windows over a memory map, one row of which is not finite."""

    def __init__(self, folder: Path) -> None:
        rows = np.ones((COUNT + 3, 4), np.float32)
        rows[INDEX + 3] = np.nan
        np.save(folder / "all.npy", rows)
        self.rows = np.load(folder / "all.npy", mmap_mode="r")

    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(self.rows[index : index + 4].copy())


class Numbers(Files):
    """Samples that are read from nowhere."""

    def __getitem__(self, index: int) -> Any:
        return torch.full((4,), np.inf if index == INDEX else float(index))


class Stream(IterableDataset[Any]):
    """The same as a stream, whose samples have no index."""

    def __init__(self, folder: Path) -> None:
        self.files = Files(folder)

    def __iter__(self) -> Any:
        return map(self.files.__getitem__, range(COUNT))


@pytest.mark.parametrize(
    ("make", "source"),
    [
        (Files, "07.npy"),
        (lambda folder: Files(folder, raises=True), "07.npy"),
        (Windows, "all.npy, rows 7 to 10"),
        (Numbers, None),
        (Stream, None),
    ],
    ids=["files", "raises", "memory map", "no source", "stream"],
)
def test_the_evidence_names_the_source_of_the_sample(
    make: Callable[[Path], Dataset[Any]], source: str | None, tmp_path: Path
) -> None:
    report = dataguard.scan(DataLoader(make(tmp_path), batch_size=4), select=["DG001", "DG501"], budget=20)
    (finding,) = (finding for result in report.failed for finding in result.findings)
    read = finding.evidence.get("read from")
    assert (read and Path(read).name) == source
    assert ("read from" in str(report)) == (source is not None)
