"""DG308 aliased-samples: a sample changes when another one is read after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from sample_datasets._parts import Pictures, picture


class Buffered(Pictures):
    """Pictures that are written into one buffer, to save allocations."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = torch.empty(3, 8, 8)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        torch.mul(image, 2, out=self.buffer)  # culprit
        return self.buffer, label  # culprit


def bad() -> DataLoader[Any]:
    """Every picture is handed out in the same buffer: a list of them holds the last one only."""
    return DataLoader(Buffered(), batch_size=1)


def bad_batched() -> DataLoader[Any]:
    """The same in batches: all samples of one are its last."""
    return DataLoader(Buffered(), batch_size=4, num_workers=2)


def bad_shuffled() -> DataLoader[Any]:
    """The same in the main process, shuffled."""
    return DataLoader(Buffered(), batch_size=4, shuffle=True)


class OneDict(Pictures):
    """Samples in one dict, whose entries are replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.sample: dict[str, Any] = {}

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        self.sample["image"] = image  # culprit
        self.sample["label"] = label
        return self.sample  # culprit


def bad_dict() -> DataLoader[Any]:
    """Every sample is the same dict."""
    return DataLoader(OneDict(), batch_size=1)


class Padded(Dataset[dict[str, Any]]):
    """Sentences padded in one array."""

    def __init__(self) -> None:
        self.padded = np.zeros(12, dtype=np.int64)

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = range(len(self))[index]
        length = 4 + number % 7
        self.padded[:] = 0  # culprit
        self.padded[:length] = np.arange(number, number + length)  # culprit
        return {"tokens": torch.from_numpy(self.padded), "length": length}  # culprit


def bad_padded() -> DataLoader[Any]:
    """`torch.from_numpy` shares the memory of the array that every sentence is written into."""
    return DataLoader(Padded(), batch_size=1)


class Ring(Pictures):
    """Pictures in three buffers by turns."""

    def __init__(self) -> None:
        super().__init__()
        self.buffers = [torch.empty(3, 8, 8) for _ in range(3)]
        self.turn = 0

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        self.turn = (self.turn + 1) % len(self.buffers)
        return self.buffers[self.turn].copy_(image), label  # culprit


def bad_ring() -> DataLoader[Any]:
    """The fourth picture overwrites the first."""
    return DataLoader(Ring(), batch_size=1)


def good() -> DataLoader[Any]:
    """Rows of one tensor share its storage, each with a place of its own."""
    images = torch.stack([picture(number) for number in range(16)])
    return DataLoader(TensorDataset(images, torch.arange(16) % 4), batch_size=4)


class Windows(Dataset[Tensor]):
    """Overlapping windows of one recording."""

    def __init__(self) -> None:
        self.recording = torch.arange(50.0)

    def __len__(self) -> int:
        return 43

    def __getitem__(self, index: int) -> Tensor:
        number = range(len(self))[index]
        return self.recording[number : number + 8]


def good_windows() -> DataLoader[Any]:
    """Windows lie over one another, and none is ever written to."""
    return DataLoader(Windows(), batch_size=4)


class Copied(Buffered):
    """Pictures that leave the buffer as copies."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image.clone(), label


def good_copied() -> DataLoader[Any]:
    """A buffer is reused, and what is handed out is a copy of it."""
    return DataLoader(Copied(), batch_size=4)


class Shared(Pictures):
    """Pictures with the same table of classes beside each."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = torch.eye(4)
        self.info = {"source": "camera"}

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return {"image": image, "label": label, "classes": self.classes, "info": self.info}


def good_shared() -> DataLoader[Any]:
    """All samples hold one table, which never changes."""
    return DataLoader(Shared(), batch_size=4)
