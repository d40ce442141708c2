"""The checkpoint: a process in which the factory has run, and from which observations are forked.

So a dataset that takes a minute to build costs a minute once, and its factory writes or downloads only once. It can be
taken if forks are safe; see `fork_safety`. It is part of the first look at a target, which finds its loaders by name,
their settings, the lines where the user's code constructs them, and where that code, or a library's stream, reads its
rank from torch.distributed or the environment: no fork could see another one.
"""

from __future__ import annotations

import atexit
import functools
import gc
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import IterableDataset

from dataguard.core.incident import is_library
from dataguard.core.model import Location, UsageError
from dataguard.lab.core import loader_facts
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.object_graph import reachable
from dataguard.lab.core.source_location import Place, caller, rebind, replaced
from dataguard.lab.decoding.decoders import decoding_noted
from dataguard.lab.process import answers, isolation
from dataguard.lab.process.fork_safety import OpenFile, ProcessSnapshot, can_be_known
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.rng.rng_discovery import seed_global_generators
from dataguard.process.cheap_forks import infrequent_gc
from dataguard.process.originals import os, time
from dataguard.settings.settings import Settings
from dataguard.targets.discovery import wrapped_like
from dataguard.targets.loading import Target, load
from dataguard.targets.variants import Construction, Loader, constructors

VARIABLES = frozenset(
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "SLURM_PROCID", "SLURM_NTASKS"}
)
_FUNCTIONS = ("get_rank", "get_world_size", "is_initialized")
_DEFINING = ("torch.distributed", "torch.distributed.distributed_c10d")
_DEEP = 40
"""Most frames to search for the user's code above a rank query, past those of the standard library."""


@contextmanager
def rank_queries() -> Iterator[list[Location]]:
    """The places of such reads inside the context, in order."""
    asked: list[Location] = []

    def note(what: str) -> None:
        place = _place()
        if place:
            asked.append(Location(*place, what))

    with _watched_environment(note), _watched_functions(note):
        yield asked


@contextmanager
def _watched_environment(note: Callable[[str], None]) -> Iterator[None]:
    kind: Any = type(os.environ)
    original = kind.__getitem__

    def getitem(environment: Any, key: Any) -> Any:
        if key in VARIABLES:
            note(f"os.environ[{key!r}]")
        return original(environment, key)

    with replaced(kind, "__getitem__", getitem):  # get(), getenv() and `in` end here too
        yield


@contextmanager
def _watched_functions(note: Callable[[str], None]) -> Iterator[None]:
    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def asking(*args: Any, **kwargs: Any) -> Any:
            note(f"torch.distributed.{original.__name__}()")
            return original(*args, **kwargs)

        return asking

    pairs = [(original, watched(original)) for original in (getattr(dist, name) for name in _FUNCTIONS)]
    rebind({id(original): (original, other) for original, other in pairs}, _DEFINING)
    try:
        yield
    finally:
        rebind({id(other): (other, original) for original, other in pairs}, _DEFINING)


def _place() -> tuple[str, int] | None:
    """The line that read the rank, directly or through `os`: of the user's code, or of a library's stream being read.

    Reads by torch itself do not count, nor those of other libraries, which log it.
    """
    asked: tuple[str, int] | None = None
    frame: Any = sys._getframe(2)
    for _ in range(_DEEP):
        if frame is None:
            return None
        file, package = frame.f_code.co_filename, frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in _BETWEEN:
            if not is_library(file):
                return None if asked else (file, frame.f_lineno)
            if package == "torch" and not asked:
                return None
            asked = asked or (file, frame.f_lineno)
            if isinstance(frame.f_locals.get("self"), IterableDataset):
                return asked
        frame = frame.f_back
    return None


_BETWEEN = frozenset({"os", "_collections_abc", "collections", "dataguard"})


@contextmanager
def construction_lines() -> Iterator[dict[int, Place]]:
    """While it lasts, the user's line that constructs each loader, by the `id` of the loader."""
    lines: dict[int, Place] = {}
    originals = {kind: kind.__init__ for kind in constructors()}
    for kind, original in originals.items():
        setattr(kind, "__init__", _noting(original, lines))  # noqa: B010 - mypy forbids the plain form
    try:
        yield lines
    finally:
        for kind, original in originals.items():
            setattr(kind, "__init__", original)  # noqa: B010 - as above


def _noting(original: Callable[..., None], lines: dict[int, Place]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(self: Loader, *args: Any, **kwargs: Any) -> None:
        if at := caller():
            lines[id(self)] = at
        original(self, *args, **kwargs)

    return init


class Checkpoint:
    """The loaders of a target by name, as its factory left them.

    `decodes`: it decoded images. `asked_for_rank` is where it read its rank first, if it did.
    """

    def __init__(
        self,
        loaders: Mapping[str, Loader],
        construction: Construction,
        files: tuple[OpenFile, ...],
        *,
        decodes: bool = False,
        asked_for_rank: Location | None = None,
    ) -> None:
        self.decodes = decodes
        self.asked_for_rank = asked_for_rank
        self._loaders = loaders
        self._construction = construction
        self._files = files
        for file in files:
            file.unlock()
        self._used = False

    def variant(self, name: str, overrides: Mapping[str, Any], *, reuse: bool = False) -> Loader | None:
        """A loader with these arguments of `DataLoader.__init__`; to be called in a fork.

        None if this process has made one before, unless `reuse` allows it: reading may have changed the dataset that
        both would share.
        """
        if self._used and not reuse:
            return None
        if not self._used:
            for file in self._files:
                file.reopen()
        self._used = True
        loader = self._loaders[name]
        variant: Loader = wrapped_like(loader, self._construction.again(loader, overrides))
        return variant

    def let_go(self) -> bool:
        """Free the datasets in this fork, as far as nothing else holds them; whether it did.

        What may be open only once in a process is open in each fork, such as an environment of LMDB. Not with a
        `__del__` in Python, which may remove the files that other forks need.
        """
        if not self._loaders or next(iter(reachable(self._loaders, _is_finalized)), None) is not None:
            return False
        self._loaders, self._construction = {}, Construction({})
        gc.unfreeze()
        gc.collect()
        return True


def _is_finalized(value: Any) -> bool | None:
    return isinstance(getattr(type(value), "__del__", None), FunctionType) or None


WITHOUT_CHECKPOINT = "DATAGUARD_WITHOUT_CHECKPOINT"
"""An environment variable with which each observation calls the factory again: `python -m tests.bench.checkpoint`
compares the verdicts."""


def requested(settings: Settings) -> Mapping[str, Any]:
    """The overrides of `DataLoader.__init__` that the settings request."""
    wanted: dict[str, Any] = {}
    if settings.workers is not None:
        wanted["num_workers"] = settings.workers
    if settings.start_method is not None:
        wanted["multiprocessing_context"] = settings.start_method
    if lacks_cuda():
        wanted["pin_memory"] = False
    return wanted


def lacks_cuda() -> bool:
    """Whether this is a fork of a process that uses CUDA, which no fork of it can: a loader in hand, or a script."""
    return torch.cuda._is_in_bad_fork() and torch.cuda.is_available()


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of building the loaders of a target once.

    `facts` are their settings, by loader name; `modules` are those that the factory imported, in order. `seconds` is
    the duration. Without a `checkpoint`, `reason` says why none can be taken; with one, what its forks lack. `alone`:
    two observations at once would disturb each other through a file.
    """

    facts: Mapping[str, LoaderFacts]
    modules: tuple[str, ...]
    seconds: float
    checkpoint: Checkpoint | None = None
    reason: str | None = None
    alone: bool = False


def survey(target: Target, settings: Settings, folder: Path, *, alone: bool) -> Survey:
    """Build a target's loaders in a separate process, and read their settings.

    If the target is `alone` and forks of that process are safe, it replaces this one: then this returns in it, with the
    checkpoint. Raises UsageError for an invalid target, and LoaderFailed when the user's code fails.
    """
    own = Path(tempfile.mkdtemp(dir=folder))
    if alone and can_be_known() and WITHOUT_CHECKPOINT not in os.environ:
        found = isolation.fork_and_replace(
            lambda: _built(target, settings, own, stay=True),
            lambda made: made.checkpoint is not None,
            own,
            timeout=settings.build_timeout(script=target.runs_once),
        )
    else:
        found = isolation.isolated(
            lambda: _built(target, settings, own, stay=False), own, timeout=settings.timeout, allowed=float("inf")
        )
    if found.checkpoint is not None:
        gc.collect()
        if any(isinstance(getattr(kind, "__del__", None), FunctionType) for kind in set(map(type, gc.get_objects()))):
            atexit.register(_collect)
        gc.freeze()  # what a collection touched here would be copied into every fork
    return found


def _collect() -> None:
    """Free what only the collector can, as the interpreter does when it exits: it may remove temporary files."""
    gc.unfreeze()
    gc.collect()


def _built(target: Target, settings: Settings, folder: Path, *, stay: bool) -> Survey:
    FlightRecorder(folder).mark(None, target.stage)
    imported, before = set(sys.modules), ProcessSnapshot() if can_be_known() else None
    started = time.monotonic()
    with infrequent_gc():
        if settings.key and not callable(load(settings.key).source):
            raise UsageError(f"contract.key: {settings.key} is not callable; it must be a function of one sample")
        for spelling in settings.functions:
            load(spelling)  # so that a wrong name is a wrong setting, and observations find it imported
        seed_global_generators(settings.seed)
        with gate(target.stage), decoding_noted() as decoders, rank_queries() as asked, construction_lines() as lines:
            loaders, construction = target.construct({"seed": settings.seed}, **requested(settings))
    seconds = time.monotonic() - started
    facts = {
        name: loader_facts.facts_of(name, loader, settings.roles, target.name, lines.get(id(loader)))
        for name, loader in loaders.items()
    }
    modules = tuple(module for module in sys.modules if module not in imported)
    if before is None or (change := answers.changed_surroundings()):
        return Survey(facts, modules, seconds, reason=f"it changes {change}" if before else None)
    alone = before.shares_files(folder.parent)
    reason = before.unsafe(folder) if stay else None
    if not stay or (reason is not None and not target.runs_once):
        return Survey(facts, modules, seconds, reason=reason, alone=alone)
    files, asked_at = before.files(folder.parent), next(iter(asked), None)
    checkpoint = Checkpoint(loaders, construction, files, decodes=bool(decoders), asked_for_rank=asked_at)
    return Survey(facts, modules, seconds, checkpoint, reason, alone)
