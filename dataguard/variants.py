"""Variants of a loader: the same one with other constructor arguments.

`overridden` changes `DataLoader.__init__` while the user's factory runs, so that subclasses and helper functions stay
themselves. `copied` edits a shallow copy, for loaders that were not constructed just now.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

Loader = DataLoader[Any]

_NEEDS_WORKERS = {"prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout"}
_COPY_EDITS = (
    "num_workers",
    "multiprocessing_context",
    "persistent_workers",
    "prefetch_factor",
    "in_order",
    "timeout",
    "pin_memory",
    "worker_init_fn",
    "generator",
    "collate_fn",
    "sampler",
    "batch_sampler",
)


@contextmanager
def overridden(overrides: Mapping[str, Any]) -> Iterator[list[Loader]]:
    """Apply the overrides to every `DataLoader.__init__` that runs inside; yields the loaders it constructed."""
    original = DataLoader.__init__
    signature = inspect.signature(original)
    seen: list[Loader] = []

    @functools.wraps(original)
    def init(self: Loader, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            original(self, *args, **kwargs)  # raises the error the user would have seen
            raise
        arguments = _edited({**bound.arguments}, overrides, set(signature.parameters))
        original(**arguments)
        _reschedule(self, overrides)
        seen.append(self)

    DataLoader.__init__ = init  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        DataLoader.__init__ = original  # type: ignore[method-assign]


def _edited(arguments: dict[str, Any], overrides: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """The constructor arguments with the overrides in, and without what would contradict them."""
    wanted = {name: value for name, value in overrides.items() if name in known}
    if "batch_sampler" in wanted:
        for name in ("batch_size", "shuffle", "sampler", "drop_last"):
            arguments.pop(name, None)
    elif wanted.keys() & {"sampler", "batch_size", "shuffle", "drop_last"}:
        replaced = arguments.pop("batch_sampler", None)
        if replaced is not None:
            kept = {name: getattr(replaced, name, None) for name in ("sampler", "batch_size", "drop_last")}
            arguments.update({name: value for name, value in kept.items() if value is not None})
    if "sampler" in wanted:
        arguments.pop("shuffle", None)
    if "shuffle" in wanted:
        arguments.pop("sampler", None)
    arguments.update(wanted)
    if arguments.get("num_workers", 0) == 0:
        arguments = {name: value for name, value in arguments.items() if name not in _NEEDS_WORKERS}
    return arguments


def _reschedule(loader: Loader, overrides: Mapping[str, Any]) -> None:
    """Replace the index sampler in place; `DataLoader.__setattr__` forbids it, its `__dict__` does not."""
    if "schedule" in overrides and not isinstance(loader.dataset, IterableDataset):
        slot = "sampler" if loader.batch_sampler is None else "batch_sampler"
        vars(loader)[slot] = overrides["schedule"](vars(loader)[slot], slot == "batch_sampler")


def copied(loader: Loader, overrides: Mapping[str, Any]) -> Loader:
    """A shallow copy with the overrides in, for a loader that the factory did not construct just now.

    It was made at import time and is shared, or its class (torchdata's StatefulDataLoader) never calls
    `DataLoader.__init__`.
    """
    variant = copy.copy(loader)
    state = vars(variant)
    current = {"num_workers": loader.num_workers}
    edited = _edited(current | {"multiprocessing_context": None}, overrides, set(_COPY_EDITS))
    if edited["num_workers"] == 0:
        edited |= {"prefetch_factor": None, "persistent_workers": False, "timeout": 0, "multiprocessing_context": None}
    elif loader.num_workers == 0:
        edited = {"prefetch_factor": 2} | edited
    context = edited.pop("multiprocessing_context", None)
    state.update(edited)
    state["_iterator"] = None
    if context is not None or edited["num_workers"] == 0:
        variant.multiprocessing_context = context
    _reschedule(variant, overrides)
    return variant
