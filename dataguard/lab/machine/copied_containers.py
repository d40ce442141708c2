"""Large containers of Python objects, which reference counting copies into every forked worker page by page."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from dataguard.lab.core.object_graph import reachable
from dataguard.lab.core.source_location import made_at

MANY = 10_000
"""The fewest entries of a container that counts as large."""
SAMPLED = 200
DEEP = 4
_CONTAINERS = (dict, list, tuple, set, frozenset)


@dataclass(frozen=True, slots=True)
class CopiedContainer:
    """A container, the number of its entries, and about how many bytes these take, without its own table.

    `at` is the file and line of the class that holds it.
    """

    path: str
    kind: str
    entries: int
    bytes: int
    at: tuple[str, int] | None


def find_copied_containers(dataset: Any) -> tuple[CopiedContainer, ...]:
    """The large containers in the dataset, the largest first."""
    found = []
    for node in reachable({"dataset": dataset}, _is_large, enter=True):
        value = node.value
        count = value.size if isinstance(value, np.ndarray) else len(value)
        held = round(count * _mean_bytes(value, count))
        holder = next((one.value for one in node.line[1:] if not isinstance(one.value, _CONTAINERS)), dataset)
        found.append(CopiedContainer(node.path, type(value).__name__, count, held, made_at(holder)))
    return tuple(sorted(found, key=lambda container: -container.bytes))


def _is_large(value: Any) -> bool:
    kind = type(value)
    if issubclass(kind, np.ndarray):
        return bool(value.dtype == object and value.size >= MANY)
    builtin = next((one for one in _CONTAINERS if issubclass(kind, one)), None)
    return builtin is not None and builtin.__len__(value) >= MANY


def _mean_bytes(value: Any, count: int) -> float:
    """The mean bytes of an entry; objects shared by several entries count once, and small integers not at all."""
    seen: set[int] = set()
    sampled = list(_some(value, count))
    return sum(_bytes(entry, seen, 0) for entry in sampled) / max(len(sampled), 1)


def _some(value: Any, count: int) -> Iterator[Any]:
    """Evenly spaced entries of a sequence, or the first ones of anything else."""
    if isinstance(value, list | tuple):
        yield from (value[number] for number in range(0, count, max(count // SAMPLED, 1)))
    elif isinstance(value, np.ndarray):
        yield from (value.flat[number] for number in range(0, count, max(count // SAMPLED, 1)))
    else:
        yield from islice(dict.items(value) if isinstance(value, dict) else iter(value), SAMPLED)


def _bytes(value: Any, seen: set[int], depth: int) -> int:
    if id(value) in seen or isinstance(value, type) or depth > DEEP:
        return 0
    seen.add(id(value))
    if isinstance(value, int) and abs(value) < 256:
        return 0
    parts: Iterable[Any] = ()
    if isinstance(value, dict):
        parts = (part for pair in islice(value.items(), SAMPLED) for part in pair)
    elif isinstance(value, list | tuple | set | frozenset):
        parts = islice(value, SAMPLED)
    elif hasattr(value, "__dict__"):
        parts = (vars(value),)
    try:
        own = sys.getsizeof(value)
    except Exception:  # noqa: BLE001 - a user-defined type may raise anything
        own = 64
    return own + sum(_bytes(part, seen, depth + 1) for part in parts)
