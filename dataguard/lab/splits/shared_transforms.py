"""Transforms of a dataset object that two splits read: each has the one that was assigned last, for either."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, Dataset

from dataguard.lab.core.loader_facts import by_type, wrapped_by
from dataguard.lab.core.records import Index
from dataguard.lab.core.source_location import Place, caller, standing_in
from dataguard.lab.reading.sample_reader import DRAWS, Reader
from dataguard.lab.rng.frozen_rng import RngFreezer
from dataguard.lab.rng.rng_discovery import SEED
from dataguard.targets.variants import Loader

STEADY_SAMPLES = 3
"""How many samples are read in every random state: one may stay the same by chance in all of them."""
STEADY_READS = (1 + STEADY_SAMPLES * DRAWS) * 2
"""Reads of two loaders, each after one that only warms up."""


@dataclass(frozen=True, slots=True)
class SharedTransform:
    """A callable attribute of a dataset object that two splits read: its path in the loader of one, and its class."""

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class ReplacedTransform:
    """A random transform that another one replaced in a wrapped dataset: its path, both classes, and a line."""

    path: str
    name: str
    replacement: str
    at: Place | None


def find_shared(loaders: tuple[Loader, Loader]) -> tuple[SharedTransform, ...]:
    """The transforms of every dataset object that two loaders have in common."""
    one, two = (loader.dataset for loader in loaders)
    shared = {id(part) for _, part in wrapped_by(two, by_type)}
    parts = [(path, part) for path, part in wrapped_by(one, by_type) if id(part) in shared]
    return tuple(
        SharedTransform(f"{path}.{name}", _named(value)) for path, part in parts for name, value in _transforms(part)
    )


def find_steady(loader: Loader, folder: Path, path: str, indices: Sequence[Index]) -> frozenset[str]:
    """The leaves that are the same in every random state, as long as the transform at this path has only one state."""
    part, name = _holder(loader.dataset, path)
    inner = vars(part)[name]
    freezer = RngFreezer([[SEED]])

    def frozen(*args: Any, **kwargs: Any) -> Any:
        with freezer.frozen(0, 0, {"transform": inner}):
            return inner(*args, **kwargs)

    vars(part)[name] = standing_in(inner, frozen)
    return _steady(loader, folder, indices)[0]


def find_replaced(
    rebuild: Callable[[], Loader], folder: Path, paths: Sequence[str], indices: Sequence[Index]
) -> ReplacedTransform | None:
    """Call the factory again, and find a random transform that the one at any of these paths replaced.

    Only one that was replaced after another dataset had wrapped this one counts: before, it is no split's own. With it
    put back, samples are random; without, they are not.
    """
    log = _AssignmentLog()
    with log.recording():
        loader = rebuild()
    for path in paths:
        part, name = _holder(loader.dataset, path)
        replaced, last = log.last_two(part, name)
        if replaced is None or last is None or not last.is_wrapped or replaced.value is last.value:
            continue
        now, _ = _steady(loader, folder, indices)
        vars(part)[name] = replaced.value
        before, leaves = _steady(loader, folder, indices)
        vars(part)[name] = last.value
        if now >= leaves > before:
            return ReplacedTransform(path, _named(replaced.value), _named(last.value), last.at)
    return None


def _steady(loader: Loader, folder: Path, indices: Sequence[Index]) -> tuple[frozenset[str], frozenset[str]]:
    """The leaves that are the same in every random state, and all leaves; none if a sample cannot be read."""
    reader = Reader(loader, folder)
    reader.ask(indices[0])  # triggers lazy initialization
    answers = [[reader.ask(index, draw).digests for draw in range(DRAWS)] for index in indices]
    leaves = frozenset.intersection(*(frozenset(one) for answer in answers for one in answer))
    steady = (path for path in leaves if all(len({one[path] for one in answer}) == 1 for answer in answers))
    return frozenset(steady), leaves


def _transforms(part: Any) -> Iterator[tuple[str, Any]]:
    """The callable attributes of a dataset that are no datasets or loaders themselves."""
    for name, value in list(getattr(part, "__dict__", {}).items()):
        if callable(value) and not issubclass(type(value), type | Dataset | DataLoader):
            yield name, value


def _holder(dataset: Any, path: str) -> tuple[Any, str]:
    """The dataset with the transform at a path, and the name of the attribute."""
    holder, _, name = path.rpartition(".")
    return next(part for step, part in wrapped_by(dataset, by_type) if step == holder), name


def _named(transform: Any) -> str:
    return getattr(transform, "__qualname__", type(transform).__qualname__)


@dataclass(frozen=True, slots=True)
class _Assignment:
    """The value of an attribute of a dataset, whether another dataset already held that one, and the user's line."""

    value: Any
    is_wrapped: bool
    at: Place | None


class _AssignmentLog:
    """Records what is assigned to the attributes of datasets; it keeps all of that alive, so that ids stay unique."""

    def __init__(self) -> None:
        self._assignments: defaultdict[tuple[int, str], list[_Assignment]] = defaultdict(list)
        self._held: dict[int, Any] = {}
        self._parts: dict[int, Any] = {}

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record assignments to datasets of any class."""
        kind: Any = Dataset
        original = kind.__setattr__

        def __setattr__(part: Any, name: str, value: Any) -> None:
            original(part, name, value)
            self._note(part, name, value)

        kind.__setattr__ = __setattr__
        try:
            yield
        finally:
            del kind.__setattr__

    def last_two(self, part: Any, name: str) -> tuple[_Assignment | None, _Assignment | None]:
        """The last two callables that were assigned to an attribute, or None for each that there is not."""
        known = self._assignments[id(part), name]
        return (known[-2] if len(known) > 1 else None), (known[-1] if known else None)

    def _note(self, part: Any, name: str, value: Any) -> None:
        self._parts[id(part)] = part
        values = value if type(value) in (list, tuple) else (value,)
        self._held.update({id(one): one for one in values[:16] if issubclass(type(one), Dataset)})
        if callable(value):
            self._assignments[id(part), name].append(_Assignment(value, id(part) in self._held, caller()))
