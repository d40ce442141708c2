"""Photographs that come with scikit-image and scikit-learn, read in correct and in wrong ways."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from sample_datasets import _files as files
from sample_datasets.dg505_swapped_channels import NORMALIZED

_PLACES = (("skimage", "data"), ("sklearn", "datasets/images"))
_NAMES = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "china.jpg", "flower.jpg")
_TILE = 240


def originals() -> list[Path]:
    """The RGB photographs in the packages."""
    folders = [Path(str(find_spec(package).origin)).parent / folder for package, folder in _PLACES]  # type: ignore[union-attr]
    return [path for folder in folders for path in sorted(folder.iterdir()) if path.name in _NAMES]


def taken(orientation: int = 1) -> list[Path]:
    """Four crops of each, stored with an EXIF orientation, 1 or 6, as a camera does: 6 is shown turned clockwise."""
    exif = Image.Exif()
    exif[274] = orientation
    paths = []
    for original in originals():
        with Image.open(original) as image:
            photograph = image.convert("RGB")
        for number, (left, top) in enumerate([(0, 0), (100, 0), (0, 50), (100, 50)]):
            part = photograph.crop((left, top, left + _TILE, top + _TILE))
            held = part.transpose(Image.Transpose.ROTATE_90) if orientation == 6 else part
            paths.append(files.written(f"photographs/{original.stem}{number}-{orientation}.jpg", held, exif=exif))
    return paths


MOVED = transforms.Compose([transforms.RandomResizedCrop(96, (0.3, 1)), transforms.RandomHorizontalFlip()])
TO_TENSOR, NORMALIZE = NORMALIZED.transforms


def _loader(
    paths: list[Path], load: Callable[[Path], Image.Image], scale: Callable[[Image.Image], Any] = NORMALIZED
) -> DataLoader[Any]:
    return files.loader(paths, lambda path: scale(MOVED(load(path))), shuffle=True)


def _upright(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return ImageOps.exif_transpose(image)


def _as_stored(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB")


def _bgr(path: Path) -> Image.Image:
    return Image.fromarray(np.asarray(cv2.imread(str(path))))


class _Crops(Dataset[Any]):
    """Random crops of photographs, from a generator that the dataset holds."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        left, top = self.rng.integers(0, _TILE - 128, size=2)
        return TO_TENSOR(_upright(self.paths[index]).crop((left, top, left + 128, top + 128)))


def _shown(orientation: int = 1) -> list[Path]:
    """The photographs of scikit-image, which are in the public domain: those of scikit-learn ask for a credit."""
    return [path for path in taken(orientation) if not path.stem.startswith(("china", "flower"))]


def equal_crops() -> DataLoader[Any]:
    """Each worker starts with a copy of one generator, and crops as the others do."""
    return DataLoader(_Crops(_shown()), batch_size=4, num_workers=2, persistent_workers=True)


def bgr_photographs() -> DataLoader[Any]:
    """OpenCV's order of channels, with the statistics of RGB."""
    return files.loader(_shown(), lambda path: NORMALIZED(_bgr(path).resize((128, 128))))


def rotated_photographs() -> DataLoader[Any]:
    """Photographs of a camera that was held upright, read without its EXIF orientation."""
    return files.loader(_shown(6), lambda path: TO_TENSOR(_as_stored(path).resize((128, 128))))


loaders = {
    "upright": lambda: _loader(taken(), _upright),
    "orientation_applied": lambda: _loader(taken(6), _upright),
    "orientation_ignored": lambda: _loader(taken(6), _as_stored),
    "bgr": lambda: _loader(taken(), _bgr),
    "divided_twice": lambda: _loader(taken(), _upright, lambda image: NORMALIZE(TO_TENSOR(image) / 255)),
}
