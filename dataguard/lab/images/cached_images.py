"""Images that a dataset holds in memory, one for each sample, and their replacement for the index that is read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.loader_facts import base_of, by_name, wrapped_by
from dataguard.lab.images.painter import is_image, replace_images

_MOST_BYTES = 1 << 27
"""Larger arrays, of 128 MiB, are not copied: a limit of memory."""
_FEW_ENTRIES = 16
"""Tuples and dictionaries with at most this many entries are searched for arrays, as in `TensorDataset.tensors`: longer
ones are lists of samples."""


def copy_cached_images(dataset: Any) -> None:
    """Copy the arrays that may hold images, in the dataset and in those that it wraps."""
    for _, part in wrapped_by(dataset, by_name):
        state = getattr(part, "__dict__", {})
        state.update({name: _copied(held) for name, held in state.items()})


def _copied(held: Any) -> Any:
    if isinstance(held, np.ndarray) and held.ndim > 2 and held.nbytes <= _MOST_BYTES:
        return np.array(held)
    if type(held) is torch.Tensor and held.ndim > 2 and held.nbytes <= _MOST_BYTES:
        return held.clone()
    if type(held) in (tuple, list) and len(held) <= _FEW_ENTRIES:
        return type(held)(_copied(item) for item in held)
    if type(held) is dict and len(held) <= _FEW_ENTRIES:
        return {key: _copied(item) for key, item in held.items()}
    return list(held) if type(held) is list else held


@contextlib.contextmanager
def replaced_in_cache(dataset: Any, index: Any, paint: Callable[[Any, str], Any]) -> Iterator[None]:
    """Replace the cached images of an index by what `paint` returns for them."""
    dataset, index = base_of(dataset, index)
    replaced = []
    try:
        for name, cache in _caches(dataset):
            replaced += _replaced(cache, index, partial(_named, paint, name))
        yield
    finally:
        for cache, before in replaced:
            cache[index] = before


def _named(paint: Callable[[Any, str], Any], name: str, image: Any) -> Any:
    return paint(image, name)


def _caches(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Everything that has as many entries as the dataset has samples."""
    length = len(dataset)
    for name, held in getattr(dataset, "__dict__", {}).items():
        inner = list(held.values()) if type(held) is dict else held if type(held) in (tuple, list) else []
        for cache in (held, *(inner if len(inner) <= _FEW_ENTRIES else [])):
            if isinstance(cache, list | np.ndarray | torch.Tensor) and len(cache) == length:
                yield name, cache


def _replaced(cache: Any, index: Any, paint: Callable[[Any], Any]) -> list[tuple[Any, Any]]:
    """Replace one entry; return what to restore, and where."""
    try:
        entry = cache[index]
        if not any(is_image(leaf) for _, leaf in iter_leaves(entry)):
            return []
        before = entry.copy() if isinstance(cache, np.ndarray) else entry
        before = entry.clone() if isinstance(cache, torch.Tensor) else before
        cache[index] = replace_images(entry, paint)
    except Exception:  # noqa: BLE001 - the index does not fit, or it is read-only
        return []
    return [(cache, before)]
