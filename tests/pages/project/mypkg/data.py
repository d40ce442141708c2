from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset


class Flowers(Dataset):
    def __init__(self, split: str) -> None:
        generator = torch.Generator().manual_seed(len(split))
        self.images = torch.rand(40, 3, 32, 32, generator=generator)
        self.labels = torch.arange(40) % 5

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.images[index], self.labels[index]


def build_loader(split: str = "train", cfg: Any = None, batch_size: int = 8) -> DataLoader:
    return DataLoader(Flowers(split), batch_size=batch_size, shuffle=split == "train", num_workers=2)


def make_loaders() -> dict[str, DataLoader]:
    return {split: build_loader(split) for split in ("train", "val")}


def make_test_loader() -> DataLoader:
    return build_loader("test")
