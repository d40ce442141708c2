"""Datasets that hold their data, keep state, and go on when a file is bad."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import functional as F

from tests.loaders.styles import _data
from tests.loaders.styles._bases import InMemory
from tests.loaders.styles._data import PHOTOGRAPHS, class_of
from tests.loaders.styles._transforms import standardize_inplace

Loader = DataLoader[Any]


def dg307_helper_in_other_file() -> Loader:
    return DataLoader(InMemory(_data.vectors(), standardize_inplace), batch_size=4)


class Graphs(Dataset[Any]):
    """Node features and edges in one dictionary a graph."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.graphs = [
            {"x": torch.from_numpy(rng.normal(size=(6, 4)).astype(np.float32)), "y": number % 3} for number in range(24)
        ]

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, index: int) -> dict[str, Any]:
        graph = dict(self.graphs[index])
        graph["x"].mul_(1 / graph["x"].abs().sum(1, keepdim=True).add(1))  # culprit
        return graph


def dg307_shallow_copy() -> Loader:
    return DataLoader(Graphs(), batch_size=4)


class Volumes(Dataset[Any]):
    """Volumes that are windowed when they are read."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.volumes = rng.uniform(-1000, 1000, (16, 6, 8, 8)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.volumes)

    def window(self, volume: np.ndarray, low: float = -400, high: float = 400) -> np.ndarray:
        np.clip(volume, low, high, out=volume)  # culprit
        return (volume - low) / (high - low)

    def __getitem__(self, index: int) -> Any:
        volume = self.volumes[index]
        peak = float(volume.max())
        return torch.from_numpy(self.window(volume)), peak


def dg307_clip_out() -> Loader:
    return DataLoader(Volumes(), batch_size=4)


class Sentences(Dataset[Any]):
    """Token lists that get their end token when they are read."""

    def __init__(self) -> None:
        self.rows = [[3 + (number * 7 + step) % 50 for step in range(8)] for number in range(24)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        tokens = self.rows[index]
        tokens += [2]  # culprit
        return torch.tensor(tokens[-8:]), len(tokens)


def dg307_list_extended() -> Loader:
    return DataLoader(Sentences(), batch_size=4)


def zero_mean(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapped(self: Any, index: int) -> Any:
        row, label = fn(self, index)
        row[row < 0] *= 0.5  # culprit
        return row, label

    return wrapped


class Decorated(InMemory):
    @zero_mean
    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)


def dg307_decorator() -> Loader:
    return DataLoader(Decorated(_data.vectors()), batch_size=4)


class Buffered(Dataset[Any]):
    """Crops into a buffer that is made once."""

    def __init__(self) -> None:
        self.signal = np.random.default_rng(0).normal(size=2048).astype(np.float32)
        self.buffer = np.empty(32, np.float32)  # culprit

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        begin = range(0, 1600, 40)[index]
        np.multiply(self.signal[begin : begin + 32], 0.5, out=self.buffer)  # culprit
        return torch.from_numpy(self.buffer), index  # culprit


def dg308_numpy_buffer() -> Loader:
    return DataLoader(Buffered(), batch_size=4)


class SharedDict(Dataset[Any]):
    """One dictionary that is filled anew for each sample."""

    template: ClassVar[dict[str, Any]] = {"image": torch.zeros(3, 8, 8), "label": 0}

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = dict(self.template)
        sample["image"].copy_(torch.linspace(0, 1, 192).reshape(3, 8, 8) + range(24)[index])  # culprit
        sample["label"] = index % 3
        return sample  # culprit


def dg308_class_template() -> Loader:
    return DataLoader(SharedDict(), batch_size=4)


class Scratchpad:
    """Letterboxes into memory of its own."""

    def __init__(self, size: int) -> None:
        self.canvas = torch.zeros(3, size, size)

    def __call__(self, image: Tensor) -> Tensor:
        self.canvas.zero_()  # culprit
        self.canvas[:, : image.shape[1], : image.shape[2]] = image  # culprit
        return self.canvas  # culprit


class Padded(Dataset[Any]):
    def __init__(self, pad: Scratchpad) -> None:
        self.pad = pad

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Any:
        image = F.to_tensor(Image.open(PHOTOGRAPHS[index]).convert("RGB").resize((24, 20)))
        return self.pad(image), class_of(PHOTOGRAPHS[index])


def dg308_canvas() -> Loader:
    return DataLoader(Padded(Scratchpad(32)), batch_size=4)


class Encoder:
    """Gives numbers to names."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def encode(self, name: str) -> int:
        if name not in self.known:
            self.known[name] = len(self.known)  # culprit
        return self.known[name]


class Named(Dataset[Any]):
    def __init__(self) -> None:
        self.values, self.encoder = _data.vectors(), Encoder()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        kind = ("car", "bus", "tram", "bike", "walk")[(index * 7) % 11 % 5]
        return {"x": torch.from_numpy(self.values[index].copy()), "y": self.encoder.encode(kind)}


def dg306_label_encoder() -> Loader:
    return DataLoader(Named(), batch_size=4, shuffle=True, num_workers=2)


class Annotated(InMemory):
    """Labels that a generator reads on the way."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(values)
        self.annotations = self._annotations()  # culprit

    def _annotations(self) -> Any:
        while True:
            yield from (number % 5 for number in range(len(self)))

    def __getitem__(self, index: int) -> Any:
        row, _ = super().__getitem__(index)
        return row.clone(), next(self.annotations)  # culprit


def dg306_generator_of_labels() -> Loader:
    return DataLoader(Annotated(_data.vectors()), batch_size=4)


class Smoothed(InMemory):
    """Targets as a running mean."""

    momentum = 0.9
    running = 0.0

    def __getitem__(self, index: int) -> Any:
        row, _ = super().__getitem__(index)
        target = float(row[0])
        self.running = self.momentum * self.running + (1 - self.momentum) * target  # culprit
        return {"features": row.clone(), "target": self.running}  # culprit


def dg306_running_mean() -> Loader:
    return DataLoader(Smoothed(_data.vectors()), batch_size=4, shuffle=True)


class Robust(Dataset[Any]):
    """Goes on when a photograph is broken."""

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Any:
        path = PHOTOGRAPHS[index]
        try:
            image = Image.open(path).convert("RGB").resize((32, 32))
        except OSError:  # culprit
            return self[(index + 1) % len(self)]  # culprit
        return F.to_tensor(image), class_of(path)


def dg312_next_index() -> Loader:
    return DataLoader(Robust(), batch_size=4)


def read_or_black(path: Path, size: int = 32) -> np.ndarray:
    image = cv2.imread(str(path))
    if image is None:
        return np.zeros((size, size, 3), np.uint8)  # culprit
    return cv2.cvtColor(cv2.resize(image, (size, size)), cv2.COLOR_BGR2RGB)


class OrBlack(Dataset[Any]):
    def __init__(self, read: Callable[[Path], np.ndarray]) -> None:
        self.read = read

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Any:
        return F.to_tensor(self.read(PHOTOGRAPHS[index])), class_of(PHOTOGRAPHS[index])


def dg312_black_in_helper() -> Loader:
    return DataLoader(OrBlack(functools.partial(read_or_black, size=40)), batch_size=4)


class Skipping(Dataset[Any]):
    """Tries until an image can be read."""

    def load(self, index: int) -> Image.Image | None:
        try:
            return Image.open(PHOTOGRAPHS[index]).convert("RGB").resize((32, 32))
        except OSError:  # culprit
            return None  # culprit

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Any:
        image = self.load(index)
        while image is None:
            index = int(torch.randint(len(self), ()))  # culprit
            image = self.load(index)  # culprit
        return F.to_tensor(image), class_of(PHOTOGRAPHS[index])


def dg312_random_retry() -> Loader:
    return DataLoader(Skipping(), batch_size=4)
