"""Base classes that datasets of other modules derive from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch.utils.data import Dataset

from tests.loaders.styles import _data


class ImageBase(Dataset[Any], ABC):
    """Reads, transforms, and asks the derived class for the target."""

    def __init__(self, paths: list[Path], transform: Callable[..., Any] | None = None) -> None:
        self.paths = paths
        self.transform = transform

    def __len__(self) -> int:
        return len(self.paths)

    @abstractmethod
    def target(self, index: int) -> Any: ...

    def read(self, index: int) -> np.ndarray:
        image = cv2.imread(str(self.paths[index]))
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        return cv2.resize(image, (48, 48), interpolation=cv2.INTER_AREA)

    def __getitem__(self, index: int) -> Any:
        image = self.read(index)
        return (self.transform(image) if self.transform else image), self.target(index)


class ReadsFast(ImageBase):
    """Skips the thumbnails of the base class."""

    def read(self, index: int) -> np.ndarray:
        path = self.paths[index]
        image = cv2.imread(str(path), cv2.IMREAD_COLOR)  # culprit
        return cv2.resize(image, (48, 48))  # culprit


class ClassLabels:
    """Gives the class that the folder names."""

    paths: list[Path]

    def target(self, index: int) -> int:
        return _data.class_of(self.paths[index])


class InMemory(Dataset[Any]):
    """Vectors that are held in memory, with an optional transform."""

    def __init__(self, values: np.ndarray, transform: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        self.values = values
        self.labels = [int(total > 0) for total in values.sum(1)]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        row = self.values[index]
        if self.transform is not None:
            row = self.transform(row)
        return torch.as_tensor(row), self.labels[index]


class SegmentationBase(Dataset[Any]):
    """Image and mask by file; `augment` is what derived classes override."""

    def __init__(self, train: bool = True) -> None:
        self.images, self.masks, self.train = _data.files("images"), _data.files("masks"), train

    def __len__(self) -> int:
        return len(self.images)

    def augment(self, image: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return image, mask

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = cv2.cvtColor(cv2.imread(str(self.images[index])), cv2.COLOR_BGR2RGB)
        mask = cv2.imread(str(self.masks[index]), cv2.IMREAD_GRAYSCALE)
        if self.train:
            image, mask = self.augment(image, mask)
        pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1).float() / 255
        return {"image": pixels, "mask": torch.from_numpy(np.ascontiguousarray(mask)).long()}


class RandomBase(Dataset[Any]):
    """Draws crops of a signal; the seed keeps experiments repeatable."""

    window = 16

    def __init__(self, length: int = 4096, samples: int = 48) -> None:
        self.signal = np.random.default_rng(3).normal(size=length).astype(np.float32)
        self.samples = samples
        self.random = np.random.RandomState(1234)  # culprit

    def __len__(self) -> int:
        return self.samples

    def start(self) -> int:
        return int(self.random.randint(0, len(self.signal) - self.window))

    def __getitem__(self, index: int) -> Any:
        begin = self.start()
        return torch.from_numpy(self.signal[begin : begin + self.window].copy()), index
