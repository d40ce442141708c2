"""DG535 unflipped-vectors: a flip mirrors a flow or normal map, and its vectors keep their direction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import picture

SIDE = 24


def waves(number: int, planes: int) -> Tensor:
    """Smooth values of both signs: (planes, SIDE, SIDE)."""
    y, x = torch.meshgrid(torch.linspace(0, 1, SIDE), torch.linspace(0, 1, SIDE), indexing="ij")
    phases = [number * 0.7 + 2.1 * plane for plane in range(planes)]
    return torch.stack([torch.sin(math.tau * (x * (1 + plane) + y) + phase) for plane, phase in enumerate(phases)])


def normals(number: int) -> Tensor:
    """Vectors of length 1 that face the camera: (3, SIDE, SIDE)."""
    slopes = 0.8 * waves(number, 2)
    facing = torch.cat([slopes, torch.ones(1, SIDE, SIDE)])
    return torch.nn.functional.normalize(facing, dim=0)


class Scenes(Dataset[dict[str, Any]]):
    """Pictures with what `target` makes for each, flipped by `flip` half of the time."""

    def __init__(self, target: Callable[[int], Tensor], flip: Callable[[Tensor], Tensor], name: str) -> None:
        self.target = target
        self.flip = flip
        self.name = name

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = range(len(self))[index]
        image, target = picture(number, SIDE, SIDE), self.target(number)
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
            target = self.flip(target)
        return {"image": image, self.name: target}


def loader(dataset: Dataset[Any]) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=4, shuffle=True)


def mirrored(target: Tensor) -> Tensor:
    """As an image is."""
    return target.flip(-1)  # culprit


def negated(target: Tensor) -> Tensor:
    """As a map of vectors is."""
    flipped = target.flip(-1)
    flipped[0] = -flipped[0]
    return flipped


def bad() -> DataLoader[Any]:
    """The flow is flipped as the image is."""
    return loader(Scenes(lambda number: waves(number, 2), mirrored, "flow"))


def bad_normals() -> DataLoader[Any]:
    """The normals are flipped as the image is."""
    return loader(Scenes(normals, mirrored, "target"))


def good() -> DataLoader[Any]:
    """The horizontal component of the flow changes its sign."""
    return loader(Scenes(lambda number: waves(number, 2), negated, "flow"))


def good_normals() -> DataLoader[Any]:
    """The horizontal component of the normals changes its sign."""
    return loader(Scenes(normals, negated, "target"))


class Hinted(Scenes):
    """A grey image, its colours, and where some of them are given."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = super().__getitem__(index)
        grey = sample.pop("image").mean(0, keepdim=True)
        return {"grey": grey, "hints": (grey > 0.5).float(), **sample}


def good_colours() -> DataLoader[Any]:
    """Two channels of colour have both signs, beside two images of one channel."""
    return loader(Hinted(lambda number: waves(number, 2), mirrored, "ab"))


def good_classes() -> DataLoader[Any]:
    """One channel for each of three classes has length 1 everywhere."""
    return loader(Scenes(lambda number: one_hot(waves(number, 3)) - 1e-9, mirrored, "mask"))


def one_hot(scores: Tensor) -> Tensor:
    """The largest of each pixel: (classes, SIDE, SIDE)."""
    return torch.from_numpy(np.eye(len(scores), dtype=np.float32)[scores.argmax(0).numpy()]).permute(2, 0, 1)


class Cropped(Scenes):
    """The same, of which a part is cropped at random after the flip, and vertical flips are right."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = super().__getitem__(index)
        if torch.rand(()) < 0.5:
            sample = {name: leaf.flip(-2) for name, leaf in sample.items()}
            sample[self.name][1] *= -1
        top, left = torch.randint(5, (2,)).tolist()
        return {name: leaf[:, top : top + SIDE - 4, left : left + SIDE - 4] for name, leaf in sample.items()}


def bad_cropped() -> DataLoader[Any]:
    """The flow is flipped as the image is, and cropped with it."""
    return loader(Cropped(lambda number: waves(number, 2), mirrored, "flow"))


def good_cropped() -> DataLoader[Any]:
    """The horizontal component of the flow changes its sign."""
    return loader(Cropped(lambda number: waves(number, 2), negated, "flow"))


class Panned(Cropped):
    """The flow of a camera that turns: the same everywhere."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        return super().__getitem__(index) | {"speed": float(index)}


def good_panned() -> DataLoader[Any]:
    """A crop at random of a flow that is the same everywhere, flipped and negated."""
    steady = torch.tensor([1.5, -0.5])[:, None, None].expand(2, SIDE, SIDE)
    return loader(Panned(lambda number: steady + 0.25 * number, negated, "flow"))
