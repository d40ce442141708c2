"""Indices as samplers yield them. Standard library only."""

from __future__ import annotations

import operator
from typing import Any

Index = int | str | tuple[Any, ...] | None
"""An index as a sampler yielded it, if it is plain enough to be requested again; None for streams."""


def plain_index(index: Any) -> Index:
    """The index itself if it is a plain number, string or tuple of such; None otherwise.

    numpy integers and 0-d integer tensors, which samplers do yield, become int.
    """
    if isinstance(index, tuple):
        items = tuple(plain_index(item) for item in index)
        return None if None in items else items
    if isinstance(index, str):
        return index
    try:
        return operator.index(index)
    except Exception:  # noqa: BLE001 - not a number; the user's own index may raise anything
        return None


def members(batch: Any) -> list[Any]:
    """The indices of a batch; one that cannot be iterated is its own only member, since torch itself refuses it."""
    try:
        return list(batch)
    except Exception:  # noqa: BLE001 - see above
        return [batch]


def rereadable(batch: Any) -> Any:
    """The batch itself, or a list of its indices if it can be iterated only once."""
    return list(batch) if hasattr(batch, "__next__") else batch
