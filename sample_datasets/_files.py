"""Image files of every kind, written into one temporary folder of this user whenever a process needs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from sample_datasets._parts import PHOTOGRAPHS, stored

FOLDER = Path(gettempdir()) / f"dataguard-samples-{os.getuid()}"
WIDTH, HEIGHT = 48, 40


def photograph(number: int) -> Image.Image:
    """A photograph, upright, in red, green and blue."""
    with Image.open(PHOTOGRAPHS[number % len(PHOTOGRAPHS)]) as image:
        return image.convert("RGB").resize((WIDTH, HEIGHT))


NEWEST = max(file.stat().st_mtime for file in Path(__file__).parent.glob("*.py"))


def written(name: str, image: Image.Image | np.ndarray, **options: Any) -> Path:
    """The path of a file that holds an image: `stored`, or written again after a module of this package was changed."""
    path = FOLDER / name
    if path.exists() and path.stat().st_mtime <= NEWEST:
        path.unlink(missing_ok=True)
    drawn = image if isinstance(image, Image.Image) else Image.fromarray(image)
    return stored(path, lambda new: drawn.save(new, **options))


class CropStream(IterableDataset[Tensor]):
    """Random crops of 24 images, of which `choose` gives each worker some, from a generator of its own."""

    def __init__(self, choose: Callable[[Sequence[Path]], Iterable[Path]], rank: int = 0) -> None:
        self.paths = [written(f"crops/{number:02}.png", photograph(number)) for number in range(24)]
        self.choose, self.rank = choose, rank
        self.generator: np.random.Generator | None = None

    def __iter__(self) -> Iterator[Tensor]:
        self.generator = self.generator or np.random.default_rng([torch.initial_seed(), self.rank])
        for path in self.choose(self.paths):  # culprit
            left, top = self.generator.integers(0, [WIDTH - 16, HEIGHT - 16])
            with Image.open(path) as image:
                crop = np.asarray(image.crop((left, top, left + 16, top + 16)), np.float32)
            yield torch.from_numpy(crop / 255 + self.generator.uniform(-0.1, 0.1, crop.shape).astype(np.float32))


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
