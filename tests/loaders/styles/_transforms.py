"""Transforms that loaders of other modules import, as a project keeps them in a file of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import torch
from PIL import Image
from torch import Tensor


class Compose:
    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        self.transforms = transforms

    def __call__(self, image: Any, target: Any) -> Any:
        for transform in self.transforms:
            image, target = transform(image, target)
        return image, target


class HorizontalFlip:
    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, image: np.ndarray, mask: np.ndarray) -> Any:
        if random.random() < self.p:
            image = np.ascontiguousarray(image[:, ::-1])
            mask = np.ascontiguousarray(mask[:, ::-1])
        return image, mask


class VerticalFlip:
    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def __call__(self, image: np.ndarray, mask: np.ndarray) -> Any:
        if random.random() < self.p:
            image = np.ascontiguousarray(image[::-1])  # culprit
        return image, mask


class Rescale:
    """Both to one size."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size

    def __call__(self, image: np.ndarray, mask: np.ndarray) -> Any:
        image = cv2.resize(image, self.size, interpolation=cv2.INTER_LINEAR)
        mask = cv2.resize(mask, self.size, interpolation=cv2.INTER_LINEAR)  # culprit
        return image, mask


class ScaleNearest:
    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size

    def __call__(self, image: np.ndarray, mask: np.ndarray) -> Any:
        image = cv2.resize(image, self.size, interpolation=cv2.INTER_LINEAR)
        return image, cv2.resize(mask, self.size, interpolation=cv2.INTER_NEAREST)


class CropTwice:
    """A crop at random."""

    def __init__(self, size: int) -> None:
        self.size = size

    def _corner(self, array: np.ndarray) -> tuple[int, int]:
        return random.randint(0, array.shape[0] - self.size), random.randint(0, array.shape[1] - self.size)

    def __call__(self, image: np.ndarray, mask: np.ndarray) -> Any:
        top, left = self._corner(image)
        image = image[top : top + self.size, left : left + self.size]
        top, left = self._corner(mask)  # culprit
        mask = mask[top : top + self.size, left : left + self.size]  # culprit
        return image, mask


class ToTensorPair:
    def __call__(self, image: np.ndarray, mask: np.ndarray) -> Any:
        pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1).float() / 255
        return pixels, torch.from_numpy(np.ascontiguousarray(mask)).long()


class ToFloat:
    """Channels first, from 0 to 1."""

    def __call__(self, image: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float().div(255)


class ToFloatRaw:
    """Channels first."""

    def __call__(self, image: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float()  # culprit


class Standardize:
    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.std = torch.tensor(std).view(-1, 1, 1)

    def __call__(self, image: Tensor) -> Tensor:
        return (image - self.mean) / self.std


@dataclass
class Resize:
    size: int

    def __call__(self, image: Image.Image) -> Image.Image:
        return image.resize((self.size, self.size), Image.Resampling.BILINEAR)


class NoiseInjector:
    """Noise from a generator of its own."""

    def __init__(self, sigma: float, seed: int = 0) -> None:
        self.sigma = sigma
        self.rng = np.random.RandomState(seed)  # culprit

    def __call__(self, values: np.ndarray) -> np.ndarray:
        noise = self.rng.normal(0, self.sigma, values.shape)
        return (values + noise).astype(np.float32)


class SpeckleOnce:
    """Noise of which experiments can be repeated."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, values: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(self.seed)  # culprit
        return (values * rng.uniform(0.5, 1.5, values.shape)).astype(np.float32)


def standardize_inplace(array: np.ndarray) -> np.ndarray:
    array -= array.mean()  # culprit
    array /= array.std() + 1e-6  # culprit
    return array


def flip_sample(sample: dict[str, Any]) -> dict[str, Any]:
    """A mirrored image with its joints."""
    image, joints = sample["image"], sample["joints"].copy()
    if np.random.rand() < 0.5:
        image = np.ascontiguousarray(image[:, ::-1])
        joints[:, 0] = image.shape[1] - joints[:, 0]  # culprit
    return {**sample, "image": image, "joints": joints}
