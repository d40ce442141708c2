"""DG522 identical-views: one random draw serves both views of a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms

from sample_datasets._parts import PHOTOGRAPHS, Pictures, brighten

CROPPED = transforms.Compose(
    [transforms.RandomResizedCrop(24), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
)
SMALL = transforms.Compose([transforms.RandomResizedCrop(12), transforms.ToTensor()])


class Viewed(Dataset[Any]):
    """Pictures, each as what `made` gives for it and its label."""

    def __init__(self, made: Callable[[Tensor, int], Any], count: int = 64) -> None:
        self.pictures = Pictures(count)
        self.made = made

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> Any:
        return self.made(*self.pictures[index])


def loader(dataset: Dataset[Any]) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2)


def copied(image: Tensor, label: int) -> Any:
    """The result of one call, twice."""
    return [brighten(image)] * 2, label  # culprit


def bad() -> DataLoader[Any]:
    """The transform is called once for both views."""
    return loader(Viewed(copied))


def seeded(image: Tensor, label: int) -> dict[str, Any]:
    """Two calls with one seed."""
    seed = int(torch.randint(2**31, ()))
    views = {}
    for name in ("view1", "view2"):
        torch.manual_seed(seed)
        views[name] = brighten(image)  # culprit
    return {**views, "label": label}


def bad_seeded() -> DataLoader[Any]:
    """The seed that keeps an image and its mask together is used for two views."""
    return loader(Viewed(seeded))


class Crops:
    """Two large and four small crops, as for DINO: the large ones are one."""

    def __call__(self, image: Any) -> list[Tensor]:
        """Crop."""
        large = CROPPED(image)
        return [large, large, *(SMALL(image) for _ in range(4))]  # culprit


def bad_crops() -> DataLoader[Any]:
    """The large crops of a multi-crop transform are equal."""
    return loader(datasets.ImageFolder(str(PHOTOGRAPHS[0].parents[1]), transform=Crops()))


def two(image: Tensor, label: int) -> Any:
    """Two calls."""
    return [brighten(image), brighten(image)], label


def good() -> DataLoader[Any]:
    """The transform is called for each view."""
    return loader(Viewed(two))


def reconstructed(image: Tensor, label: int) -> tuple[Tensor, Tensor]:
    """An input and its target."""
    view = brighten(image)
    return view, view


def good_autoencoder() -> DataLoader[Any]:
    """An autoencoder learns to give back its augmented input."""
    return loader(Viewed(reconstructed))


def fixed(image: Tensor, label: int) -> Any:
    """Nothing random."""
    return [image, image.clone()], label


def good_fixed() -> DataLoader[Any]:
    """Evaluation gives both branches the image as it is."""
    return loader(Viewed(fixed))


def flipped(image: Tensor, label: int) -> Any:
    """Each view is flipped or not, so that half of the pairs are equal."""
    return [image.flip(2) if torch.rand(()) < 0.5 else image for _ in range(2)], label


def good_flipped() -> DataLoader[Any]:
    """Views that are often equal by chance."""
    return loader(Viewed(flipped))


def padded(image: Tensor, label: int) -> Any:
    """A clip of two frames, filled up with its last one."""
    frames = [brighten(image), brighten(image)]
    return [*frames, frames[-1], frames[-1]], label


def good_padded_clip() -> DataLoader[Any]:
    """A short clip repeats its last frame."""
    return loader(Viewed(padded))


def distilled(image: Tensor, label: int) -> dict[str, Any]:
    """One view for both models."""
    view = brighten(image)
    return {"student": view, "teacher": view, "label": label}


def good_distilled() -> DataLoader[Any]:
    """A patient teacher sees what its student sees."""
    return loader(Viewed(distilled))
