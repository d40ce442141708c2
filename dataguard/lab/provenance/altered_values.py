"""Other values in place of what was read: of the same type, shape and range, so that the user's code takes them."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, is_pillow
from dataguard.lab.rows.row_changes import range_of
from dataguard.lab.rows.stores import MOST_BYTES

CELLS = 4
"""Into how many parts each of the two longest axes of an array or image is divided: 16 parts distinguish halves,
quarters and tiles."""
Cell = tuple[int, int]
"""The place of a part along each of these axes."""


def altered(value: Any, rows: np.ndarray | None, first: int = 0, cell: Cell | None = None, *, axis: int = 0) -> Any:
    """Other values of the same type, shape and range; only in these rows along an axis, or in a cell, if given.

    `first`: the number of its first row among all that is read, on which the other values depend.
    """
    if axis and rows is not None:
        return np.copy(np.moveaxis(altered(np.moveaxis(value, axis, 0), rows, first), 0, axis), "C", subok=True)
    if isinstance(value, torch.Tensor | np.ndarray) and value.nbytes > MOST_BYTES:
        return value
    if isinstance(value, torch.Tensor):
        if value.dtype is torch.bfloat16 or not value.numel():
            return value
        return torch.from_numpy(np.array(_moved(array_of(value), rows, first, cell), order="C")).to(value.dtype)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf" and value.size:
        return (
            _moved(np.asarray(value), rows, first, cell).view(type(value)) if isinstance(value, np.ndarray) else value
        )
    if is_pillow(value):
        return _altered_image(value, first, cell)
    if isinstance(value, Mapping):
        return type(value)({key: altered(item, rows, first, cell) for key, item in value.items()})  # type: ignore[call-arg]
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return _altered_list(value, rows, first, cell)
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and hasattr(value, "data"):
        return replace(value, data=altered(value.data, rows, first, cell))  # a frame of torchcodec
    return value


def _altered_list(value: Any, rows: np.ndarray | None, first: int, cell: Cell | None) -> Any:
    if len(value) > 1 and {type(item) for item in value} <= {int, float}:
        kind = np.asarray(value)
        return type(value)(_moved(kind, rows, first, cell).tolist()) if kind.dtype.kind in "if" else value
    chosen = range(len(value)) if rows is None else set(rows.tolist())
    return type(value)(
        altered(item, None, first + number, cell) if number in chosen else item for number, item in enumerate(value)
    )


def _moved(array: np.ndarray, rows: np.ndarray | None, first: int, cell: Cell | None) -> np.ndarray:
    moved = range_of(array).moved(array, first + np.arange(len(array) if array.ndim else 1))
    if cell is not None:
        return np.where(_cell_of(array.shape, cell), moved, array)
    if rows is None or not array.ndim:
        return moved
    chosen = np.isin(np.arange(len(array)), rows).reshape(-1, *[1] * (array.ndim - 1))
    return np.where(chosen, moved, array)


def _cell_of(shape: Sequence[int], cell: Cell) -> np.ndarray:
    """A mask of a cell of an array, whose two longest axes are divided in four."""
    chosen = np.ones((1,) * len(shape), bool)
    longest = sorted(sorted(range(len(shape)), key=lambda axis: -shape[axis])[: len(cell)])
    for axis, place in zip(longest, cell, strict=False):
        own = np.arange(shape[axis]) * CELLS // shape[axis] == place
        chosen = chosen & own.reshape([-1 if other == axis else 1 for other in range(len(shape))])
    return chosen


def _altered_image(image: Any, first: int, cell: Cell | None) -> Any:
    pixels = np.asarray(image)
    if pixels.dtype.kind not in "biuf":
        return image
    kind = sys.modules["PIL.Image"]
    if image.mode == "1":
        return kind.fromarray(~pixels)
    other = kind.frombytes(image.mode, image.size, np.ascontiguousarray(_moved(pixels, None, first, cell)).tobytes())
    if image.mode == "P":
        other.putpalette(image.getpalette())
    other.info = dict(image.info)
    return other
