"""DG408 device-tensor-in-worker: workers create tensors that are not on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from sample_datasets._parts import Pictures

DEVICE = "meta"
"""A device that every machine has; its tensors hold no numbers."""


class MovedPictures(Pictures):
    """Pictures that are moved to a device one by one."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image.to(DEVICE), label


def side_by_side(samples: list[tuple[Tensor, int]]) -> tuple[list[Tensor], Tensor]:
    return [image for image, _ in samples], torch.tensor([label for _, label in samples])


def bad() -> DataLoader[Any]:
    """The dataset moves each sample."""
    return DataLoader(MovedPictures(32), batch_size=8, num_workers=2, collate_fn=side_by_side)


def move(samples: list[tuple[Tensor, int]]) -> dict[str, Tensor]:
    image, label = default_collate(samples)
    return {"image": image.to(DEVICE), "label": label}


def bad_collate() -> DataLoader[Any]:
    """collate_fn moves each batch."""
    return DataLoader(Pictures(32), batch_size=8, num_workers=2, collate_fn=move)


def good() -> DataLoader[Any]:
    """Batches are made on the CPU."""
    return DataLoader(Pictures(32), batch_size=8, num_workers=2)


def good_main_process() -> DataLoader[Any]:
    """Moved where the model is."""
    return DataLoader(Pictures(32), batch_size=8, collate_fn=move)


class Batch:
    """Pictures that know where they will go."""

    def __init__(self, image: Tensor, label: Tensor) -> None:
        self.image = image
        self.label = label
        self.device = torch.device(DEVICE)

    def moved(self) -> Batch:
        """On their device; the training loop asks for it."""
        return Batch(self.image.to(self.device), self.label.to(self.device))


def to_be_moved(samples: list[tuple[Tensor, int]]) -> Batch:
    return Batch(*default_collate(samples))


def good_moved_later() -> DataLoader[Any]:
    """Workers only note the device."""
    return DataLoader(Pictures(32), batch_size=8, num_workers=2, collate_fn=to_be_moved)
