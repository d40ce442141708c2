"""Image files of every kind, written into one temporary folder of this user whenever a process needs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import PHOTOGRAPHS

FOLDER = Path(gettempdir()) / f"dataguard-samples-{os.getuid()}"
WIDTH, HEIGHT = 48, 40


def photograph(number: int) -> Image.Image:
    """A photograph, upright, in red, green and blue."""
    with Image.open(PHOTOGRAPHS[number % len(PHOTOGRAPHS)]) as image:
        return image.convert("RGB").resize((WIDTH, HEIGHT))


def written(name: str, image: Image.Image | np.ndarray, **options: Any) -> Path:
    """The path of a file that holds an image, and is whole at any moment: other processes may be reading it."""
    path = FOLDER / name
    new = FOLDER / "new" / f"{os.getpid()}-{path.name}"
    for folder in (path.parent, new.parent):
        folder.mkdir(parents=True, exist_ok=True)
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(new, **options)
    return new.replace(path)


class Images(Dataset[Any]):
    """Images with one of three classes; `load` makes of a path what a sample holds."""

    def __init__(self, paths: Sequence[Path], load: Callable[[Path], Any]) -> None:
        self.paths = list(paths)
        self.load = load

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.load(self.paths[index]), index % 3


def loader(paths: Sequence[Path], load: Callable[[Path], Any], **options: Any) -> DataLoader[Any]:
    """Batches of four images, read in the main process."""
    return DataLoader(Images(paths, load), batch_size=4, **options)
