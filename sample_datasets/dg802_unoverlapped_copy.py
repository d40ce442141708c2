"""DG802: batches of 38 MB for a CUDA device and a step of 40 ms, which is declared in the settings."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

STEP_MS = 40


class Images(Dataset[Tensor]):
    """Images of 224 x 224, held in memory as bytes and handed out as floats."""

    def __init__(self) -> None:
        self.images = torch.zeros(128, 3, 224, 224, dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        return self.images[index].float()


class FewImages(Images):
    """Small ones."""

    def __init__(self) -> None:
        self.images = torch.zeros(64, 3, 8, 8, dtype=torch.uint8)


def bad() -> DataLoader:
    """Batches lie in pageable memory."""
    return DataLoader(Images(), batch_size=64)


def good() -> DataLoader:
    """Batches are pinned."""
    return DataLoader(Images(), batch_size=64, pin_memory=True)


def good_small() -> DataLoader:
    """A copy that is over at once."""
    return DataLoader(FewImages(), batch_size=64)


@dataclass
class Batch:
    """A batch that knows how it is pinned."""

    images: Tensor

    def pin_memory(self) -> Batch:
        """Torch's pinning calls this."""
        return Batch(self.images.pin_memory())


def _batch(images: list[Tensor]) -> Batch:
    return Batch(torch.stack(images))


def good_own_class() -> DataLoader:
    """A class of its own that torch's pinning reaches into."""
    return DataLoader(Images(), batch_size=64, pin_memory=True, collate_fn=_batch)
