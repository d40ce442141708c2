"""DG507 wrong-normalization: a mean and a standard deviation that are not those of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate
from torchvision import transforms
from torchvision.transforms import v2

from sample_datasets.dg505_swapped_channels import MEAN, NORMALIZED, STD, loader, read_bgr, read_pil, read_rgb, stacked

NORMALIZE = transforms.Normalize(MEAN, STD)  # culprit


def bad() -> DataLoader[Any]:
    """The dataset normalizes, and so does its transform."""
    twice = transforms.Compose([transforms.RandomHorizontalFlip(), NORMALIZED, NORMALIZE])
    return loader(read_pil, twice, shuffle=True)


def bad_turned() -> DataLoader[Any]:
    """The statistics were copied from a project that reads blue first."""
    turned = transforms.Normalize(MEAN[::-1], STD[::-1])  # culprit
    return loader(read_pil, transforms.Compose([transforms.ToTensor(), turned]))


def bad_turned_streets() -> DataLoader[Any]:
    """The same for the statistics of another public set."""
    mean, std = (0.28389177, 0.32513303, 0.28689554), (0.18720214, 0.19017339, 0.18696375)
    return loader(read_pil, transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean, std)]))  # culprit


def bad_mistyped() -> DataLoader[Any]:
    """0.255 for 0.225: the most common slip of all."""
    augment = v2.Compose(
        [
            v2.ToImage(),
            v2.RandomResizedCrop(40, scale=(0.6, 1.0), antialias=True),
            v2.ColorJitter(0.1, 0.1, 0.1),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, (0.229, 0.224, 0.255)),  # culprit
        ]
    )
    return loader(read_rgb, augment)


def bad_mixed_scales() -> DataLoader[Any]:
    """The mean is for bytes, and the deviation for values from 0 to 1."""
    mean = 255 * np.array(MEAN)
    large = transforms.Normalize(mean.tolist(), STD)  # culprit
    return loader(read_pil, transforms.Compose([transforms.ToTensor(), large]))


def normalize_batch(samples: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """Stack and normalize a batch whose samples are normalized already."""
    images, labels = default_collate(samples)
    return NORMALIZE(images), labels


def bad_variance() -> DataLoader[Any]:
    """The variance was computed, and its root forgotten."""
    variance = [deviation**2 for deviation in STD]
    normalize = transforms.Normalize(MEAN, variance)  # culprit
    return loader(read_pil, transforms.Compose([transforms.ToTensor(), normalize]))


def bad_collate() -> DataLoader[Any]:
    """The batch is normalized once more."""
    return loader(read_pil, NORMALIZED, collate_fn=normalize_batch)


def good() -> DataLoader[Any]:
    """Normalized once, by ImageNet's statistics."""
    return loader(read_pil, transforms.Compose([transforms.RandomHorizontalFlip(), NORMALIZED]), shuffle=True)


def good_own() -> DataLoader[Any]:
    """Statistics of one's own data, measured."""
    own = transforms.Normalize((0.3812, 0.4115, 0.4431), (0.187, 0.193, 0.206))
    return loader(read_pil, transforms.Compose([transforms.ToTensor(), own]))


def good_turned() -> DataLoader[Any]:
    """Blue first, statistics and channels alike."""
    return loader(read_bgr, transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN[::-1], STD[::-1])]))


def good_clip() -> DataLoader[Any]:
    """CLIP's statistics, under augmentation by albumentations."""
    import albumentations as A

    mean, std = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
    augment = A.Compose(
        [A.RandomBrightnessContrast(0.1, 0.1, p=0.8), A.Rotate(15), A.HorizontalFlip(), A.Normalize(mean, std)]
    )
    return loader(read_rgb, lambda image: torch.from_numpy(augment(image=image)["image"]).permute(2, 0, 1))


def good_grey() -> DataLoader[Any]:
    """One grey channel by a mean and a deviation of its own."""
    grey = transforms.Compose([transforms.Grayscale(), transforms.ToTensor(), transforms.Normalize((0.45,), (0.22,))])
    return loader(read_pil, grey)


def good_x_ray() -> DataLoader[Any]:
    """X-rays from -1024 to 1024."""
    return loader(read_pil, transforms.Compose([transforms.Grayscale(), transforms.ToTensor(), x_ray]))


def x_ray(image: Tensor) -> Tensor:
    """A range like that of computed tomography."""
    return (2 * image - 1) * 1024


def bad_mixed_halves() -> DataLoader[Any]:
    """The mean is for values to 255, the deviation for values to 1."""
    return loader(read_pil, transforms.Compose([transforms.PILToTensor(), halves]))


def halves(image: Tensor) -> Tensor:
    """Inception's numbers, one of which was scaled."""
    return (image.float() - 127.5) / 0.5  # culprit


def good_collate() -> DataLoader[Any]:
    """The samples are from 0 to 1, and the batch is normalized."""
    return loader(read_pil, transforms.ToTensor(), collate_fn=normalize_batch)


TWO_FRAMES = transforms.Normalize(MEAN * 2, STD * 2)
"""The statistics for two frames on the channel axis."""


def bad_stacked() -> DataLoader[Any]:
    """Frames on the channel axis are normalized twice."""
    return loader(stacked(read_rgb), transforms.Compose([transforms.ToTensor(), TWO_FRAMES, TWO_FRAMES]))


def good_stacked() -> DataLoader[Any]:
    """Frames on the channel axis are normalized once."""
    return loader(stacked(read_rgb), transforms.Compose([transforms.ToTensor(), TWO_FRAMES]))
