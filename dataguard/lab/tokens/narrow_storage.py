"""Tokens that are stored in 16 bits though the vocabulary has more of them than that holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataguard.lab.core.object_graph import reachable
from dataguard.lab.tokens.token_rows import TokenRow

MOST = 1 << 26
"""The first so many entries of an array are searched for tokens of a batch."""
_LIMITS = {"uint16": 1 << 16, "int16": 1 << 15}
_WINDOW, _ROWS = 8, 4


@dataclass(frozen=True, slots=True)
class NarrowStorage:
    """An array that tokens are read from: its path, dtype, and how many different ids that holds."""

    where: str
    dtype: str
    ids: int


def narrow_storage(loader: Any, rows: Sequence[TokenRow], size: int | None) -> NarrowStorage | None:
    """The array of the dataset that holds the tokens of rows, if it has too few bits for a vocabulary of this size."""
    if size is None or size <= min(_LIMITS.values()):
        return None
    long = [row.tokens for row in rows if len(row.tokens) >= 2 * _WINDOW]
    windows = [tokens[len(tokens) // 2 :][:_WINDOW] for tokens in long[:_ROWS]]
    for node in reachable({"dataset": loader.dataset}, _is_narrow):
        limit = _LIMITS[node.value.dtype.name]
        if size > limit and windows and all(_holds(node.value, window) for window in windows):
            return NarrowStorage(node.path, node.value.dtype.name, limit)
    return None


def _is_narrow(value: Any) -> bool:
    return issubclass(type(value), np.ndarray) and value.ndim == 1 and value.dtype.name in _LIMITS


def _holds(array: np.ndarray, window: np.ndarray) -> bool:
    part = np.asarray(array[:MOST])
    places = np.flatnonzero(part[: len(part) - len(window) + 1] == window[0])
    for offset in range(1, len(window)):
        places = places[part[places + offset] == window[offset]]
    return len(places) > 0
