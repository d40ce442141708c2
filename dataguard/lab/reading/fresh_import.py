"""The user's modules, imported again in a disposable process, to observe what they do at import."""

from __future__ import annotations

import contextlib
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import torch

from dataguard.core.incident import LoaderFailed, is_library
from dataguard.lab.core.leaves import describe
from dataguard.lab.core.records import Index, LeafRecord
from dataguard.lab.core.source_location import Place
from dataguard.lab.process.fork_safety import own_files
from dataguard.lab.process.isolation import in_fork
from dataguard.lab.process.write_protection import forbid_writes
from dataguard.lab.reading.epoch_trace import factory_arguments, gate, gated_build
from dataguard.lab.reading.sample_reader import Answer, Reader
from dataguard.lab.rng.rng_discovery import SEED, seed_global_generators
from dataguard.settings.settings import Settings
from dataguard.targets.loading import Target, load
from dataguard.targets.variants import Loader

FEWEST_SAMPLES = 2
"""How many samples are read to see whether one needs an order."""

Places = dict[Place | None, bool]
"""Lines of the user's code, in order of occurrence, and whether what they reach is only in an installed package.

None is a library without a caller in the user's code.
"""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What indices mean in a dataset built under certain orders, and where folders are `listed` and sets `iterated`.

    `numbered`: the leaves that are the index itself, which stay where they are whatever sample is there. `files`: what
    each sample is read from, in order. `listings`: how often folders are listed at each of the places. `loads`: the
    factory reads a table or another file, or a module at import.
    """

    answers: tuple[Answer, ...]
    listed: tuple[Place | None, ...]
    iterated: tuple[Place | None, ...]
    numbered: frozenset[str] = frozenset()
    files: tuple[tuple[str, ...], ...] = ()
    listings: tuple[int, ...] = ()
    loads: bool = True


class FileLog(Protocol):
    """Records what is read: a `ReadLog`, which stands in a layer above."""

    reads: list[Any]

    def recorded(self) -> contextlib.AbstractContextManager[None]:
        """Record from the beginning what is read meanwhile."""

    def files(self) -> contextlib.AbstractContextManager[list[str]]:
        """Collect the files that are read meanwhile."""


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders of folders and sets under which a factory is called, which record the `places` and `calls` of both.

    In a `reversed` order no file is written: an index or class list that the factory saves would stay reversed.
    """

    orders: Sequence[contextlib.AbstractContextManager[None]]
    places: tuple[Places, Places]
    calls: Mapping[Place | None, int]
    reversed: bool


def read_rebuilt(
    build: Callable[[], Mapping[str, Loader]],
    folder: Path,
    asked: Mapping[str, Sequence[Index]],
    under: Orders,
    log: FileLog,
) -> dict[str, Rebuilt | LoaderFailed | None]:
    """Build the loaders of a target, and read some samples of each in a fork; None for one that died there.

    A single one is read in this process. Raises LoaderFailed if the factory fails.
    """
    with contextlib.ExitStack() as stack:
        for order in under.orders:
            stack.enter_context(order)
        if under.reversed:
            forbid_writes()
        with log.recorded():
            loaders = build()
        loads = bool(log.reads)
        reads = {
            name: partial(_read_one, loaders[name], folder, indices, under, log, loads)
            for name, indices in asked.items()
        }
        alone = len(reads) == 1
        return {name: read() if alone else in_fork(partial(_or_failure, read)) for name, read in reads.items()}


def _or_failure(read: Callable[[], Rebuilt]) -> Rebuilt | LoaderFailed:
    try:
        return read()
    except LoaderFailed as failure:
        return failure


def _read_one(
    loader: Loader, folder: Path, indices: Sequence[Index], under: Orders, log: FileLog, loads: bool
) -> Rebuilt:
    """Read samples of a loader; few if none of them needs an order: nothing depends on it then."""
    files: list[tuple[str, ...]] = []

    def answered(index: Index) -> Answer:
        with log.files() as found:
            answer = reader.ask(index)
        files.append(tuple(found))
        return answer

    reader, places = Reader(loader, folder), under.places
    answers = [answered(index) for index in indices[:FEWEST_SAMPLES]]
    answers += [answered(index) for index in (indices[FEWEST_SAMPLES:] if any(places) else ())]
    listed, iterated = sorted(places[0], key=places[0].__getitem__), tuple(places[1])
    counts = tuple(under.calls[place] for place in listed)
    return Rebuilt(tuple(answers), tuple(listed), iterated, _numbered(answers), tuple(files), counts, loads)


def _numbered(answers: Sequence[Answer]) -> frozenset[str]:
    """The paths of leaves that hold the index of their sample, in every answer."""
    paths = [
        {leaf.path for leaf in answer.leaves if _holds(leaf, answer.index)} for answer in answers if not answer.incident
    ]
    return frozenset.intersection(*map(frozenset, paths)) if len(paths) >= FEWEST_SAMPLES else frozenset()


def _holds(leaf: LeafRecord, index: Index) -> bool:
    if leaf.size != 1 or "int" not in leaf.type_name or not isinstance(index, int):
        return False
    number = index if leaf.dtype is None else np.full(leaf.shape or (), index).astype(leaf.dtype)
    return leaf.digest == describe(leaf.path, number).digest


def own_sources() -> dict[str, str]:
    """The source files of the user's modules, by name."""
    return {name: file for name, file in own_files().items() if is_own_source(name, file)}


def own_modules() -> dict[str, ModuleType]:
    """The user's modules, and the namespace packages that hold them."""
    sources = set(own_sources())
    around = {parent for name in sources for parent in _parents(name) if _is_namespace(parent)}
    return {name: sys.modules[name] for name in sources | around}


def _parents(name: str) -> Iterator[str]:
    return itertools.accumulate(name.split(".")[:-1], "{}.{}".format)


def _is_namespace(name: str) -> bool:
    """Whether this is a package without a file; it holds on to modules that were imported from it."""
    return name in sys.modules and sys.modules[name].__dict__.get("__file__") is None


def is_own_source(name: str, file: str) -> bool:
    """Whether a module of this name in this file is the user's and in Python."""
    return file.endswith(".py") and name.partition(".")[0] not in ("dataguard", "__main__") and not is_library(file)


def become_new_process(spelling: str, run: int, folder: Path) -> None:
    """Forget what was set in the user's modules since they were imported, and torch's default dtype.

    Each run has other addresses and random numbers.
    """
    # A module may make a folder for this process, which nobody would remove.
    make = partial(_made_inside, tempfile.mkdtemp, folder)
    setattr(tempfile, "mkdtemp", make)  # noqa: B010 - mypy forbids the plain form
    torch.set_default_dtype(torch.float32)
    seed_global_generators(SEED + run)
    reimported(spelling)
    _occupied.extend(bytearray(size) for size in range(500 * run))


_occupied: list[bytearray] = []
"""What moves later objects of another run to other addresses."""


def _made_inside(
    make: Callable[..., str], folder: Path, suffix: Any = None, prefix: Any = None, dir: Any = None
) -> str:
    return make(suffix, prefix, folder if dir is None else dir)


def rebuild(target: Target, name: str, settings: Settings, wanted: Mapping[str, object], offset: int = 0) -> Loader:
    """Build a loader from newly imported modules; from the existing ones if they cannot be imported twice.

    The global generators are seeded before, as by a script that seeds first and imports then; `offset` is added to
    their seed.
    """
    seed_global_generators(settings.seed + offset)
    return gated_build(newly_imported(target), name, settings, wanted, offset=offset)


def rebuild_all(
    target: Target, settings: Settings, wanted: Mapping[str, object], *, imports: bool
) -> dict[str, Loader]:
    """All loaders of a target by name, as one more call of the factory makes them, perhaps with new `imports`."""
    seed_global_generators(settings.seed)
    fresh = newly_imported(target) if imports else target
    with gate(target.stage):
        return fresh.build_all(factory_arguments(settings), **wanted)


def newly_imported(target: Target) -> Target:
    """The same branch of a target, from newly imported modules; from the existing ones where those refuse it."""
    fresh = reimported(target.spelling)
    branches = {branch.name: branch for branch in fresh.branches()} if fresh else {}
    return branches.get(target.name, target)


def reimported(spelling: str) -> Target | None:
    """The target from newly imported modules; None, with the existing ones, if they cannot be imported twice."""
    replaced = own_modules()
    _replaced.append(replaced)
    for module in replaced:
        del sys.modules[module]
    try:
        return load(spelling)
    except Exception:  # noqa: BLE001 - a module may register itself somewhere, and refuse to do so twice
        sys.modules.update(replaced)
        return None


_replaced: list[Mapping[str, ModuleType]] = []
"""Modules that were imported before, kept alive: a temporary folder of one would be removed with it."""
