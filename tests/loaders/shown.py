"""Loaders whose samples `dataguard show` prints and draws."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.tv_tensors import BoundingBoxes, Image

HEIGHT, WIDTH = 24, 32


class Scenes(Dataset[dict[str, Any]]):
    """An image with a box, a mask and a label; sample 3 holds NaN, sample 4 raises, sample 5 ends the process."""

    classes = ("cat", "dog", "fox")

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index == 4:
            raise ValueError("no scene 4")
        if index == 5:
            os.abort()
        if index == 6:
            time.sleep(60)
        image = torch.rand(3, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(index))
        image[:, 8:16, 8:24] = 1
        if index == 3:
            image[0, 0, :2] = torch.nan
        mask = torch.zeros(HEIGHT, WIDTH, dtype=torch.uint8)
        mask[8:16, 8:24] = 7
        boxes = BoundingBoxes([[8, 8, 24, 16]], format="XYXY", canvas_size=(HEIGHT, WIDTH))
        return {"image": Image(image), "mask": mask, "boxes": boxes, "label": index % 3, "noise": torch.rand(9)}


class Items(Dataset[Tensor]):
    """Items that are read many at once, in reverse."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor(index)

    def __getitems__(self, indices: list[int]) -> list[Tensor]:
        return [self[index] for index in reversed(indices)]


class Keyed(Dataset[tuple[str, Any]]):
    """Samples with keys."""

    def __getitem__(self, key: str) -> tuple[str, Any]:
        return key, np.arange(20)


def make() -> dict[str, DataLoader[Any]]:
    return {"train": DataLoader(Scenes(), batch_size=2, num_workers=2), "val": DataLoader(Items(), batch_size=2)}


def keyed() -> DataLoader[Any]:
    return DataLoader(Keyed(), sampler=["scene/one", "two"], batch_size=None)
