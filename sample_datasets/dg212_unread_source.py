"""DG212 unread-source: the last rows or files that a dataset holds are in no sample."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, random_split

from sample_datasets._parts import scratch, stored
from sample_datasets._sounds import written

ROOT = scratch("dg212-")
Sample = tuple[Tensor, Tensor]


def loader(dataset: Dataset[Any], *, shuffle: bool = True) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=8, shuffle=shuffle)


class Windows(Dataset[Sample]):
    """Windows of a series, with what follows on each, and the number of windows as it was given or counted."""

    def __init__(self, steps: int, window: int, stride: int, windows: int, ahead: int = 1) -> None:
        self.series = torch.from_numpy(np.random.default_rng(steps).normal(size=(steps, 3)).astype(np.float32))
        self.window, self.stride, self.ahead = window, stride, ahead
        self.windows = windows

    def __len__(self) -> int:
        return self.windows  # culprit

    def __getitem__(self, index: int) -> Sample:
        start = range(self.windows)[index] * self.stride
        end = start + self.window
        return self.series[start:end].clone(), self.series[end : end + self.ahead].clone()


def bad() -> DataLoader[Any]:
    """The number of windows is rounded down once too often: the last one is not counted."""
    steps, window = 480, 23
    return loader(Windows(steps, window, 24, (steps - window - 1) // 24))


def good() -> DataLoader[Any]:
    """All windows that fit are counted."""
    steps, window = 504, 23
    return loader(Windows(steps, window, 24, (steps - window - 1) // 24 + 1))


def good_rest() -> DataLoader[Any]:
    """What is left at the end is shorter than a window."""
    return loader(Windows(500, 23, 24, 20))


def good_horizon() -> DataLoader[Any]:
    """The last windows have nothing after them that could be predicted."""
    return loader(Windows(300, 24, 1, 300 - 24 - 24 + 1, ahead=24))


class Rows(Dataset[Sample]):
    """Rows of measurements, some of which may be left out at the end."""

    def __init__(self, rows: Tensor, count: int, first: int = 0) -> None:
        self.rows = rows
        self.labels = torch.arange(len(rows)) % 3
        self.known, self.first = count, first

    def __len__(self) -> int:
        return self.known  # culprit

    def __getitem__(self, index: int) -> Sample:
        row = self.first + range(self.known)[index]
        return self.rows[row], self.labels[row]


def measured(count: int) -> Tensor:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(count))


def bad_division() -> DataLoader[Any]:
    """The length is a multiple of the batch size."""
    return loader(Rows(measured(205), 205 // 8 * 8))


def good_loaders_share() -> dict[str, DataLoader[Any]]:
    """The rows at the end are those of validation."""
    rows = measured(200)
    return {"train": loader(Rows(rows, 184)), "val": loader(Rows(rows, 16, first=184), shuffle=False)}


class Limited(Rows):
    """Rows up to a limit."""

    def __init__(self, rows: Tensor, limit: int) -> None:
        super().__init__(rows, limit)
        self.limit = limit


def good_limit() -> DataLoader[Any]:
    """A limit is set."""
    return loader(Limited(measured(200), 190))


def good_held_out() -> DataLoader[Any]:
    """Some rows are kept for a test elsewhere."""
    data = TensorDataset(measured(200))
    kept, _ = random_split(data, [190, 10], torch.Generator().manual_seed(0))
    return loader(kept)


def good_buffer() -> DataLoader[Any]:
    """The end of a buffer is not filled yet."""
    rows = measured(200)
    rows[190:] = 0
    return loader(Rows(rows, 190))


class Shards(Dataset[Tensor]):
    """Rows in files of ten, of which one is kept open."""

    def __init__(self, files: Sequence[Path], count: int) -> None:
        self.files = list(files)
        self.known = count
        self.opened: tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        return self.known  # culprit

    def __getitem__(self, index: int) -> Tensor:
        shard, row = divmod(range(self.known)[index], 10)
        if shard != self.opened[0]:
            self.opened = shard, np.load(self.files[shard])
        return torch.from_numpy(self.opened[1][row])


def shards(count: int) -> list[Path]:
    """Files of ten rows each, the last of which has six."""
    files = [ROOT / f"shard-{number:02}.npy" for number in range(count)]
    for number, file in enumerate(files):
        rows = np.random.default_rng(number).normal(size=(6 if number == count - 1 else 10, 16))
        stored(file, partial(np.save, arr=rows.astype(np.float32)))
    return files


def bad_last_shard() -> DataLoader[Any]:
    """The last file has fewer rows than the others, and is not counted."""
    files = shards(8)
    return loader(Shards(files, (len(files) * 10 - 4) // 10 * 10))


def good_shards() -> DataLoader[Any]:
    """The rows of the last file are counted."""
    return loader(Shards(shards(8), 76))


def joined(count: int) -> ConcatDataset[Any]:
    return ConcatDataset([TensorDataset(measured(60)), TensorDataset(measured(count))])


def bad_joined() -> dict[str, DataLoader[Any]]:
    """The split is drawn for the length of the first dataset, and used for both."""
    data = joined(50)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1)).tolist()
    parts = Subset(data, order[:45]), Subset(data, order[45:])  # culprit
    return {"train": loader(parts[0]), "val": loader(parts[1], shuffle=False)}


def good_joined() -> dict[str, DataLoader[Any]]:
    """The split is drawn for both."""
    data = joined(50)
    train, val = random_split(data, [90, 20], torch.Generator().manual_seed(1))
    return {"train": loader(train), "val": loader(val, shuffle=False)}


def bad_batches() -> DataLoader[Any]:
    """The length is that of the loader, in batches of eight, and so is that of the dataset."""
    return loader(Rows(measured(240), 240 // 8))


class Excerpts(Dataset[Any]):
    """A second of each recording of five, from a start on that `draw` gives for the rest of its seconds."""

    def __init__(self, draw: Callable[[float], int]) -> None:
        noise = np.random.default_rng(3).uniform(-0.5, 0.5, (12, 5 * RATE))
        self.paths = [written(f"sound/dg212/{number:02}.wav", wave, RATE) for number, wave in enumerate(noise)]
        self.draw = draw

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        wave, rate = soundfile.read(self.paths[index], dtype="float32")
        start = self.draw(len(wave) / rate - 1)
        return wave[start : start + rate], index % 3


RATE = 8000


def bad_seconds() -> DataLoader[Any]:
    """The start is drawn in seconds, and used as a number of frames."""
    return loader(Excerpts(lambda seconds: random.randint(0, int(seconds))))  # culprit


def good_seconds() -> DataLoader[Any]:
    """The start is drawn in frames."""
    return loader(Excerpts(lambda seconds: int(random.uniform(0, seconds) * RATE)))


def good_jitter() -> DataLoader[Any]:
    """The second second, a few milliseconds earlier or later."""
    return loader(Excerpts(lambda _: RATE + random.randint(0, 80)))
