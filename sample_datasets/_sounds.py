"""Sound files of every kind, written into one temporary folder of this user whenever a process needs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from torch.utils.data import DataLoader, Dataset

from sample_datasets._files import FOLDER

SECONDS = 0.6


def recording(number: int, rate: int, channels: int = 1) -> np.ndarray:
    """Voiced sound, (frames, channels) of float64 from -0.8 to 0.8; channels differ, as those of two microphones."""
    generator = np.random.default_rng(number)
    times = np.arange(round(SECONDS * rate)) / rate
    pitch = generator.uniform(90, 240)
    voices = []
    for _ in range(channels):
        parts = [np.sin(2 * np.pi * pitch * order * times + generator.uniform(0, 6)) / order for order in range(1, 9)]
        envelope = 0.5 + 0.5 * np.sin(2 * np.pi * generator.uniform(2, 5) * times)
        voices.append(envelope * sum(parts) + 0.02 * generator.normal(size=len(times)))
    values = np.stack(voices, 1)
    return np.asarray(0.8 * values / np.abs(values).max())


def written(name: str, values: np.ndarray, rate: int, **options: Any) -> Path:
    """The path of a sound file, which is whole at any moment: other processes may be reading it."""
    path = FOLDER / name
    new = FOLDER / "new" / f"{os.getpid()}-{path.name}"
    for folder in (path.parent, new.parent):
        folder.mkdir(parents=True, exist_ok=True)
    soundfile.write(new, values, rate, **options)
    return new.replace(path)


def recordings(
    folder: str, rates: Sequence[int], *, channels: int = 1, suffix: str = "wav", count: int = 12, **options: Any
) -> list[Path]:
    """Files of these rates, one after the other."""
    chosen = [rates[number % len(rates)] for number in range(count)]
    return [
        written(f"sound/{folder}/{number:02}.{suffix}", recording(number, rate, channels), rate, **options)
        for number, rate in enumerate(chosen)
    ]


class Sounds(Dataset[Any]):
    """Recordings with one of three classes; `load` makes of a path what a sample holds."""

    def __init__(self, paths: Sequence[Path], load: Callable[[Path], Any]) -> None:
        self.paths = list(paths)
        self.load = load

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.load(self.paths[index]), index % 3


def loader(paths: Sequence[Path], load: Callable[[Path], Any], **options: Any) -> DataLoader[Any]:
    """Batches of four recordings, read in the main process."""
    return DataLoader(Sounds(paths, load), batch_size=4, **options)
