"""Datasets without a loader."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from sample_datasets._parts import Pictures, picture
from sample_datasets.dg208_starved_worker import Shards
from tests.loaders.keyed import Keyed

train_pictures = Pictures(32)
train_stream = Keyed(shared=False)
train_shard = Shards(1)


class Slotted:
    """A dataset without a `__dict__`."""

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return picture(range(self.length)[index]), index % 3


def plain() -> dict[str, DataLoader[Any]]:
    """Loaders of what is no `Dataset`, but gives samples by index."""
    pictures: Any = [(picture(number), number % 3) for number in range(32)]
    boxed: Any = [(one, {"boxes": torch.tensor([[1.0, 2, 5, 6]]), "labels": torch.tensor([1])}) for one, _ in pictures]
    slotted: Any = Slotted(32)
    return {
        "train_list": DataLoader(pictures, batch_size=4, shuffle=True),
        "train_slotted": DataLoader(slotted, batch_size=4, shuffle=True, num_workers=2),
        "train_boxes": DataLoader(boxed, batch_size=4, shuffle=True, collate_fn=list),
        "train_tensor": DataLoader(torch.rand(32, 3, 8, 8), batch_size=4, shuffle=True),  # type: ignore[arg-type]
    }
