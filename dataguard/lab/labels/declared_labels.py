"""What a dataset declares about its classes and labels, and tokens that are masked at random.

Classes are declared in attributes: how many there are, their names, and the index of each name. A table of labels is an
attribute with one entry per sample, or the tables of wrapped datasets, joined as `Subset` and `ConcatDataset` do. It
counts only if it agrees with every label that was seen.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, permutations
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Subset

from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.loader_facts import attribute, by_type, columns_of, length_of, wrapped_by
from dataguard.targets.variants import Loader

MOST_PARTS = 64
"""Most wrapped datasets whose attributes are read, outermost first."""
MOST_CLASSES = 50_000
"""Most classes that a declaration may name: a longer table is one of samples or words. ImageNet-21k has 21,841."""
MOST_SINGLE_CLASSES = 128
"""Up to this many samples, there may be one class per sample."""
_LISTS = ("classes", "CLASSES", "class_names", "categories")
"""Attributes that list class names in the order of their indices."""
_TABLES = ("class_to_idx", "class_to_index", "class_to_id", "label_to_idx", "label_to_id", "label2id", "label2idx")
"""Attributes that map class names to indices, or indices to names."""
_COUNTS = ("num_classes", "n_classes", "nb_classes", "number_of_classes")
"""Attributes that hold the number of classes."""

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
    by_place: dict[str, ClassNames] = {}
    for path, part in islice(wrapped_by(dataset, by_type), MOST_PARTS):
        for names in names_of(path, part, read):
            by_place.setdefault(names.where, names)
    parts = [names for names in by_place.values() if names.leaf is None and "[" in names.where]
    counts, tables = {names.count for names in parts}, [names.numbers for names in parts if names.numbers]
    apart = len(counts) > 1 or any(numbers != tables[0] for numbers in tables)
    return tuple(names for names in by_place.values() if not (apart and names in parts))


def names_of(path: str, part: Any, read: Read | None = None) -> Iterator[ClassNames]:
    """What one dataset declares: a table of names and indices first, then a list of names, then a count."""
    read = read or attribute
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
    per_sample = length is not None and length == len(names) > MOST_SINGLE_CLASSES
    return {} if per_sample or len(set(names)) != len(names) else {name: i for i, name in enumerate(names)}


def _is_number(value: Any) -> bool:
    return _is_whole(value) and 0 <= int(value) < MOST_CLASSES


MOST_ENTRIES = 5_000_000
"""Most samples whose labels are compared in a table: more takes seconds and hundreds of MB."""
MOST_COLUMNS = 64
"""Most attributes, columns or fields of an entry that may be a table."""
FEWEST_LABELS = 8
"""The fewest labels that must agree with a table, of two classes at least: of 2, all agree by odds of 1 in 256."""


@dataclass(frozen=True, slots=True)
class Table:
    """Where labels are stored, in which dtype, how often each occurs, and the first index of each."""

    where: str
    counts: Mapping[int, int]
    first: Mapping[int, int]
    type_name: str = "int64"


def find_table(build: Callable[..., Loader], seen: Sequence[tuple[int, int]]) -> Table | None:
    """The table in a loader's dataset that contains these pairs of index and label, if any."""
    if len(seen) < FEWEST_LABELS or len({label for _, label in seen}) < 2:
        return None
    indices, labels = (np.array(column) for column in zip(*seen, strict=True))
    for name, (path, table) in columns_of(build(num_workers=0).dataset, _tables).items():
        if indices.min() >= 0 and indices.max() < len(table) and (table[indices] == labels).all():
            values, first, counts = np.unique(table, return_index=True, return_counts=True)
            numbers = values.tolist()
            return Table(
                path + name,
                dict(zip(numbers, counts.tolist(), strict=True)),
                dict(zip(numbers, first.tolist(), strict=True)),
                str(table.dtype),
            )
    return None


def _tables(dataset: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The integer tables with one entry per sample among the attributes of a dataset."""
    length = length_of(dataset)
    if length is None or not 0 < length <= MOST_ENTRIES or isinstance(dataset, Subset | ConcatDataset):
        return
    for name, value in list(getattr(dataset, "__dict__", {}).items())[:MOST_COLUMNS]:
        yield from ((f".{name}{step}", table) for step, table in _columns(value, length))


def _columns(value: Any, length: int) -> Iterator[tuple[str, np.ndarray]]:
    """The integers of an attribute with so many entries: the entries themselves, or a part of each."""
    if type(value).__name__ == "DataFrame" and len(value) == length:
        for name in list(value.columns)[:MOST_COLUMNS]:
            yield from ((f"[{name!r}]", table) for _, table in _columns(value[name].to_numpy(), length))
    elif isinstance(value, torch.Tensor | np.ndarray):
        if value.ndim == 1 and len(value) == length:
            array = value.numpy() if isinstance(value, torch.Tensor) else value
            yield from [("", array)] if array.dtype.kind in "iu" else []
    elif isinstance(value, list | tuple) and len(value) == length:
        first = value[0]
        if _is_whole(first) and all(map(_is_whole, value)):
            yield "", np.array(value)
        elif isinstance(first, tuple | list) and len({len(entry) for entry in value if hasattr(entry, "__len__")}) == 1:
            for position, part in enumerate(first[:MOST_COLUMNS]):
                if _is_whole(part) and all(isinstance(entry, tuple | list) for entry in value):
                    column = [entry[position] for entry in value]
                    yield from [(f"[*][{position}]", np.array(column))] if all(map(_is_whole, column)) else []


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


IGNORED = (-100, -1, 0)
"""Labels where no token is masked: -100 is that of torch's losses, the others are those of older models."""
MOST_MASKED = 0.5
"""The largest share of tokens that are masked: BERT masks 15%; where more are, the rest does not identify a row."""


def masked_tokens(sample: Any, again: Any) -> frozenset[str]:
    """The integer leaves of two draws that differ only in which tokens are masked: labels and inputs restore the rest.

    Both are draws of the same sample or batch.
    """
    first, second = _tokens(sample), _tokens(again)
    same_shape = [path for path in first if path in second and first[path].shape == second[path].shape]
    changed = [path for path in same_shape if (first[path] != second[path]).any()]
    masked: set[str] = set()
    for inputs, labels in permutations(changed, 2):
        if first[inputs].shape == first[labels].shape:
            drawn = [(tokens[inputs], tokens[labels]) for tokens in (first, second)]
            masked |= {inputs, labels} if any(_restored(drawn, ignored) for ignored in IGNORED) else set()
    return frozenset(masked)


def _restored(drawn: list[tuple[np.ndarray, np.ndarray]], ignored: int) -> bool:
    """Whether the tokens before masking are the same in both draws."""
    masked = [labels != ignored for _, labels in drawn]
    first, second = (np.where(mask, labels, inputs) for mask, (inputs, labels) in zip(masked, drawn, strict=True))
    few = all(mask.mean() <= MOST_MASKED for mask in masked) and any(mask.any() for mask in masked)
    return few and bool((first == second).all())


def _is_row(leaf: Any) -> bool:
    """Whether it is an array or a flat list; a list in lists is a leaf where they are nested too deeply."""
    flat = isinstance(leaf, list) and not any(isinstance(item, list) for item in leaf)
    return flat or isinstance(leaf, torch.Tensor | np.ndarray)


def _tokens(value: Any) -> dict[str, np.ndarray]:
    """The arrays and lists of integers in a sample or batch, by path."""
    arrays = {path: array_of(leaf) for path, leaf in iter_leaves(value) if _is_row(leaf)}
    return {path: array for path, array in arrays.items() if array.dtype.kind in "iu" and array.ndim}
