"""Images that a dataset keeps in memory, one for each index: exchanged for the time of one reading.

What is kept is copied once before anything is written, because arrays may be mapped from the user's files or shared.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.wrapped_datasets import base_of, by_name, wrapped_by
from dataguard.lab.images.image_containers import exchange, is_picture

_MOST_BYTES = 1 << 27
"""What is larger is left alone."""
_FEW = 16
"""A tuple or dictionary of so many entries at most may hold arrays, as `TensorDataset.tensors` does."""


def copy_kept(dataset: Any) -> None:
    """Let the dataset, and those that it wraps, keep copies of the images that they keep in one array."""
    for _, part in wrapped_by(dataset, by_name):
        state = getattr(part, "__dict__", {})
        state.update({name: _copied(held) for name, held in state.items()})


def _copied(held: Any) -> Any:
    if isinstance(held, np.ndarray) and held.ndim > 2 and held.nbytes <= _MOST_BYTES:
        return np.array(held)
    if type(held) is torch.Tensor and held.ndim > 2 and held.nbytes <= _MOST_BYTES:
        return held.clone()
    if type(held) in (tuple, list) and len(held) <= _FEW:
        return type(held)(_copied(one) for one in held)
    if type(held) is dict and len(held) <= _FEW:
        return {key: _copied(one) for key, one in held.items()}
    return list(held) if type(held) is list else held


@contextlib.contextmanager
def kept_for(dataset: Any, index: Any, draw: Callable[[Any, str], Any]) -> Iterator[None]:
    """Exchange the images that are kept for an index for what `draw` makes of them."""
    dataset, index = base_of(dataset, index)
    undo = []
    try:
        for name, store in _stores(dataset):
            undo += _exchanged(store, index, partial(_named, draw, name))
        yield
    finally:
        for store, before in undo:
            store[index] = before


def _named(draw: Callable[[Any, str], Any], name: str, image: Any) -> Any:
    return draw(image, name)


def _stores(dataset: Any) -> Iterator[tuple[str, Any]]:
    """What holds as many entries as the dataset has samples."""
    length = len(dataset)
    for name, held in getattr(dataset, "__dict__", {}).items():
        inner = list(held.values()) if type(held) is dict else held if type(held) in (tuple, list) else []
        for store in (held, *(inner if len(inner) <= _FEW else [])):
            if isinstance(store, list | np.ndarray | torch.Tensor) and len(store) == length:
                yield name, store


def _exchanged(store: Any, index: Any, draw: Callable[[Any], Any]) -> list[tuple[Any, Any]]:
    """Exchange one entry; what to put back, and where."""
    try:
        entry = store[index]
        if not any(is_picture(leaf) for _, leaf in iter_leaves(entry)):
            return []
        before = entry.copy() if isinstance(store, np.ndarray) else entry
        before = entry.clone() if isinstance(store, torch.Tensor) else before
        store[index] = exchange(entry, draw)
    except Exception:  # noqa: BLE001 - an index of another kind, or what cannot be written to
        return []
    return [(store, before)]
