"""What a dataset declares about its classes: how many there are, their names, and the index of each name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.wrapped_datasets import by_type, wrapped_by
from dataguard.targets.variants import Loader

MOST_PARTS = 64
MOST_CLASSES = 50_000
FEW = 128
"""Up to this many samples, there may be one class per sample."""
_LISTS = ("classes", "CLASSES", "class_names", "categories")
_TABLES = ("class_to_idx", "class_to_index", "class_to_id", "label_to_idx", "label_to_id", "label2id", "label2idx")
_COUNTS = ("num_classes", "n_classes", "nb_classes", "number_of_classes")

Read = Callable[[Any, str], Any]
"""Reads an attribute of a dataset; None if there is none."""


@dataclass(frozen=True, slots=True)
class ClassNames:
    """How many classes there are, `where` that is declared, and the index of each name if names are given.

    `leaf` is the path of the leaf with these classes, if it is known.
    """

    where: str
    count: int
    numbers: Mapping[str, int] = field(default_factory=dict)
    leaf: str | None = None


def find_class_names(build: Callable[..., Loader]) -> tuple[ClassNames, ...]:
    """What the dataset of a loader declares."""
    return class_names_of(build(num_workers=0).dataset)


def class_names_of(dataset: Any, read: Read | None = None) -> tuple[ClassNames, ...]:
    """What a dataset, and the datasets that it wraps, declare in attributes; the outermost first.

    By default the attributes are read as usual, which runs properties. `stored` reads what needs no computation.

    Parts of a concatenation that differ declare their own classes only, and not those of all samples.
    """
    found: dict[str, ClassNames] = {}
    for path, part in islice(wrapped_by(dataset, by_type), MOST_PARTS):
        for names in names_of(path, part, read):
            found.setdefault(names.where, names)
    parts = [names for names in found.values() if names.leaf is None and "[" in names.where]
    counts, tables = {names.count for names in parts}, [names.numbers for names in parts if names.numbers]
    apart = len(counts) > 1 or any(numbers != tables[0] for numbers in tables)
    return tuple(names for names in found.values() if not (apart and names in parts))


def names_of(path: str, part: Any, read: Read | None = None) -> Iterator[ClassNames]:
    """What one dataset declares: a table of names and indices first, then a list of names, then a count."""
    read = read or _attribute
    for name in _TABLES:
        numbers = _table(read(part, name))
        if numbers:
            yield ClassNames(f"{path}.{name}", max(numbers.values()) + 1, numbers)
    for name in _LISTS:
        value = read(part, name)
        numbers = _table(value) or _listed(value, length_of(part))
        if numbers:
            yield ClassNames(f"{path}.{name}", max(numbers.values()) + 1, numbers)
    for name in _COUNTS:
        value = read(part, name)
        if isinstance(value, int) and not isinstance(value, bool) and 2 <= value <= MOST_CLASSES:
            yield ClassNames(f"{path}.{name}", value)
    features = read(part, "features")
    for key, feature in features.items() if isinstance(features, Mapping) else ():
        numbers = _listed(getattr(feature, "names", None), None)
        if numbers and isinstance(getattr(feature, "num_classes", None), int):
            yield ClassNames(f"{path}.features[{key!r}]", len(numbers), numbers, f"[{key!r}]")


def stored(part: Any, name: str) -> Any:
    """An attribute of an object or its class, unless it is a property, which may read the whole dataset."""
    value = inspect.getattr_static(part, name, None)
    return None if hasattr(type(value), "__get__") else value


def _attribute(part: Any, name: str) -> Any:
    try:
        return getattr(part, name, None)
    except Exception:  # noqa: BLE001 - a user-defined property may raise anything
        return None


def _table(value: Any) -> dict[str, int]:
    """Names and their indices, if a mapping holds these, in either direction; one name per index."""
    if not isinstance(value, Mapping) or not 2 <= len(value) <= MOST_CLASSES:
        return {}
    pairs = list(value.items())
    if all(isinstance(key, int | np.integer) for key, _ in pairs):
        pairs = [(name, number) for number, name in pairs]
    if not all(isinstance(name, str) and _is_number(number) for name, number in pairs):
        return {}
    return {name: int(number) for name, number in pairs}


def _listed(value: Any, length: int | None) -> dict[str, int]:
    """Names in the order of their indices; a list with an entry per sample does not name classes."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if not isinstance(value, Sequence) or isinstance(value, str) or not 2 <= len(value) <= MOST_CLASSES:
        return {}
    names = [str(name[0] if isinstance(name, tuple) and name else name) for name in value]
    if len(set(names)) != len(names):
        names = [str(name) for name in value]
    per_sample = length is not None and length == len(names) > FEW
    return {} if per_sample or len(set(names)) != len(names) else {name: i for i, name in enumerate(names)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) < MOST_CLASSES
