"""DG529 wrapped-values: sums of bytes exceed 255 and begin again at 0, or a branch makes nearly every pixel white."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.transforms import v2

from sample_datasets.dg505_swapped_channels import NORMALIZED, loader, read_pil, read_rgb


def brighter(image: np.ndarray) -> np.ndarray:
    """Add up to 40 to bytes in half of the draws, which begin again at 0 above 255."""
    return image + np.uint8(random.randrange(10, 40)) if random.random() < 0.5 else image  # culprit


def bad() -> DataLoader[Any]:
    """Brightness is added to bytes."""
    return loader(read_rgb, lambda image: NORMALIZED(brighter(image)), shuffle=True)


def noise(shape: tuple[int, ...]) -> np.ndarray:
    """Normal noise of 8 grey levels."""
    return np.random.normal(0, 8, shape)


def bad_noise() -> DataLoader[Any]:
    """The sum of bytes and noise is converted to bytes without clipping."""
    augment = transforms.Compose([transforms.ToTensor(), transforms.RandomHorizontalFlip(), NORMALIZED.transforms[1]])
    return loader(read_rgb, lambda image: augment((image + noise(image.shape)).astype(np.int64).astype(np.uint8)))


def scaled_twice(image: np.ndarray) -> np.ndarray:
    """In a third of the draws, a change of contrast of values that are thought to be from 0 to 1."""
    if random.random() < 0.33:
        image = np.clip((image * np.float32(255) - 127) * random.uniform(0.9, 1.1) + 127, 0, 255).astype(np.uint8)
    return image


def bad_branch() -> DataLoader[Any]:
    """One branch of the augmentation multiplies by 255 once more, before a border is added."""
    return loader(read_rgb, lambda image: NORMALIZED(np.pad(scaled_twice(image), ((4, 4), (4, 4), (0, 0)))))


def good() -> DataLoader[Any]:
    """The same, as floats that are clipped."""

    def augmented(image: np.ndarray) -> Any:
        changed = image.astype(np.float32) * random.uniform(0.6, 1.4) + random.uniform(-40, 40) + noise(image.shape)
        return NORMALIZED(np.clip(changed, 0, 255).astype(np.uint8))

    return loader(read_rgb, augmented, shuffle=True)


def good_solarized() -> DataLoader[Any]:
    """Solarization, inversion, posterization and equalization break greys on purpose, each in some draws."""
    augment = v2.RandomChoice(
        [
            v2.RandomSolarize(200, p=1),
            v2.RandomInvert(p=1),
            v2.RandomPosterize(2, p=1),
            v2.RandomEqualize(p=1),
            v2.ColorJitter(0.9, 0.9, 0.9, 0.5),
        ]
    )
    return loader(read_pil, transforms.Compose([augment, NORMALIZED]))


def good_stretched() -> DataLoader[Any]:
    """Images are divided by their brightest value in some draws, which makes any single grey white."""

    def stretched(image: np.ndarray) -> Any:
        if random.random() < 0.5:
            image = (image / max(int(image.max()), 1) * 255).astype(np.uint8)
        return NORMALIZED(image)

    return loader(read_rgb, stretched)


def good_low_bits() -> DataLoader[Any]:
    """The lowest bits of each value, in which hidden messages are looked for."""
    return loader(read_rgb, lambda image: {"image": NORMALIZED(image), "bits": (image & 15).transpose(2, 0, 1).copy()})
