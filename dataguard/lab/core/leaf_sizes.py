"""How much memory the leaves of a sample or batch take."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import iter_leaves

MOST_HELD = 1 << 27
"""Bytes of samples from which on an observation holds no more of them than it needs."""


def keep(sample: Any, kept: list[Any], fewest: int, most: int) -> None:
    """Add a sample to those `kept`, until there are `most` of them, or `fewest` if they are large."""
    if len(kept) < fewest or (len(kept) < most and bytes_of(kept) < MOST_HELD):
        kept.append(sample)


def bytes_of(value: Any) -> int:
    """The size of the arrays and tensors of a sample in bytes."""
    leaves = [leaf for _, leaf in iter_leaves(value)]
    tensors = sum(leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor))
    return tensors + sum(leaf.nbytes for leaf in leaves if isinstance(leaf, np.ndarray))


def shared_bytes(batch: Any) -> int:
    """Bytes of shared memory needed to send this batch to the main process.

    Each distinct CPU storage is sent in full, however small the view, and rounded up to a page of 4096 bytes; with the
    strategy "file_system", a reference count of 64 bytes precedes it. numpy arrays go through a pipe and need none
    (measured on torch 2.15).
    """
    header = 64 if torch.multiprocessing.get_sharing_strategy() == "file_system" else 0
    storages = {}
    for _, leaf in iter_leaves(batch):
        for part in _strided_parts(leaf):
            storage = part.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(-(-(size + header) // 4096) * 4096 for size in storages.values() if size)


def _strided_parts(leaf: Any) -> list[torch.Tensor]:
    """The plain CPU tensors that hold a leaf's content."""
    if not isinstance(leaf, torch.Tensor) or leaf.device.type != "cpu":
        return []
    if leaf.layout is torch.sparse_coo:
        return [leaf._indices(), leaf._values()]
    if leaf.is_nested:
        return list(leaf.unbind())
    return [leaf] if leaf.layout is torch.strided else []
