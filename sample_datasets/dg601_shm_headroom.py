"""DG601 shm-headroom: the batches in flight need more shared memory than there is.

All numbers are meant for a `/dev/shm` of 8 MiB, where the bad samples die or hang as soon as training is slower than
loading. Batches in flight: num_workers x prefetch_factor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import picture

Sample = tuple[Tensor, int]


class Scans(Dataset[Sample]):
    """Pictures of 192 KiB each, computed when they are asked for."""

    def __len__(self) -> int:
        return 160

    def __getitem__(self, index: int) -> Sample:
        number = range(len(self))[index]
        return picture(number, height=128, width=128), number % 4


def bad() -> DataLoader[Any]:
    """Eight batches of 1.9 MiB are in flight."""
    return DataLoader(Scans(), batch_size=10, num_workers=2, prefetch_factor=4)


def stack(samples: list[Sample]) -> tuple[Tensor, Tensor]:
    """Stack in ordinary memory, unlike the default collate; sending it copies it to shared memory."""
    return torch.stack([image for image, _ in samples]), torch.tensor([label for _, label in samples])


def bad_custom_collate() -> DataLoader[Any]:
    """The same, but shared memory runs out in the thread that sends, which leaves the loader hanging."""
    return DataLoader(Scans(), batch_size=10, num_workers=2, prefetch_factor=4, collate_fn=stack)


class Recordings(Dataset[Sample]):
    """Recordings of 1025 values each: 4100 bytes."""

    def __len__(self) -> int:
        return 4608

    def __getitem__(self, index: int) -> Sample:
        number = range(len(self))[index]
        return torch.arange(1025.0) + number, number % 4


def leave_apart(samples: list[Any]) -> list[Any]:
    """The batch is the list of its samples."""
    return samples


def bad_small_tensors() -> DataLoader[Any]:
    """Eight batches of 144 tensors are in flight; each of 4100 bytes takes two pages: 9 MiB instead of 4.5."""
    return DataLoader(Recordings(), batch_size=144, num_workers=2, prefetch_factor=4, collate_fn=leave_apart)


def good() -> DataLoader[Any]:
    """Eight batches of 384 KiB fit."""
    return DataLoader(Scans(), batch_size=2, num_workers=2, prefetch_factor=4)


class ByteScans(Scans):
    """The same pictures in bytes, a quarter of the size."""

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return (image * 255).byte(), label


def good_uint8() -> DataLoader[Any]:
    """Eight batches of 480 KiB fit, for a byte is a quarter of a float."""
    return DataLoader(ByteScans(), batch_size=10, num_workers=2, prefetch_factor=4)


class ArrayScans(Dataset[tuple[NDArray[np.float32], int]]):
    """The same pictures as numpy arrays."""

    def __init__(self) -> None:
        self.scans = Scans()

    def __len__(self) -> int:
        return len(self.scans)

    def __getitem__(self, index: int) -> tuple[NDArray[np.float32], int]:
        image, label = self.scans[index]
        return image.numpy(), label


def good_numpy() -> DataLoader[Any]:
    """Batches are large, but arrays that no collate turned into tensors travel through a pipe."""
    return DataLoader(ArrayScans(), batch_size=10, num_workers=2, prefetch_factor=4, collate_fn=leave_apart)


def good_main() -> DataLoader[Any]:
    """Batches are large, but without workers none is sent."""
    return DataLoader(Scans(), batch_size=10)
