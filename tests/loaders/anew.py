"""Loaders whose factories write their image files anew, each time into another folder, as tests of projects do."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps
from torch.utils.data import DataLoader
from torchvision.transforms.functional import to_tensor

from sample_datasets import _files as files
from sample_datasets.dg509_clipped_depth import scan

COUNT = 12


def _made(write: Callable[[int, Path], Path], load: Callable[[Path], Any]) -> DataLoader[Any]:
    folder = Path(tempfile.mkdtemp(dir=os.environ["ANEW"]))
    return files.loader([write(number, folder) for number in range(COUNT)], load, shuffle=True)


def _photograph(number: int, folder: Path) -> Path:
    exif = Image.Exif()
    exif[274] = 6 if number % 4 == 1 else 1
    path = folder / f"{number}.jpg"
    files.photograph(number).save(path, exif=exif)
    return path


def _sign(number: int, folder: Path) -> Path:
    path = folder / f"{number}.png"
    image = files.photograph(number)
    (image.quantize(32) if number % 4 == 1 else image).save(path)
    return path


def _scan(number: int, folder: Path) -> Path:
    path = folder / f"{number}.png"
    Image.fromarray(scan(number, 65535)).save(path)
    return path


def _bright(number: int, folder: Path) -> Path:
    """Of some scans, not one value fits into 8 bits."""
    path = folder / f"{number}.png"
    Image.fromarray(np.maximum(scan(number, 65535), 300 if number % 5 == 0 else 0)).save(path)
    return path


def _shown(path: Path) -> Any:
    return to_tensor(Image.open(path).convert("RGB").resize((40, 40)))


def _upright(path: Path) -> Any:
    return to_tensor(ImageOps.exif_transpose(Image.open(path)).convert("RGB").resize((40, 40)))


def _numbers(path: Path) -> Any:
    """The numbers of a palette pass for a grey."""
    values = np.asarray(Image.open(path))
    return to_tensor(values if values.ndim == 3 else np.stack([values] * 3, -1))


loaders = {
    "stored": lambda: _made(_photograph, _shown),
    "upright": lambda: _made(_photograph, _upright),
    "numbers": lambda: _made(_sign, _numbers),
    "colours": lambda: _made(_sign, _shown),
    "white": lambda: _made(_scan, lambda path: to_tensor(Image.open(path).convert("L"))),
    "blank": lambda: _made(_bright, lambda path: to_tensor(Image.open(path).convert("RGB"))),
    "shallow": lambda: _made(_scan, lambda path: to_tensor(np.asarray(Image.open(path), np.float32) / 255)),
    "depth": lambda: _made(_scan, lambda path: to_tensor(np.asarray(Image.open(path), np.float32) / 256)),
    "whole": lambda: _made(_scan, lambda path: to_tensor(np.asarray(Image.open(path), np.float32) / 65535)),
}
