"""DG525 misordered-frames: frames of a clip in the order of their names as text."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._files import FOLDER, photograph, written

ROOT = "dg525"
FRAMES, LENGTH = 14, 6


def frame(video: int, number: int) -> Image.Image:
    """A frame of a camera that moves over a photograph."""
    left = 1 + number * 1.5
    return photograph(video).resize((24, 20), box=(left, 2, left + 24, 22))


def by_number(name: str) -> int:
    """The last number in a name."""
    return int("".join(filter(str.isdigit, name)))


def pixels(path: str | Path) -> Tensor:
    """A frame, float32 (3, height, width)."""
    with Image.open(path) as image:
        return torch.from_numpy(np.asarray(image.convert("RGB")).copy()).permute(2, 0, 1) / 255


def videos(
    name: str, form: str = "frame_{}.jpg", numbers: Sequence[Any] = range(FRAMES), count: int = 4, folder: str = "video"
) -> list[str]:
    """Folders of frames whose names have this form."""
    for video in range(count):
        for place, number in enumerate(numbers):
            written(f"{ROOT}/{name}/{folder}_{video}/{form.format(number)}", frame(video, place), quality=95)
    return [str(FOLDER / ROOT / name / f"{folder}_{video}") for video in range(count)]


class Clips(Dataset[Any]):
    """All windows of some frames of each video, with the number of the video."""

    def __init__(
        self, folders: Sequence[str], key: Callable[[str], Any] | None = None, *, length: int = LENGTH
    ) -> None:
        self.windows = []
        for label, folder in enumerate(folders):
            names = sorted((path.name for path in Path(folder).iterdir()), key=key)  # culprit
            paths = [f"{folder}/{name}" for name in names]
            self.windows += [(paths[at : at + length], label) for at in range(len(paths) - length + 1)]

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> Any:
        paths, label = self.windows[index]
        return torch.stack([pixels(path) for path in paths]), label


def bad() -> DataLoader[Any]:
    """Names without leading zeros are sorted as text."""
    return DataLoader(Clips(videos("plain")), batch_size=4)


class Strided(Clips):
    """Every second frame from a start that is drawn, stacked on the channel axis."""

    def __getitem__(self, index: int) -> Any:
        paths, label = self.windows[index]
        start = int(torch.randint(3, ()))
        return torch.cat([pixels(path) for path in paths[start : start + 10 : 2]]), label


def bad_strided() -> DataLoader[Any]:
    """The same with a stride and a random start."""
    return DataLoader(Strided(videos("plain"), length=FRAMES), batch_size=2)


class Windows(Clips):
    """A few successive frames from a start that is drawn anywhere: many windows look well."""

    def __getitem__(self, index: int) -> Any:
        paths, label = self.windows[index]
        start = random.randrange(len(paths) - LENGTH + 1)
        return torch.stack([pixels(path) for path in paths[start : start + LENGTH]]), label


def bad_windows() -> DataLoader[Any]:
    """Windows that begin at random: those from `frame_10` to `frame_18` are in order, and others are not."""
    return DataLoader(Windows(videos("anywhere", numbers=range(5, 19), count=8), length=FRAMES), batch_size=2)


def bad_numbers() -> DataLoader[Any]:
    """Whole folders of nothing but numbers, where each image is most like the next one by number: a warning."""
    folders = videos("numbers", "{}.png", range(12), 8, folder="case")
    return DataLoader(Clips(folders, length=12), batch_size=2)


class Volumes(Dataset[Any]):
    """Whole volumes of a file of HDF5, a slice for each key."""

    def __init__(self, path: str, key: Callable[[str], Any] | None = None) -> None:
        self.path = path
        self.key = key

    def __len__(self) -> int:
        with h5py.File(self.path) as file:
            return len(file)

    def __getitem__(self, index: int) -> Any:
        with h5py.File(self.path) as file:
            slices = file[f"volume{index}/slices"]
            keys = list(slices) if self.key is None else sorted(slices, key=self.key)  # culprit
            return torch.from_numpy(np.stack([slices[key][()] for key in keys])).float() / 255


def volumes() -> str:
    """A file with a group of slices for each volume, with the keys 0, 1, 2 and so on."""
    path = FOLDER / ROOT / "volumes.h5"
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(f".{os.getpid()}")
    with h5py.File(new, "w") as file:
        for volume in range(8):
            for number in range(12):
                file[f"volume{volume}/slices/{number}"] = np.asarray(frame(volume, number).convert("L"))
    return str(new.replace(path))


def bad_keys() -> DataLoader[Any]:
    """The keys of a group of HDF5 are sorted as text."""
    return DataLoader(Volumes(volumes()), batch_size=2)


def good() -> DataLoader[Any]:
    """Names are sorted by number."""
    return DataLoader(Clips(videos("plain"), by_number), batch_size=4)


def good_keys() -> DataLoader[Any]:
    """Keys are sorted by number."""
    return DataLoader(Volumes(volumes(), int), batch_size=2)


def good_windows() -> DataLoader[Any]:
    """The same windows, of names that are sorted by number."""
    return DataLoader(
        Windows(videos("anywhere", numbers=range(5, 19), count=8), by_number, length=FRAMES), batch_size=2
    )


def good_zeros() -> DataLoader[Any]:
    """Times of cameras, which are irregular, with leading zeros."""
    times = [17 * number + number**3 for number in range(FRAMES)]
    return DataLoader(Clips(videos("times", "{:06d}.jpg", times)), batch_size=4)


def good_decimals() -> DataLoader[Any]:
    """Seconds with decimals: 0.5 is after 0.25, though 25 is more than 5."""
    names = [f"t_{number / 16}.jpg" for number in range(FRAMES)]
    return DataLoader(Clips(videos("seconds", "{}", names)), batch_size=4)


def good_reversed() -> DataLoader[Any]:
    """Clips are played backwards."""
    return DataLoader(Clips(videos("plain"), lambda name: -by_number(name)), batch_size=4)


class Shuffled(Clips):
    """Frames in an order that is to be found out, which is the label."""

    def __getitem__(self, index: int) -> Any:
        paths, _ = self.windows[index]
        order = random.sample(range(len(paths)), len(paths))
        return torch.stack([pixels(paths[place]) for place in order]), torch.tensor(order)


def good_shuffled() -> DataLoader[Any]:
    """A self-supervised task: the order of frames is drawn."""
    return DataLoader(Shuffled(videos("plain"), by_number), batch_size=4)


def good_views() -> DataLoader[Any]:
    """All views of an object, a set without an order."""
    return DataLoader(Clips(videos("views", "view_{}.jpg", range(12), 8), length=12), batch_size=2)


def good_bags() -> DataLoader[Any]:
    """Whole folders of patches with nothing but a number: a bag without an order."""
    for bag in range(8):
        for number in range(12):
            written(f"{ROOT}/bags/{bag}/{number}.png", frame(bag + number * 7, number * 5 % 12))
    return DataLoader(Clips([str(FOLDER / ROOT / "bags" / str(bag)) for bag in range(8)], length=12), batch_size=2)


def good_patches() -> DataLoader[Any]:
    """A bag of patches with their positions in the name, row and column."""
    names = [f"{row}_{column}.jpg" for row in (8, 9, 10) for column in (9, 10, 11, 12)]
    return DataLoader(Clips(videos("patches", "{}", names, 8), length=12), batch_size=2)
