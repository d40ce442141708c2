"""Loaders whose colours are known: each read in another way, all of them normalized by ImageNet's statistics."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset
from torchvision import transforms
from torchvision.transforms import v2

from sample_datasets._parts import PHOTOGRAPHS
from sample_datasets.dg505_swapped_channels import MEAN, NORMALIZED, STD, loader, read_pil, read_rgb


def v1() -> DataLoader[Any]:
    augment = [transforms.RandomResizedCrop(40), transforms.RandomHorizontalFlip(), transforms.RandomRotation(15)]
    return loader(read_pil, transforms.Compose([*augment, transforms.ColorJitter(0.1, 0.1, 0.1), NORMALIZED]))


def v2_tensors() -> DataLoader[Any]:
    augment = [v2.ToImage(), v2.RandomResizedCrop(40, antialias=True), v2.RandomRotation(15), v2.ColorJitter(0.1, 0.1)]
    scale = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD), v2.RandomErasing()]
    return loader(read_pil, v2.Compose([*augment, *scale]))


def albumentations() -> DataLoader[Any]:
    import albumentations as A

    augment = A.Compose(
        [
            A.RandomCrop(40, 40),
            A.HorizontalFlip(),
            A.Rotate(15),
            A.ColorJitter((0.9, 1.1), hue=(-0.05, 0.05), p=0.8),
            A.Normalize(),
        ]
    )
    return loader(read_rgb, lambda image: torch.from_numpy(augment(image=image)["image"]).permute(2, 0, 1))


def by_hand() -> DataLoader[Any]:
    def normalize(image: np.ndarray) -> Tensor:
        scaled = (image[4:44, 4:44, ::-1].astype(np.float32) / 255 - MEAN[::-1]) / STD[::-1]
        return torch.from_numpy(np.flip(scaled, axis=1).copy().astype(np.float32))

    return loader(read_rgb, normalize)


class Stream(IterableDataset):
    """Photographs out of bytes, one after the other."""

    def __iter__(self) -> Iterator[tuple[Tensor, str]]:
        for path in PHOTOGRAPHS:
            image = Image.open(BytesIO(path.read_bytes()))
            yield NORMALIZED(image.convert("RGB").resize((48, 48))), path.stem


def stream() -> DataLoader[Any]:
    return DataLoader(Stream(), batch_size=4)


class Small(Dataset):
    """Arrays in memory, as CIFAR keeps them, with or without Pillow between."""

    def __init__(self, *, pillow: bool) -> None:
        self.pillow = pillow
        self.images = [cv2.resize(cv2.imread(str(path)), (16, 16)) for path in PHOTOGRAPHS]
        self.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, STD)])

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        image: Tensor = self.transform(Image.fromarray(self.images[index]) if self.pillow else self.images[index])
        return image


def in_memory() -> DataLoader[Any]:
    return DataLoader(Small(pillow=True), batch_size=4)


def wrapped() -> DataLoader[Any]:
    return DataLoader(ConcatDataset([Subset(Small(pillow=False), range(12))]), batch_size=4)


class Cached(Dataset):
    """Keeps every image that was read."""

    def __init__(self) -> None:
        self.kept: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Tensor:
        if index not in self.kept:
            self.kept[index] = NORMALIZED(read_pil(PHOTOGRAPHS[index]))
        return self.kept[index]


def cached() -> DataLoader[Any]:
    return DataLoader(Cached(), batch_size=4)


def raw_floats() -> DataLoader[Any]:
    return loader(read_pil, lambda image: torch.from_numpy(np.array(image, np.float32)))


def read_palette(path: Path) -> Image.Image:
    """A mask of numbered classes, as PASCAL VOC keeps them."""
    classes = np.full((48, 48), len(path.stem), np.uint8)
    classes[8:16, 8:16] = PHOTOGRAPHS.index(path)
    written = BytesIO()
    Image.fromarray(classes).convert("P").save(written, "PNG")
    return Image.open(BytesIO(written.getvalue()))


def palettes() -> DataLoader[Any]:
    return loader(read_palette, transforms.PILToTensor())
