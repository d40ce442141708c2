"""From a dataset to the datasets that it wraps, as `Subset`, `ConcatDataset` and user-defined wrappers do.

`by_name`, `by_type` and `by_torch` define what counts as wrapped. They find different datasets, and the observations
rely on it: transforms and caches are replaced where a wrapper surely reads them, while class names may be in any part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset, Dataset, Subset

from dataguard.lab.core.loader_facts import length_of

DEEPEST = 6
"""The deepest nesting of datasets whose columns are merged."""
_INSIDE = ("reader", "parser", "base", "inner")
"""Attributes that count as datasets whatever their type: timm keeps file names and classes in a reader."""

Part = tuple[str, Any]
"""The path of an object, and the object."""
Inner = Callable[[Any], Iterator[Part]]
"""Returns what one dataset wraps, with the step from it."""
Own = Callable[[Any], Iterable[tuple[str, np.ndarray]]]
"""Finds the columns of one dataset alone: their names, and one entry per index."""
Columns = dict[str, tuple[str, np.ndarray]]
"""Columns by name, each with the path of the dataset that has it."""


def by_name(dataset: Any) -> Iterator[Part]:
    """The attributes `dataset` and `datasets`, as in torch's wrappers, of any class: not all derive from torch's.

    Other attributes are left out: a user-defined wrapper may use only a part of such a dataset.
    """
    attributes = getattr(dataset, "__dict__", {})
    listed = attributes["datasets"] if type(attributes.get("datasets")) in (list, tuple) else ()
    several = ((f".datasets[{place}]", one) for place, one in enumerate(listed))
    parts = [(".dataset", attributes.get("dataset")), *several]
    return ((step, part) for step, part in parts if hasattr(part, "__dict__"))


def by_type(dataset: Any) -> Iterator[Part]:
    """Every attribute that is a torch dataset or a list of them, whatever its name, and readers."""
    for name, value in list(getattr(dataset, "__dict__", {}).items()):
        if isinstance(value, Dataset) or name in _INSIDE:
            yield f".{name}", value
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Dataset):
            yield from ((f".{name}[{place}]", one) for place, one in enumerate(value))


def by_torch(dataset: Any) -> Iterator[Part]:
    """What `Subset` and `ConcatDataset` wrap, but not their subclasses, which may map indices in another way."""
    if type(dataset) is Subset:
        yield ".dataset", dataset.dataset
    elif type(dataset) is ConcatDataset:
        yield from ((f".datasets[{place}]", part) for place, part in enumerate(dataset.datasets))


def wrapped_by(dataset: Any, inner: Inner) -> Iterator[Part]:
    """A dataset and all that it wraps, each once, outermost first."""
    level: list[Part] = [("dataset", dataset)]
    seen: dict[int, Any] = {}
    while level:
        new = []
        for path, part in level:
            if id(part) not in seen:
                seen[id(part)] = part
                new.append((path, part))
                yield path, part
        level = [(path + step, part) for path, holder in new for step, part in inner(holder)]


def callables_of(dataset: Any, inner: Inner) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """The callable attributes of a dataset and of those that it wraps, mostly transforms.

    Yields the `__dict__` that has the attribute, in which it may be replaced, its name and its value.
    """
    for attributes in [getattr(part, "__dict__", {}) for _, part in wrapped_by(dataset, inner)]:
        for name, value in list(attributes.items()):
            if callable(value) and not isinstance(value, type):
                yield attributes, name, value


def innermost(dataset: Any, inner: Inner) -> Iterator[Part]:
    """The datasets that wrap no others."""
    return (step for step in wrapped_by(dataset, inner) if next(inner(step[1]), None) is None)


def base_of(dataset: Any, index: Any) -> tuple[Any, Any]:
    """The dataset below nested subsets and the index there; anything with `dataset` and `indices` is a subset."""
    for _ in range(DEEPEST):
        if not (hasattr(dataset, "indices") and hasattr(dataset, "dataset")):
            break
        dataset, index = dataset.dataset, dataset.indices[index]
    return dataset, index


def asked_columns(dataset: Any, own: Own, indices: Sequence[int], most: int) -> Columns:
    """The columns of a dataset, or of one that it wraps, for a loader that requests these indices.

    {} without integer indices inside the dataset, for more than `most` of them, and if an object refuses inspection.
    """
    length = length_of(dataset) or 0
    if not indices or not max(indices) < length <= most:
        return {}
    try:
        return columns_of(dataset, own, through=True)
    except Exception:  # noqa: BLE001 - user-defined objects may raise anything when inspected
        return {}


def columns_of(dataset: Any, own: Own, path: str = "dataset", depth: int = 0, *, through: bool = False) -> Columns:
    """The columns of a dataset, one entry per index: those that `own` finds, and those of the datasets that it wraps.

    `Subset` selects from the columns of its dataset and `ConcatDataset` joins those that all parts have; subclasses are
    assumed to do the same. With `through`, a user-defined dataset also has the columns of any dataset of its own length
    that it holds.
    """
    if depth > DEEPEST:
        return {}
    found = {name: (path, column) for name, column in own(dataset)}
    if isinstance(dataset, Subset):
        inner = columns_of(dataset.dataset, own, f"{path}.dataset", depth + 1, through=through)
        indices = np.asarray(dataset.indices if inner else (), np.int64)
        most = indices.max(initial=-1)
        return found | {name: (at, column[indices]) for name, (at, column) in inner.items() if most < len(column)}
    if isinstance(dataset, ConcatDataset):
        parts = [columns_of(part, own, path, depth + 1, through=through) for part in dataset.datasets]
        common = [name for name in parts[0] if all(name in part for part in parts)]
        joined = {name: np.concatenate([part[name][1] for part in parts]) for name in common}
        return found | {name: (f"{path}.datasets[*]", column) for name, column in joined.items()}
    for name, part in vars(dataset).items() if through and hasattr(dataset, "__dict__") else ():
        is_inner = isinstance(part, Dataset) or name in _INSIDE
        if is_inner and length_of(part) == length_of(dataset):
            found = columns_of(part, own, f"{path}.{name}", depth + 1, through=through) | found
    return found
