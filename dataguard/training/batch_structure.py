"""The structure of batches: types, dtypes and numbers of dimensions, leaf by leaf (DG305).

A batch is compared with the first one that has the same leaves. Keys that come and go, lists whose length varies and
shapes are not judged: tasks alternate, and the last batch is smaller.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
from torch import Tensor

from dataguard.lab.core.leaves import iter_leaves

MOST_LEAVES = 256
MOST_DEPTH = 8
MOST_KNOWN = 256
"""How many signatures are remembered."""
FEW = 8
"""How many entries of a list or tuple count; a longer one holds samples, not fields."""
_DEEPER = re.compile(r"(?<=.)\[\d+\]")

_PLAIN = (str, bytes, int, float, bool, type(None))

Arrays = list[tuple[str, Any]]
"""The tensors and arrays of a batch, each with its path."""
Kind = tuple[str, int]
"""The dtype of an array, and its number of dimensions."""


class Structure:
    """The structures that a loader's batches have had."""

    def __init__(self) -> None:
        self._known: set[Any] = set()
        self._kinds: dict[frozenset[str], dict[str, set[Kind]]] = {}

    def is_known(self, batch: Any) -> bool:
        """Whether a batch with the same types, dtypes and dimensions was compared already."""
        return signature(batch) in self._known

    @property
    def is_full(self) -> bool:
        """Whether no further signature is remembered: the batches of this loader all differ."""
        return len(self._known) >= MOST_KNOWN

    def changed(self, batch: Any, arrays: Arrays) -> tuple[str, Kind, Kind] | None:
        """The path of the first leaf whose dtype or number of dimensions is new, and what it was and is."""
        if not self.is_full:
            self._known.add(signature(batch))
        kinds: dict[str, set[Kind]] = {}
        for path, leaf in arrays:
            dtype = str(leaf.dtype).removeprefix("torch.")
            kinds.setdefault(_DEEPER.sub("[*]", path), set()).add((dtype, leaf.ndim))
        before = self._kinds.setdefault(frozenset(kinds), kinds)
        changed = ((path, seen - before[path]) for path, seen in kinds.items())
        return next(((path, min(before[path]), min(new)) for path, new in changed if new), None)


def signature(value: Any, depth: int = 0) -> Any:
    """What batches of one structure have in common, as a value that is quick to make and to compare."""
    kind = type(value)
    if kind is Tensor:
        return value.dtype, value.ndim
    if depth < MOST_DEPTH:
        if kind is list or kind is tuple:
            return (kind, *[signature(item, depth + 1) for item in value[:FEW]])
        if kind is dict or issubclass(kind, Mapping):
            return (kind, *[(key, signature(item, depth + 1)) for key, item in value.items()])
    if issubclass(kind, Tensor | np.ndarray):
        return kind, value.dtype, value.ndim
    return kind


def arrays_of(batch: Any) -> Arrays:
    """The tensors and arrays of a batch, with their paths."""
    arrays: Arrays = []
    _gather(batch, "", 0, arrays)
    return arrays


def _gather(value: Any, path: str, depth: int, arrays: Arrays) -> None:
    kind = type(value)
    if len(arrays) >= MOST_LEAVES or kind in _PLAIN:
        return
    if issubclass(kind, Tensor | np.ndarray) and getattr(value.dtype, "kind", "") not in ("O", "V"):
        arrays.append((path, value))
    elif (kind is list or kind is tuple) and depth < MOST_DEPTH:
        for number, item in enumerate(value[:MOST_LEAVES]):
            _gather(item, f"{path}[{number}]", depth + 1, arrays)
    elif kind is dict and depth < MOST_DEPTH:
        for key, item in value.items():
            _gather(item, f"{path}[{key!r}]", depth + 1, arrays)
    else:
        leaves = islice(iter_leaves(value, path), MOST_LEAVES)
        arrays += [(step, leaf) for step, leaf in leaves if isinstance(leaf, Tensor | np.ndarray)]
