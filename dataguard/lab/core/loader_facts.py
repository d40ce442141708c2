"""What is known about a loader without iterating it: its settings, and the datasets that its dataset wraps.

`by_name`, `by_type` and `by_torch` define what counts as wrapped, as `Subset`, `ConcatDataset` and user-defined
wrappers do. They find different datasets, and the observations rely on it: transforms and caches are replaced where a
wrapper surely reads them, while class names may be in any part.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, ConcatDataset, Dataset, IterableDataset, Subset, WeightedRandomSampler
from torch.utils.data.dataloader import default_collate

from dataguard.core.model import Location, NotApplicable, NotTested
from dataguard.lab.core.records import plain_index
from dataguard.lab.core.source_location import Place, is_own, made_at, samples_at
from dataguard.lab.process.accelerators import accelerator, pins
from dataguard.lab.process.isolation import in_fork
from dataguard.settings.target_spelling import ROLE_UNKNOWN, spelled_role, stem_of
from dataguard.targets.discovery import own_loader_of, wrapper_of
from dataguard.targets.loading import made_for_dataset
from dataguard.targets.variants import Loader, unwrapped

_RANDOM = ("RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")


@dataclass(frozen=True, slots=True)
class LoaderFacts:
    """One loader's settings, as plain data.

    `kind` is "map" or "stream"; `length` is `len(dataset)` or None, and `batches` is `len(loader)` as the user sees it;
    `batched`: torch collates batches; `prefetch` is None without workers; `role` is one of `ROLES`, or None if
    unknown; `epoch_hooks` are the `set_epoch` methods of the loader and its parts, the dataset's first;
    `start_given`: the start method is not the platform's default, but was asked for;
    `mixes_samples`: any two samples may share a batch, because torch's own samplers shuffle and batch them;
    `unweighted` is how many samples torch's weighted sampler has no weight for, and so never draws; `holder` is the
    class of the object that the user iterates instead, if any; `own`: it yields the batches of an object
    of the project's own class, which holds a dataset; `bare`: the user passed only a dataset; `own_iter`: the
    loader's class overrides `__iter__`; `double`: float64 is torch's default dtype; `made_at` is the user's line that
    constructs the loader, `collate_at` where collate_fn is defined, and `batch_sampler_at` where the batch sampler
    yields batches, if they are the user's.
    """

    name: str
    role: str | None
    kind: str
    dataset: str
    length: int | None
    batches: int | None
    batch_size: int | None
    batched: bool
    drop_last: bool
    num_workers: int
    start_method: str
    start_given: bool
    persistent: bool
    prefetch: int | None
    pin_memory: bool
    shuffled: bool
    sampler: str
    collate: str
    default_collate: bool
    mixes_samples: bool
    unweighted: int
    sharing: str
    epoch_hooks: tuple[Location, ...]
    holder: str | None
    bare: bool
    own_iter: bool
    in_order: bool
    double: bool
    accelerator: str | None
    made_at: Location | None = None
    collate_at: Location | None = None
    batch_sampler_at: Location | None = None
    own: bool = False

    @property
    def pins(self) -> bool:
        """Whether memory can be pinned for the accelerator."""
        return pins(self.accelerator)

    @property
    def spawns(self) -> bool:
        """Whether workers start without the main process's memory and receive the dataset by pickle."""
        return self.num_workers > 0 and self.start_method in ("spawn", "forkserver")

    @property
    def stem(self) -> str | None:
        """The loader's name without the word for its role; None without such a word."""
        return stem_of(self.name)

    def need_role(self, *roles: str, otherwise: str) -> None:
        """Raise NotApplicable unless the loader has one of the roles; `otherwise` says why that matters."""
        if self.role is None:
            key = self.name if re.fullmatch(r"[A-Za-z0-9_-]+", self.name) else json.dumps(self.name)
            raise NotTested(f'{ROLE_UNKNOWN}: set [tool.dataguard.roles] {key} = "{roles[0]}"')
        if self.role not in roles:
            raise NotApplicable(f"the role is {self.role}: {otherwise}")

    def stream_sample_count(self, samples: int) -> int:
        """How many samples of a stream are read: so many for each of its own workers, whatever process reads them."""
        return samples * max(self.num_workers, 1)


@functools.cache
def _accelerator() -> str | None:
    """The type of the accelerator of this machine, asked in a fork.

    To count devices may initialize them, and torch then refuses them in every fork of this process, such as an
    observation.
    """
    return in_fork(accelerator)


def facts_of(
    name: str, loader: Loader, roles: Mapping[str, str], factory: str, made_at: Place | None = None
) -> LoaderFacts:
    """Read one loader, made at that line; of the user's code it calls only `len` of the dataset and the loader."""
    index_sampler = unwrapped(loader.sampler if loader.batch_sampler is None else loader.batch_sampler)
    if isinstance(inner := unwrapped(getattr(index_sampler, "sampler", None)), BatchSampler):
        index_sampler = inner  # in one that repeats its batches
    order = unwrapped(getattr(index_sampler, "sampler", index_sampler))
    shuffled = is_shuffler(order) or getattr(order, "shuffle", False) is True
    stream = isinstance(loader.dataset, IterableDataset)
    own = own_loader_of(loader)
    batch_size = getattr(index_sampler, "batch_size", None) if loader.batch_size is None else loader.batch_size
    return LoaderFacts(
        name=name,
        role=roles.get(name) or spelled_role(name) or spelled_role(factory) or ("train" if shuffled else None),
        kind="stream" if stream else "map",
        dataset=type(loader.dataset).__qualname__,
        length=length_of(loader.dataset),
        batches=length_of(loader if own is None else own),
        batch_size=int(batch_size) if isinstance(batch_size, Integral) else None,
        batched=loader.batch_sampler is not None,
        drop_last=bool(loader.drop_last),
        num_workers=loader.num_workers,
        start_method=start_method(loader),
        start_given=loader.multiprocessing_context is not None,
        persistent=bool(loader.persistent_workers),
        prefetch=loader.prefetch_factor if loader.num_workers else None,
        pin_memory=bool(loader.pin_memory),
        shuffled=shuffled,
        sampler=type(order).__name__,
        collate=getattr(loader.collate_fn, "__qualname__", type(loader.collate_fn).__qualname__),
        default_collate=loader.collate_fn is default_collate,
        mixes_samples=type(index_sampler).__name__ == "BatchSampler" and is_shuffler(order) and batch_size != 1,
        unweighted=_unweighted(order, length_of(loader.dataset)),
        sharing=torch.multiprocessing.get_sharing_strategy(),
        epoch_hooks=tuple(_epoch_hooks(loader)),
        holder=wrapper_of(loader),
        bare=made_for_dataset(loader),
        own_iter=overrides_iter(loader),
        in_order=getattr(loader, "in_order", True),
        double=torch.get_default_dtype() == torch.float64,
        accelerator=_accelerator(),
        made_at=Location(*made_at) if made_at else None,
        collate_at=_collate_at(loader.collate_fn),
        batch_sampler_at=Location(*yields) if (yields := samples_at(unwrapped(loader.batch_sampler))) else None,
        own=own is not None,
    )


def _collate_at(collate: Any) -> Location | None:
    while isinstance(collate, functools.partial):
        collate = collate.func
    at = made_at(collate) if is_own(collate) else None
    return Location(*at, getattr(collate, "__qualname__", type(collate).__qualname__)) if at else None


def attribute(holder: Any, name: str) -> Any:
    """An attribute of the user's object, None if it has none, or its own `__getattr__` raises something else."""
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - see above
        return None


def overrides_iter(loader: Loader) -> bool:
    """Whether the user's class handles batches in `__iter__` itself, so that real ones must reach it."""
    return not type(loader).__iter__.__module__.startswith(("torch.", "torchdata."))


def start_method(loader: Loader) -> str:
    """How the loader's workers start: by its own setting, or the platform's default."""
    context = loader.multiprocessing_context
    method = context.get_start_method() if context is not None else multiprocessing.get_start_method()
    return method or "fork"


def _epoch_hooks(loader: Loader) -> Iterator[Location]:
    for name in ("dataset", "batch_sampler", "sampler", "collate_fn"):
        hook = attribute(getattr(loader, name), "set_epoch")
        if callable(hook):
            file, line = made_at(hook) or (None, None)
            yield Location(file, line, f"{name}.set_epoch")


def _unweighted(order: Any, length: int | None) -> int:
    """How many of the last samples have no weight; a user-defined sampler may read its weights differently."""
    if type(order) is not WeightedRandomSampler or length is None:
        return 0
    return max(0, length - len(order.weights))


def is_shuffler(order: Any) -> bool:
    """Whether a sampler of torch or torchdata shuffles; a user-defined one may keep samples apart on purpose."""
    if not type(order).__module__.startswith(("torch.", "torchdata.")):
        return False
    return type(order).__name__ in _RANDOM or getattr(order, "shuffle", False) is True


def length_of(sized: Any) -> int | None:
    """The `len` of a dataset or loader, or None if it has none."""
    try:
        return len(sized)
    except Exception:  # noqa: BLE001 - a stream may have no length, or fail to compute it; either is fine
        return None


DEEPEST_NESTING = 6
"""The deepest nesting of datasets whose columns are merged."""
_INSIDE = ("reader", "parser", "base", "inner")
"""Attributes that count as datasets whatever their type: timm keeps file names and classes in a reader."""

Part = tuple[str, Any]
"""The path of an object, and the object."""
Inner = Callable[[Any], Iterator[Part]]
"""Returns what one dataset wraps, with the step from it."""
FindColumns = Callable[[Any], Iterable[tuple[str, np.ndarray]]]
"""Finds the columns of one dataset alone: their names, and one entry per index."""
Columns = dict[str, tuple[str, np.ndarray]]
"""Columns by name, each with the path of the dataset that has it."""


def by_name(dataset: Any) -> Iterator[Part]:
    """The attributes `dataset` and `datasets`, as in torch's wrappers, of any class: not all derive from torch's.

    Other attributes are left out: a user-defined wrapper may use only a part of such a dataset.
    """
    attributes = getattr(dataset, "__dict__", {})
    listed = attributes["datasets"] if type(attributes.get("datasets")) in (list, tuple) else ()
    several = ((f".datasets[{position}]", part) for position, part in enumerate(listed))
    parts = [(".dataset", attributes.get("dataset")), *several]
    return ((step, part) for step, part in parts if hasattr(part, "__dict__"))


def by_type(dataset: Any) -> Iterator[Part]:
    """Every attribute that is a torch dataset or a list of them, whatever its name, and readers."""
    for name, value in list(getattr(dataset, "__dict__", {}).items()):
        if isinstance(value, Dataset) or name in _INSIDE:
            yield f".{name}", value
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Dataset):
            yield from ((f".{name}[{position}]", part) for position, part in enumerate(value))


def by_torch(dataset: Any) -> Iterator[Part]:
    """What `Subset` and `ConcatDataset` wrap, but not their subclasses, which may map indices in another way."""
    if type(dataset) is Subset:
        yield ".dataset", dataset.dataset
    elif type(dataset) is ConcatDataset:
        yield from ((f".datasets[{position}]", part) for position, part in enumerate(dataset.datasets))


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
    for _ in range(DEEPEST_NESTING):
        if not (hasattr(dataset, "indices") and hasattr(dataset, "dataset")):
            break
        dataset, index = dataset.dataset, dataset.indices[index]
    return dataset, index


def asked_columns(dataset: Any, find_columns: FindColumns, indices: Sequence[int], most: int) -> Columns:
    """The columns of a dataset, or of one that it wraps, for a loader that requests these indices.

    {} without integer indices inside the dataset, for more than `most` of them, and if an object refuses inspection.
    """
    length = length_of(dataset) or 0
    if not indices or not max(indices) < length <= most:
        return {}
    try:
        return columns_of(dataset, find_columns, through=True)
    except Exception:  # noqa: BLE001 - user-defined objects may raise anything when inspected
        return {}


def columns_of(
    dataset: Any, find_columns: FindColumns, path: str = "dataset", depth: int = 0, *, through: bool = False
) -> Columns:
    """The columns of a dataset, one entry per index: those of `find_columns`, and those of the datasets that it wraps.

    `Subset` selects from the columns of its dataset and `ConcatDataset` joins those that all parts have; subclasses are
    assumed to do the same. With `through`, a user-defined dataset also has the columns of any dataset of its own length
    that it holds.
    """
    if depth > DEEPEST_NESTING:
        return {}
    columns = {name: (path, column) for name, column in find_columns(dataset)}
    if isinstance(dataset, Subset):
        inner = columns_of(dataset.dataset, find_columns, f"{path}.dataset", depth + 1, through=through)
        indices = np.asarray(dataset.indices if inner else (), np.int64)
        most = indices.max(initial=-1)
        return columns | {name: (at, column[indices]) for name, (at, column) in inner.items() if most < len(column)}
    if isinstance(dataset, ConcatDataset):
        parts = [columns_of(part, find_columns, path, depth + 1, through=through) for part in dataset.datasets]
        common = [name for name in parts[0] if all(name in part for part in parts)]
        joined = {name: np.concatenate([part[name][1] for part in parts]) for name in common}
        return columns | {name: (f"{path}.datasets[*]", column) for name, column in joined.items()}
    for name, part in vars(dataset).items() if through and hasattr(dataset, "__dict__") else ():
        is_inner = isinstance(part, Dataset) or name in _INSIDE
        if is_inner and length_of(part) == length_of(dataset):
            columns = columns_of(part, find_columns, f"{path}.{name}", depth + 1, through=through) | columns
    return columns


def worker_roots(loader: Loader) -> dict[str, object]:
    """What a worker gets of a loader, by the names with which the paths of objects in it begin."""
    return {"dataset": loader.dataset, "collate_fn": loader.collate_fn, "worker_init_fn": loader.worker_init_fn}


def length_of_indexed(dataset: Any) -> int:
    """The length of a map-style dataset. Raises NotApplicable without one, or with too few samples."""
    try:
        length = len(dataset)
    except Exception as error:
        raise NotApplicable(f"len({type(dataset).__name__}) raises {type(error).__name__}") from error
    if length < 2:
        raise NotApplicable(f"the dataset has {length} sample{'s' * (length != 1)}")
    return int(length)


def need_integers(loader: Loader) -> None:
    """Raise NotApplicable for a loader whose indices are not integers."""
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    for entry in islice(iter(sampler), 1):
        index = entry[0] if isinstance(entry, list | tuple) and entry else entry
        if not isinstance(plain_index(index), int):
            raise NotApplicable(f"indices are of type {type(index).__name__}, not integers")
