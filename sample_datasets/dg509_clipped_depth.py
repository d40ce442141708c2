"""DG509 clipped-depth: of 16 bits, the upper values get lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms import v2

from sample_datasets._files import loader, photograph, written
from sample_datasets._parts import PHOTOGRAPHS

COUNT = 12


def scan(number: int, largest: int) -> np.ndarray:
    """A scan, (40, 48) of uint16, from 0 to its largest value, with a dark margin."""
    grey = np.asarray(photograph(number).convert("L"), np.float64)
    noise = np.random.default_rng(number).uniform(0, 1, grey.shape)
    values = grey - grey.min() + noise
    scaled: np.ndarray = (values / values.max() * largest).astype(np.uint16)
    scaled[:, :6] //= 512
    return scaled


SCANS = [written(f"scans/{number:02}.png", scan(number, 65535)) for number in range(COUNT)]
BRIGHT = [written(f"bright/{number:02}.png", np.maximum(scan(number, 65535), 300)) for number in range(COUNT)]
"""Not one value fits into 8 bits."""
TWELVE_BITS = [written(f"twelve/{number:02}.tif", scan(number, 4095)) for number in range(COUNT)]
OBJECTS = [written(f"objects/{number:02}.png", (scan(number, 200) // 40).astype(np.uint16)) for number in range(COUNT)]
"""Numbers of objects, few enough for 8 bits."""


def read(path: Path, flags: int = cv2.IMREAD_UNCHANGED) -> np.ndarray:
    """Read by OpenCV, by default as it is stored."""
    return np.asarray(cv2.imread(str(path), flags))


def unit(values: np.ndarray) -> Tensor:
    """Floating point numbers, one channel first."""
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))[None]


def bad() -> DataLoader[Any]:
    """Pillow makes white of everything above 255."""
    return loader(SCANS, lambda path: transforms.ToTensor()(Image.open(path).convert("L")), shuffle=True)  # culprit


def bad_colour() -> DataLoader[Any]:
    """The same on the way to three channels, as pretrained models have them, until nothing but white is left."""
    augment = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    return loader(BRIGHT, lambda path: augment(Image.open(path).convert("RGB")))  # culprit


def bad_tiff() -> DataLoader[Any]:
    """12 bits in TIFF files, standardized afterwards, image by image."""

    def standardized(path: Path) -> Tensor:
        image = transforms.functional.to_tensor(Image.open(path).convert("L"))  # culprit
        found: Tensor = (image - image.mean()) / (image.std() + 1e-3)
        return found

    return loader(TWELVE_BITS, standardized)


def bad_bytes() -> DataLoader[Any]:
    """numpy keeps the lower 8 bits."""
    return loader(SCANS, lambda path: unit(read(path).astype(np.uint8)) / 255)  # culprit


def bad_signed() -> DataLoader[Any]:
    """`ToTensor` makes int16 of 16 bits without a sign."""
    to_tensor = transforms.ToTensor()
    return loader(SCANS, lambda path: to_tensor(Image.open(path)).float() / 65535)  # culprit


def bad_wide() -> DataLoader[Any]:
    """Pillow's mode I has 32 bits, and is scaled as such."""
    scale = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    return loader(SCANS, lambda path: scale(Image.open(path).convert("I")))  # culprit


def bad_coarse() -> DataLoader[Any]:
    """OpenCV divides by 256, which leaves sixteen grey levels of 12 bits."""
    return loader(TWELVE_BITS, lambda path: unit(read(path, cv2.IMREAD_GRAYSCALE) / 255))


def good() -> DataLoader[Any]:
    """Divided by what 16 bits hold."""
    return loader(SCANS, lambda path: unit(read(path) / 65535), shuffle=True)


def good_pillow() -> DataLoader[Any]:
    """Pillow hands out all bits."""
    return loader(TWELVE_BITS, lambda path: unit(np.asarray(Image.open(path)) / 4095))


def good_reduced() -> DataLoader[Any]:
    """OpenCV divides by 256 unless it is asked for more: coarse, but nothing is cut off."""
    return loader(SCANS, lambda path: unit(read(path, cv2.IMREAD_GRAYSCALE) / 255))


MIXED = [written(f"mixed/{number:02}.png", scan(number, 65535 if number % 5 == 3 else 4095)) for number in range(COUNT)]
"""Most files are dark."""


def good_reduced_dark() -> DataLoader[Any]:
    """The same where some of the files fill 16 bits."""
    return loader(MIXED, lambda path: unit(read(path, cv2.IMREAD_GRAYSCALE) / 255))


def good_window() -> DataLoader[Any]:
    """A window of values, as radiologists look at them."""

    def windowed(path: Path) -> Tensor:
        values = read(path).astype(np.float32)
        return unit(np.clip((values - 20_000) / 15_000, 0, 1))

    return loader(SCANS, windowed)


def good_standardized() -> DataLoader[Any]:
    """Each scan by its own values, between two of its percentiles."""

    def standardized(path: Path) -> Tensor:
        values = np.asarray(Image.open(path)).astype(np.float32)
        low, high = np.percentile(values, (1, 99))
        return unit(np.clip((values - low) / max(high - low, 1), 0, 1))

    return loader(TWELVE_BITS, standardized)


def good_objects() -> DataLoader[Any]:
    """16 bits hold what 8 bits would hold as well."""

    def numbers(path: Path) -> Tensor:
        return torch.from_numpy(np.array(Image.open(path).convert("L"))).long()

    return loader(OBJECTS, numbers)


class Foregrounds(Dataset):
    """Photographs with masks of 16 bits that number the instances, of which only the foreground is wanted."""

    def __init__(self) -> None:
        numbers = [written(f"instances/{n:02}.png", scan(n, 3000) // 1000 * 1001) for n in range(COUNT)]
        self.pairs = list(zip(PHOTOGRAPHS, numbers, strict=False))

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        path, numbers = self.pairs[index]
        image = transforms.functional.to_tensor(Image.open(path).convert("RGB").resize((48, 40)))
        return image, torch.from_numpy((np.asarray(Image.open(numbers)) > 0).astype(np.int64))


def good_foregrounds() -> DataLoader[Any]:
    """Whatever is above 0 is foreground, on purpose."""
    return DataLoader(Foregrounds(), batch_size=4)


def good_depth() -> DataLoader[Any]:
    """Depth maps as KITTI has them: metres, times 256."""
    return loader(SCANS, lambda path: unit(np.asarray(Image.open(path), np.float32) / 256))


PLANES = [written(f"planes/{number:02}.tiff", scan(number, 65535)) for number in range(COUNT)]


def good_augmented() -> DataLoader[Any]:
    """Flipped and cropped under the same random numbers, and never cut off."""
    augment = v2.Compose([v2.RandomCrop(32), v2.RandomHorizontalFlip(), v2.RandomRotation(10)])
    return loader(PLANES, lambda path: augment(unit(read(path) / 65535)))
