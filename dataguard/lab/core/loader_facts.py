"""What is known about a loader without iterating it."""

from __future__ import annotations

import functools
import json
import multiprocessing
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from torch.utils.data import IterableDataset, WeightedRandomSampler
from torch.utils.data.dataloader import default_collate

from dataguard.lab.core.source_location import Place, is_own
from dataguard.lab.core.source_location import made_at as place_of
from dataguard.model import Location, NotApplicable, NotTested
from dataguard.settings.role_names import ROLE_UNKNOWN, spelled_role, stem_of
from dataguard.targets.discovery import wrapper_of
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
    class of the object that the user iterates instead, if any; `bare`: the user passed only a dataset; `own_iter`: the
    loader's class overrides `__iter__`; `double`: float64 is torch's default dtype; `made_at` is the user's line that
    constructs the loader, and `collate_at` where collate_fn is defined, if it is the user's.
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
    cuda: bool
    made_at: Location | None = None
    collate_at: Location | None = None

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


def facts_of(
    name: str, loader: Loader, roles: Mapping[str, str], factory: str, made_at: Place | None = None
) -> LoaderFacts:
    """Read one loader, made at that line; of the user's code it calls only `len` of the dataset and the loader."""
    index_sampler = unwrapped(loader.sampler if loader.batch_sampler is None else loader.batch_sampler)
    order = unwrapped(getattr(index_sampler, "sampler", index_sampler))
    shuffled = is_shuffler(order) or getattr(order, "shuffle", False) is True
    stream = isinstance(loader.dataset, IterableDataset)
    batch_size = getattr(index_sampler, "batch_size", None) if loader.batch_size is None else loader.batch_size
    return LoaderFacts(
        name=name,
        role=roles.get(name) or spelled_role(name) or spelled_role(factory) or ("train" if shuffled else None),
        kind="stream" if stream else "map",
        dataset=type(loader.dataset).__qualname__,
        length=length_of(loader.dataset),
        batches=length_of(loader),
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
        cuda=torch.cuda.is_available(),
        made_at=Location(*made_at) if made_at else None,
        collate_at=_collate_at(loader.collate_fn),
    )


def _collate_at(collate: Any) -> Location | None:
    while isinstance(collate, functools.partial):
        collate = collate.func
    at = place_of(collate) if is_own(collate) else None
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
    for name in ("dataset", "batch_sampler", "sampler"):
        hook = attribute(getattr(loader, name), "set_epoch")
        if callable(hook):
            file, line = place_of(hook) or (None, None)
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
