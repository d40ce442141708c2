"""Streams that draw windows of files: whether two of them draw from the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from dataguard.lab.process.isolation import isolated
from dataguard.lab.splits.stream_overlap import SharedRows, first_samples, shared_rows

BLOCK = 16


class Windows(IterableDataset[Any]):
    """Tokens and the next ones, from random places of a part of a file, or from its first one."""

    def __init__(self, file: Path, first: int = 0, last: int = 4000, *, drawn: bool = True) -> None:
        self.file, self.first, self.last, self.drawn = file, first, last, drawn

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            tokens = np.memmap(self.file, np.uint16, "r")
            at = self.first + (int(torch.randint(self.last - self.first - BLOCK, ())) if self.drawn else 0)
            x, y = (torch.from_numpy(tokens[at + by : at + by + BLOCK].astype(np.int64)) for by in (0, 1))
            yield x, y


class Generated(IterableDataset[Any]):
    """Numbers that are made, and read from nowhere."""

    def __iter__(self) -> Iterator[Tensor]:
        while True:
            yield torch.randint(100, (BLOCK,))


@pytest.mark.scan
def test_only_streams_that_draw_from_the_same_rows_share_them(tmp_path: Path) -> None:
    train, other = tmp_path / "train.bin", tmp_path / "val.bin"
    for number, file in enumerate((train, other)):
        np.random.default_rng(number).integers(0, 99, 4000).astype(np.uint16).tofile(file)
    streams = {
        "the same": Windows(train),
        "another file": Windows(other),
        "another part": Windows(train, 3000),
        "a part as large": Windows(train, 2000),
        "the first rows": Windows(train, drawn=False),
        "generated": Generated(),
    }

    def shared() -> dict[str, SharedRows | None]:
        found = {name: first_samples(DataLoader(one, batch_size=None), tmp_path) for name, one in streams.items()}
        first_half = first_samples(DataLoader(Windows(train, 0, 2000), batch_size=None), tmp_path)
        assert shared_rows(found["a part as large"], first_half) is None
        assert shared_rows(found["generated"], found["generated"]) is None
        assert shared_rows(found["the first rows"], found["the first rows"]) is None
        whole = first_samples(DataLoader(Windows(train), batch_size=None), tmp_path)
        return {name: shared_rows(whole, one) for name, one in found.items()}

    found = isolated(shared, tmp_path, timeout=30, allowed=60)
    assert {name: one for name, one in found.items() if one} == {"the same": SharedRows((str(train),), 4)}
