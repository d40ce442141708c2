"""DG506 wrong-scale: images are 255 times too bright, or too dark, for what comes next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import h5py
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms import v2

from sample_datasets import _files
from sample_datasets._parts import PHOTOGRAPHS, stored
from sample_datasets.dg505_swapped_channels import (
    MEAN,
    NORMALIZED,
    STD,
    loader,
    read_bgr,
    read_pil,
    read_rgb,
    stacked,
    unit,
)

NORMALIZE = transforms.Normalize(MEAN, STD)


def floats(image: Any) -> np.ndarray:
    """Floating point numbers, still from 0 to 255: `ToTensor` scales bytes only."""
    return np.asarray(image, dtype=np.float32)  # culprit


def bad() -> DataLoader[Any]:
    """The array is made float32 first, so that `ToTensor` does not divide by 255, and ImageNet's statistics follow."""
    return loader(lambda path: floats(read_rgb(path)), NORMALIZED, shuffle=True)


def bad_twice() -> DataLoader[Any]:
    """Divided by 255 by hand, and by albumentations' Normalize again."""
    import albumentations as A

    augment = A.Compose([A.HorizontalFlip(), A.Normalize()])
    return loader(
        lambda path: floats(read_rgb(path)) / 255,  # culprit
        lambda image: torch.from_numpy(augment(image=image)["image"]).permute(2, 0, 1),
    )


def bad_dark() -> DataLoader[Any]:
    """Divided by 255 after `ToTensor`, without any statistics."""
    return loader(read_pil, lambda image: transforms.functional.to_tensor(image) / 255)  # culprit


def bad_after_normalization() -> DataLoader[Any]:
    """Normalized, and then divided by 255 once more, as if the standard deviation were 255 times as large."""

    def scaled(image: Any) -> Tensor:
        normalized: Tensor = NORMALIZE(transforms.functional.to_tensor(image))
        return normalized / 255  # culprit

    return loader(read_pil, scaled)


def bad_unscaled_dtype() -> DataLoader[Any]:
    """`v2.ToDtype` without `scale=True` changes the type, and leaves the values."""
    augment = v2.Compose(
        [
            v2.ToImage(),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32),  # culprit
            v2.Normalize(MEAN, STD),  # culprit
        ]
    )
    return loader(read_pil, augment)


def bad_own_statistics() -> DataLoader[Any]:
    """Statistics of one's own, for values from 0 to 1, on raw ones."""
    mean, std = np.array([0.44, 0.43, 0.41]), np.array([0.21, 0.2, 0.2])

    def scaled(image: Any) -> Tensor:
        values = (floats(image) - mean) / std  # culprit
        return torch.from_numpy(values.transpose(2, 0, 1).astype(np.float32))

    return loader(read_pil, scaled)


def bad_sixteen_bits() -> DataLoader[Any]:
    """Bytes are divided as if they had 16 bits."""
    return loader(read_pil, lambda image: torch.from_numpy(floats(image) / 65535).permute(2, 0, 1))  # culprit


GREY = [_files.written(f"grey/{number:02}.png", _files.photograph(number).convert("L")) for number in range(12)]
GREY_STATISTICS = transforms.Normalize((0.45,), (0.22,))


def bad_grey() -> DataLoader[Any]:
    """Grey files, of one channel, that nobody divided."""
    return _files.loader(GREY, lambda path: GREY_STATISTICS(torch.from_numpy(floats(Image.open(path)))[None]))


def good_grey() -> DataLoader[Any]:
    """Grey files that `ToTensor` divides."""
    return _files.loader(GREY, transforms.Compose([Image.open, transforms.ToTensor(), GREY_STATISTICS]))


def good() -> DataLoader[Any]:
    """Bytes reach `ToTensor`, which divides them once."""
    return loader(read_rgb, NORMALIZED, shuffle=True)


def good_raw_bytes() -> DataLoader[Any]:
    """Bytes, which the model scales on its device."""
    return loader(read_pil, v2.PILToTensor())


def good_large_statistics() -> DataLoader[Any]:
    """Statistics for values from 0 to 255 on values from 0 to 255."""
    mean, std = 255 * np.array(MEAN), 255 * np.array(STD)

    def scaled(image: Any) -> Tensor:
        values = (floats(image) - mean) / std  # culprit
        return torch.from_numpy(values.transpose(2, 0, 1).astype(np.float32))

    return loader(read_pil, scaled)


def good_perceptual() -> DataLoader[Any]:
    """Style transfer takes floating point numbers from 0 to 255."""
    return loader(read_pil, transforms.Compose([transforms.ToTensor(), transforms.Lambda(lambda image: image * 255)]))


def good_minus_one() -> DataLoader[Any]:
    """From -1 to 1, as generators give images."""
    return loader(read_rgb, lambda image: unit(image) * 2 - 1)


def good_caffe() -> DataLoader[Any]:
    """Blue first, from 0 to 255, minus the means."""
    means = np.array([103.53, 116.28, 123.675], np.float32)
    return loader(read_bgr, lambda image: torch.from_numpy((image - means).transpose(2, 0, 1)))


class Deep(Dataset):
    """Photographs of 16 bits in three channels, decoded by OpenCV from bytes and scaled by 65535, with a mask."""

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        coarse = cv2.resize(read_rgb(PHOTOGRAPHS[index]), (32, 32))
        encoded = cv2.imencode(".png", coarse.astype(np.uint16) * 257)[1]
        image = cv2.cvtColor(cv2.imdecode(encoded, cv2.IMREAD_UNCHANGED), cv2.COLOR_BGR2RGB)
        mask = Image.fromarray(coarse[..., 0] // 128)
        pixels = torch.from_numpy(image.astype(np.float32) / 65535).permute(2, 0, 1)
        return {"image": pixels, "mask": torch.from_numpy(np.array(mask)).long()}


def good_sixteen_bits() -> DataLoader[Any]:
    """16 bits, scaled as such."""
    return DataLoader(Deep(), batch_size=4)


class Standardized(Dataset):
    """Each photograph by its own mean and deviation, as medical images often are."""

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Tensor:
        image = NORMALIZED.transforms[0](read_pil(PHOTOGRAPHS[index]))
        standardized: Tensor = (image - image.mean()) / (image.std() + 1e-6)
        return standardized


def good_standardized() -> DataLoader[Any]:
    """The statistics of each image are its own."""
    return DataLoader(Standardized(), batch_size=4)


def bad_stacked() -> DataLoader[Any]:
    """Frames on the channel axis are divided by 255 twice."""
    return loader(stacked(read_rgb), lambda image: unit(image) / 255)


def good_stacked() -> DataLoader[Any]:
    """Frames on the channel axis are divided by 255."""
    return loader(stacked(read_rgb), unit)


def _store() -> Path:
    images = np.stack([np.asarray(_files.photograph(number)) for number in range(12)])

    def write(new: Path) -> None:
        with h5py.File(new, "w") as file:
            file["images"] = images

    return stored(_files.FOLDER / "photographs.h5", write)


class Stored(Dataset):
    """Photographs in one array of a file, which each process opens for itself, scaled by its own code."""

    def __init__(self, divisor: int) -> None:
        self.path, self.divisor = _store(), divisor
        self.images: Any = None

    def __len__(self) -> int:
        return 12

    def pixels(self, index: int) -> np.ndarray:
        """One photograph, uint8 (height, width, 3)."""
        if self.images is None:
            self.images = h5py.File(self.path)["images"]
        return np.asarray(self.images[index])

    def __getitem__(self, index: int) -> Tensor:
        scaled = torch.from_numpy(self.pixels(index)).permute(2, 0, 1) / self.divisor  # culprit
        return (scaled - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def bad_stored() -> DataLoader[Any]:
    """What is read of an array in a file is normalized with ImageNet's statistics, and was never divided by 255."""
    return DataLoader(Stored(1), batch_size=4)


def good_stored() -> DataLoader[Any]:
    """The same values are divided first."""
    return DataLoader(Stored(255), batch_size=4)


class Raw(Stored):
    """The same, as the bytes of records that no chart replaces."""

    def __init__(self, divisor: int) -> None:
        super().__init__(divisor)
        with h5py.File(self.path) as file:
            images = file["images"]
            self.shape = images.shape[1:]
            self.records = [image.tobytes() for image in images]

    def __getitem__(self, index: int) -> Tensor:
        pixels = np.frombuffer(self.records[index], np.uint8).reshape(self.shape)
        return torch.from_numpy(pixels.transpose(2, 0, 1).astype(np.float32)) / 255 / self.divisor  # culprit


def bad_records() -> DataLoader[Any]:
    """Bytes are divided by 255 twice."""
    return DataLoader(Raw(255), batch_size=4)


def good_records() -> DataLoader[Any]:
    """The same bytes are divided once."""
    return DataLoader(Raw(1), batch_size=4)


def of_either(first: Callable[[np.ndarray], Tensor], second: Callable[[np.ndarray], Tensor]) -> DataLoader[Any]:
    """Bytes become floats in one of two ways, by a coin."""
    return loader(read_rgb, lambda image: (first if torch.rand(()) < 0.5 else second)(image), shuffle=True)


def blurred(image: np.ndarray) -> Tensor:
    """A blurred image, from 0 to 255."""
    return torch.from_numpy(cv2.GaussianBlur(image, (3, 3), 0).transpose(2, 0, 1)).float()  # culprit


def bad_branch() -> DataLoader[Any]:
    """One branch divides by 255, and the other one does not."""
    return of_either(blurred, transforms.functional.to_tensor)


def good_branches() -> DataLoader[Any]:
    """Both branches divide, and one is half as bright."""
    return of_either(lambda image: blurred(image) / 510, transforms.functional.to_tensor)
