"""Which patient, subject, speaker, session or other group each sample belongs to, if something says so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset
from xxhash import xxh3_64

from dataguard.lab.core.index import Index
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.records import key_of
from dataguard.lab.core.wrapped_datasets import asked_columns
from dataguard.lab.reading.epoch_trace import EpochTrace

WORDS = frozenset({"patient", "subject", "speaker", "participant", "session", "group"})
"""What names a group whose samples belong together; `site`, `device` and `class` name what splits are to share."""
_IDS = frozenset({"id", "ids", "no", "number", "name", "names", "key", "keys", "idx", "index", "code", "codes"})
MOST = 500_000
"""Datasets with more indices are skipped."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each sample by index. `table` is a digest of all rows that these were chosen from, if known."""

    name: str
    of: Mapping[Index, str]
    table: bytes | None = None


def is_group(name: str, declared: str | None) -> bool:
    """Whether a name is that of a group, such as `patient_id`, or the declared one."""
    if declared is not None:
        return name == declared
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    return bool(words) and words[0].removesuffix("s") in WORDS and _IDS.issuperset(words[1:])


def find_groups(dataset: Any, indices: Sequence[int], declared: str | None) -> tuple[Groups, ...]:
    """The groups that a dataset, or one that it wraps, lists for its indices."""
    tables: dict[str, bytes] = {}

    def own(part: Any) -> Iterator[tuple[str, np.ndarray]]:
        for name, values in _listed(part, declared):
            tables[name] = xxh3_64("\0".join(values).encode("utf-8", "surrogatepass")).digest()
            yield name, np.array(values, dtype=object)

    return tuple(
        Groups(name, {index: str(column[index]) for index in indices}, tables[name])
        for name, (_, column) in asked_columns(dataset, own, indices, MOST).items()
    )


def recorded_groups(epoch: EpochTrace, declared: str | None) -> tuple[Groups, ...]:
    """The groups that leaves of recorded samples name."""
    found: dict[str, dict[Index, str]] = {}
    for sample in epoch.samples:
        for leaf in sample.leaves:
            name = key_of(leaf.path)
            if sample.index is not None and leaf.shown and is_group(name, declared):
                found.setdefault(name, {})[sample.index] = leaf.shown.strip("'\"")
    for summary in epoch.value_summaries:
        for numbers in summary.numbers if summary.index is not None else ():
            name = key_of(numbers.path)
            if numbers.whole and numbers.size == 1 and is_group(name, declared):
                found.setdefault(name, {})[summary.index] = str(int(numbers.low))
    return tuple(Groups(name, of) for name, of in found.items())


def _listed(dataset: Any, declared: str | None) -> Iterator[tuple[str, list[str]]]:
    """The attributes of one dataset, columns of its tables and keys of its records that are groups, as text."""
    length = length_of(dataset) or 0
    for name, value in () if isinstance(dataset, Subset) else list(getattr(dataset, "__dict__", {}).items()):
        if hasattr(value, "iloc") and hasattr(value, "columns"):  # pandas, if the user imported it
            parts = {str(column): value[column].tolist() for column in value.columns}
        elif isinstance(value, list) and len(value) == length and value and isinstance(value[0], Mapping):
            keys = [key for key in value[0] if isinstance(key, str) and is_group(key, declared)]
            parts = {key: [one.get(key) for one in value] for key in keys}
        else:
            plain = isinstance(value, torch.Tensor | np.ndarray) and value.ndim == 1
            parts = {name: value.tolist() if plain else value}
        for part, values in parts.items():
            listed = isinstance(values, list | tuple) and len(values) == length > 0 and is_group(part, declared)
            if listed and all(isinstance(one, str | int) for one in values):
                yield part, list(map(str, values))
