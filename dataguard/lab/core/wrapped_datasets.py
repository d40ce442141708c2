"""From a dataset to those that it wraps, as `Subset`, `ConcatDataset` and datasets of the user's own do.

`by_name`, `by_type` and `by_torch` say what counts as wrapped. They find different datasets, and observations rely on
that: what is replaced in a dataset by name must be what its wrapper reads, while names of classes may stand anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from torch.utils.data import ConcatDataset, Dataset, Subset

from dataguard.lab.core.loader_facts import length_of

DEEPEST = 6
"""How many datasets may wrap one another for their columns to be put together."""
_INSIDE = ("reader", "parser", "base", "inner")
"""What else, besides datasets, stands for one (timm keeps file names and classes in its reader)."""

Step = tuple[str, Any]
"""A path, and what stands there."""
Inner = Callable[[Any], Iterator[Step]]
"""Which parts of a dataset count as wrapped by it."""
Own = Callable[[Any], Iterable[tuple[str, np.ndarray]]]
"""Finds columns in the attributes of one dataset: their names, and an entry for each index."""
Columns = dict[str, tuple[str, np.ndarray]]
"""Columns by name, each with the path of the datasets that it was put together from."""


def by_name(dataset: Any) -> Iterator[Step]:
    """What stands where torch's wrappers keep datasets, of whatever class: a dataset need not derive from torch's.

    Datasets under other names are left out: a wrapper of the user's own may use a part of them alone.
    """
    held = getattr(dataset, "__dict__", {})
    listed = held["datasets"] if type(held.get("datasets")) in (list, tuple) else ()
    parts = [(".dataset", held.get("dataset")), *((f".datasets[{place}]", one) for place, one in enumerate(listed))]
    return ((step, part) for step, part in parts if hasattr(part, "__dict__"))


def by_type(dataset: Any) -> Iterator[Step]:
    """Every attribute that is a dataset of torch's, or a list of them, under whatever name; and readers."""
    for name, value in list(getattr(dataset, "__dict__", {}).items()):
        if isinstance(value, Dataset) or name in _INSIDE:
            yield f".{name}", value
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Dataset):
            yield from ((f".{name}[{place}]", one) for place, one in enumerate(value))


def by_torch(dataset: Any) -> Iterator[Step]:
    """What `Subset` and `ConcatDataset` themselves hold; a class that derives from them may do something else."""
    if type(dataset) is Subset:
        yield ".dataset", dataset.dataset
    elif type(dataset) is ConcatDataset:
        yield from ((f".datasets[{place}]", part) for place, part in enumerate(dataset.datasets))


def wrapped_by(dataset: Any, inner: Inner) -> Iterator[Step]:
    """A dataset and all that it wraps, each once, the outermost first."""
    level: list[Step] = [("dataset", dataset)]
    seen: dict[int, Any] = {}
    while level:
        fresh = []
        for path, part in level:
            if id(part) not in seen:
                seen[id(part)] = part
                fresh.append((path, part))
                yield path, part
        level = [(path + step, part) for path, holder in fresh for step, part in inner(holder)]


def callables_of(dataset: Any, inner: Inner) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """The callable attributes of a dataset and of those that it wraps, which are transforms mostly.

    Each comes as the attributes that it is one of, where it may be replaced, its name, and itself.
    """
    for held in [getattr(part, "__dict__", {}) for _, part in wrapped_by(dataset, inner)]:
        for name, value in list(held.items()):
            if callable(value) and not isinstance(value, type):
                yield held, name, value


def innermost(dataset: Any, inner: Inner) -> Iterator[Step]:
    """Those of the datasets that wrap no other."""
    return (step for step in wrapped_by(dataset, inner) if next(inner(step[1]), None) is None)


def base_of(dataset: Any, index: Any) -> tuple[Any, Any]:
    """The dataset that a subset of a subset takes an index from, and its own index; a subset looks like torch's."""
    for _ in range(DEEPEST):
        if not (hasattr(dataset, "indices") and hasattr(dataset, "dataset")):
            break
        dataset, index = dataset.dataset, dataset.indices[index]
    return dataset, index


def columns_of(dataset: Any, own: Own, path: str = "dataset", depth: int = 0, *, through: bool = False) -> Columns:
    """What has one entry for each index of a dataset, by name.

    `own` finds it in the attributes of one dataset. What wrapped datasets have is put together as `Subset`,
    `ConcatDataset` and classes derived from them do. With `through`, a dataset of the user's own that holds another one
    of its length has the columns of that one, too.
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
        if isinstance(part, Dataset) and length_of(part) == length_of(dataset):
            found = columns_of(part, own, f"{path}.{name}", depth + 1, through=through) | found
    return found
