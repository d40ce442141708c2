"""Places that hold a source of random numbers, and values that are made of a number."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.loaders.sources import Draw


class Transform:
    """Holds a source as an attribute."""

    def __init__(self, source: Draw) -> None:
        self.source = source

    def __call__(self, index: int, epoch: int) -> float:
        return self.source(index, epoch)


class Slotted:
    """Holds a source in a slot."""

    __slots__ = ("source",)

    def __init__(self, source: Draw) -> None:
        self.source = source

    def __call__(self, index: int, epoch: int) -> float:
        return self.source(index, epoch)


class Nested:
    """Holds a source among several steps, in a list in a dict."""

    def __init__(self, source: Draw) -> None:
        self.steps: dict[str, list[Any]] = {"train": ["resize", Transform(source)], "test": ["resize"]}

    def __call__(self, index: int, epoch: int) -> float:
        return float(self.steps["train"][1](index, epoch))


class InArray:
    """Holds a source in an array of objects."""

    def __init__(self, source: Draw) -> None:
        self.parts = np.array([None, source], dtype=object)

    def __call__(self, index: int, epoch: int) -> float:
        return float(self.parts[1](index, epoch))


class InModule(torch.nn.Module):
    """Holds a source as an attribute of a torch module."""

    def __init__(self, source: Draw) -> None:
        super().__init__()
        self.source = source

    def forward(self, index: int, epoch: int) -> float:
        """Draw."""
        return self.source(index, epoch)


def _closure(source: Draw) -> Draw:
    return lambda index, epoch: source(index, epoch)


def _default(source: Draw) -> Draw:
    def draw(index: int, epoch: int, source: Draw = source) -> float:
        return source(index, epoch)

    return draw


def _draw_from(source: Draw, index: int, epoch: int) -> float:
    return source(index, epoch)


PLACES: dict[str, Callable[[Any], Draw]] = {
    "attribute": lambda source: source,
    "transform": Transform,
    "nested": Nested,
    "array": InArray,
    "slot": Slotted,
    "torch module": InModule,
    "partial": lambda source: functools.partial(_draw_from, source),
    "method": lambda source: source.__call__,
    "closure": _closure,
    "default": _default,
    "collate_fn": Transform,
}

VALUES: dict[str, Callable[[float], float]] = {
    "real": lambda number: number,
    "few": lambda number: int(6 * number) / 8,
    "coin": lambda number: float(number < 0.5),
    "rare": lambda number: float(number < 0.05),
}
