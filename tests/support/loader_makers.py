"""Every way to make a DataLoader, every argument that one takes, and what a loader looks like from outside."""

from __future__ import annotations

import functools
import inspect
import itertools
import multiprocessing
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)
from torchdata.stateful_dataloader import StatefulDataLoader

from dataguard.targets.loading import Target

LENGTH = 12
UNORDERED = {"in_order": False} if "in_order" in inspect.signature(DataLoader.__init__).parameters else {}
"""The argument for batches as they are ready, which torch has from 2.6 on."""
NO_WORKERS: dict[str, Any] = {
    "prefetch_factor": None,
    "persistent_workers": False,
    "timeout": 0,
    "multiprocessing_context": None,
}
"""What torch has for these arguments where there are no workers."""


class Squares(Dataset):
    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return index**2


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(LENGTH))


class Endless:
    """An index sampler without an end, as used for training by steps."""

    def __iter__(self):
        return itertools.cycle(range(LENGTH))


class Pairs:
    """A batch sampler that is not torch's."""

    batch_size = 2

    def __init__(self, marker="own"):
        self.marker = marker

    def __iter__(self):
        return iter([[0, 1], [4, 5], [2, 3]])

    def __len__(self):
        return 3


def tuple_collate(samples):
    return tuple(samples)


def greet(worker):
    torch.manual_seed(worker)


SQUARES, STREAM = Squares(), Stream()
GENERATOR = torch.Generator().manual_seed(5)
CONTEXT = multiprocessing.get_context("spawn")


class Explicit(DataLoader):
    def __init__(self, dataset, batch_size=4, shuffle=None, **rest):
        super().__init__(dataset, batch_size, shuffle, **rest)
        self.extra = "explicit"


class Forwarding(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.extra = "forwarding"


class Popping(DataLoader):
    """Takes collate_fn out and gives its own, as PyG's loader does."""

    def __init__(self, dataset, follow=None, **kwargs):
        self.users_collate = kwargs.pop("collate_fn", None)
        super().__init__(dataset, collate_fn=self.users_collate or tuple_collate, **kwargs)


def _order(arguments):
    """The five arguments of order by position, then the rest: torch allows the first thirteen to be given so."""
    names = ("batch_size", "shuffle", "sampler", "batch_sampler", "num_workers")
    defaults = {"batch_size": 1, "num_workers": 0}
    positional = [arguments.pop(name, defaults.get(name)) for name in names]
    return positional, arguments


def plainly(arguments):
    return DataLoader(**arguments)


def by_position(arguments):
    positional, rest = _order({**arguments})
    dataset = rest.pop("dataset")
    return DataLoader(dataset, *positional, **rest)


def explicit_subclass(arguments):
    return Explicit(**{"batch_size": 1, **arguments})


def forwarding_subclass(arguments):
    return Forwarding(**arguments)


def popping_subclass(arguments):
    return Popping(**arguments)


def helper(arguments):
    class Local(DataLoader):
        pass

    make = functools.partial(Local, **arguments)
    return make()


def stateful(arguments):
    return StatefulDataLoader(**arguments, snapshot_every_n_steps=3)


MAKERS: list[Callable[[dict[str, Any]], DataLoader]] = [
    plainly,
    by_position,
    explicit_subclass,
    forwarding_subclass,
    popping_subclass,
    helper,
    stateful,
]


WAYS = pytest.mark.parametrize("make", MAKERS, ids=[maker.__name__ for maker in MAKERS])

# Each argument of DataLoader.__init__ (and what it needs beside it), with a value that is not its default.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "batch_size": {"batch_size": 3},
    "batch_size=None": {"batch_size": None},
    "shuffle": {"shuffle": True},
    "sampler": {"sampler": WeightedRandomSampler([1.0] * LENGTH, 5)},
    "sampler, unbatched": {"sampler": Endless(), "batch_size": None},
    "batch_sampler": {"batch_sampler": Pairs()},
    "torch's batch_sampler": {"batch_sampler": BatchSampler(SequentialSampler(SQUARES), 5, True)},
    "num_workers": {"num_workers": 3},
    "collate_fn": {"collate_fn": tuple_collate},
    "pin_memory": {"pin_memory": True},
    "drop_last": {"drop_last": True, "batch_size": 5},
    "timeout": {"timeout": 33.0, "num_workers": 1},
    "worker_init_fn": {"worker_init_fn": greet, "num_workers": 1},
    "multiprocessing_context": {"multiprocessing_context": CONTEXT, "num_workers": 1},
    "multiprocessing_context by name": {"multiprocessing_context": "forkserver", "num_workers": 1},
    "generator": {"generator": GENERATOR, "shuffle": True},
    "prefetch_factor": {"prefetch_factor": 7, "num_workers": 1},
    "persistent_workers": {"persistent_workers": True, "num_workers": 1},
    "pin_memory_device": {"pin_memory_device": "cuda"},
    "in_order": {**UNORDERED, "num_workers": 1},
    "everything": {
        "batch_size": 5,
        "sampler": RandomSampler(SQUARES, generator=GENERATOR),
        "num_workers": 2,
        "collate_fn": tuple_collate,
        "pin_memory": True,
        "drop_last": True,
        "timeout": 12,
        "worker_init_fn": greet,
        "multiprocessing_context": CONTEXT,
        "generator": GENERATOR,
        "prefetch_factor": 3,
        "persistent_workers": True,
        **UNORDERED,
    },
    "stream": {"dataset": STREAM, "batch_size": 4, "num_workers": 2, "drop_last": True},
    "stream, unbatched": {"dataset": STREAM, "batch_size": None, "num_workers": 1, "worker_init_fn": greet},
}


def shown(loader: DataLoader) -> dict[str, Any]:
    """Every attribute of a loader in a comparable form: by identity where it is the user's object."""
    state = {name: value for name, value in vars(loader).items() if not name.endswith("__multiprocessing_context")}
    state["multiprocessing_context"] = loader.multiprocessing_context
    return {name: comparable(value) for name, value in state.items()}


def comparable(value: Any) -> Any:
    if type(value).__name__ in ("SequentialSampler", "RandomSampler", "BatchSampler"):
        held = {name: comparable(one) for name, one in vars(value).items() if name != "data_source"}
        if type(value).__module__.startswith("torchdata"):
            held.pop("generator", None)  # torchdata makes one of its own where none is given
        return type(value), tuple(sorted(held.items(), key=lambda item: item[0]))
    if isinstance(value, multiprocessing.context.BaseContext):
        return value.get_start_method()
    simple = value is None or isinstance(value, int | float | str)
    return value if simple else type(value) if type(value).__module__.startswith("torch.utils.data") else id(value)


def target(source: Any) -> Target:
    return Target("loader", "tests:loader", source)


def full(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"dataset": SQUARES, **arguments}


class Reversed:
    """A schedule, as far as a loader can tell."""

    def __init__(self, inner, batched):
        self.inner = inner
        self.batched = batched

    def __iter__(self):
        return iter(list(itertools.islice(iter(self.inner), 3))[::-1])

    def __len__(self):
        return len(self.inner)

    def __getattr__(self, name):
        return getattr(self.inner, name)
