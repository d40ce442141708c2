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

from dataguard.core.model import Location, UsageError
from dataguard.lab.core import loader_facts
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.object_graph import reachable
from dataguard.lab.core.source_location import Place, caller
from dataguard.lab.decoding.decoders import decoding_noted
from dataguard.lab.process import answers, isolation
from dataguard.lab.process.accelerators import lost
from dataguard.lab.process.fork_safety import OpenFile, ProcessSnapshot, can_be_known
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.reading.epoch_trace import factory_arguments, gate
from dataguard.lab.reading.rank_queries import rank_queries
from dataguard.lab.rng.rng_discovery import seed_global_generators
from dataguard.process.cheap_forks import infrequent_gc
from dataguard.process.originals import os
from dataguard.process.process_tree import undisturbed_seconds
from dataguard.settings.settings import Settings
from dataguard.targets.discovery import wrapped_like
from dataguard.targets.loading import Target, load
from dataguard.targets.variants import Construction, Loader, replaced


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of building the loaders of a target once.

    `facts` are their settings, by loader name; `modules` are those that the factory imported, in order. `seconds` is
    the duration. Without a `checkpoint`, `reason` says why none can be taken; with one, what its forks lack. `alone`:
    two observations at once would disturb each other through a file. `absent` are the names of loaders that are None.
    """

    facts: Mapping[str, LoaderFacts]
    modules: tuple[str, ...]
    seconds: float
    checkpoint: Checkpoint | None = None
    reason: str | None = None
    alone: bool = False
    absent: tuple[str, ...] = ()


WITHOUT_CHECKPOINT = "DATAGUARD_WITHOUT_CHECKPOINT"
"""An environment variable with which each observation calls the factory again: `python -m tests.bench.checkpoint`
compares the verdicts."""


def survey(target: Target, settings: Settings, folder: Path, *, alone: bool) -> Survey:
    """Build a target's loaders in a separate process, and read their settings.

    If the target is `alone` and forks of that process are safe, it replaces this one: then this returns in it, with the
    checkpoint. Raises UsageError for an invalid target, and LoaderFailed when the user's code fails.
    """
    own_folder = Path(tempfile.mkdtemp(dir=folder))
    if alone and can_be_known() and WITHOUT_CHECKPOINT not in os.environ:
        surveyed = isolation.fork_and_replace(
            lambda: _built(target, settings, own_folder, stay=True),
            lambda made: made.checkpoint is not None,
            own_folder,
            timeout=settings.build_timeout(script=target.runs_once),
        )
    else:
        surveyed = isolation.isolated(
            lambda: _built(target, settings, own_folder, stay=False),
            own_folder,
            timeout=settings.timeout,
            allowed=float("inf"),
        )
    if surveyed.checkpoint is not None:
        gc.collect()
        if any(map(_has_finalizer, set(map(type, gc.get_objects())))):
            atexit.register(_collect)
        gc.freeze()  # what a collection touched here would be copied into every fork
    return surveyed


def _collect() -> None:
    """Free what only the collector can, as the interpreter does when it exits: it may remove temporary files."""
    gc.unfreeze()
    gc.collect()


FUNCTIONS = {"key": "one sample", "save": "a loader", "load": "a loader and a state"}
"""The functions of the user that the contract may name, and what they take."""


def _built(target: Target, settings: Settings, folder: Path, *, stay: bool) -> Survey:
    FlightRecorder(folder).mark(None, target.stage)
    imported, before = set(sys.modules), ProcessSnapshot() if can_be_known() else None
    started = undisturbed_seconds()
    with infrequent_gc():
        for name, takes in FUNCTIONS.items():
            spelling = settings.contract.get(name)
            if spelling and not callable(load(spelling).source):
                raise UsageError(f"contract.{name}: {spelling} is not callable; it must be a function of {takes}")
        for spelling in settings.functions:
            load(spelling)  # so that a wrong name is a wrong setting, and observations find it imported
        seed_global_generators(settings.seed)
        with gate(target.stage), decoding_noted() as decoders, rank_queries() as asked, construction_lines() as lines:
            loaders, construction = target.construct(factory_arguments(settings), **requested(settings))
    seconds = undisturbed_seconds() - started
    facts = {
        name: loader_facts.facts_of(name, loader, settings.roles, target.name, lines.get(id(loader)))
        for name, loader in loaders.items()
    }
    modules = tuple(module for module in sys.modules if module not in imported)
    absent = tuple(construction.absent)
    if before is None or (change := answers.changed_surroundings()):
        return Survey(facts, modules, seconds, reason=f"it changes {change}" if before else None, absent=absent)
    exclusive = before.shares_files(folder.parent)
    reason = before.unsafe(folder) if stay else None
    if not stay or (reason is not None and not target.runs_once):
        return Survey(facts, modules, seconds, reason=reason, alone=exclusive, absent=absent)
    files, asked_at = before.files(folder.parent), next(iter(asked), None)
    decodes = bool(decoders)
    checkpoint = Checkpoint(loaders, construction, files, decodes=decodes, asked_for_rank=asked_at, seconds=seconds)
    return Survey(facts, modules, seconds, checkpoint, reason, exclusive, absent)


class Checkpoint:
    """The loaders of a target by name, as its factory left them.

    `decodes`: it decoded images. `asked_for_rank` is where it read its rank first, if it did. It took `seconds`.
    """

    def __init__(
        self,
        loaders: Mapping[str, Loader],
        construction: Construction,
        files: tuple[OpenFile, ...],
        *,
        decodes: bool = False,
        asked_for_rank: Location | None = None,
        seconds: float = 0.0,
    ) -> None:
        self.decodes = decodes
        self.seconds = seconds
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
    return _has_finalizer(type(value)) or None


def _has_finalizer(kind: type) -> bool:
    """Whether a class of the user's or of a library has a `__del__` in Python; ours are closed in any case."""
    ours = str(kind.__module__).startswith("dataguard.")
    return isinstance(getattr(kind, "__del__", None), FunctionType) and not ours


def requested(settings: Settings) -> Mapping[str, Any]:
    """The overrides of `DataLoader.__init__` that the settings request."""
    wanted: dict[str, Any] = {}
    if settings.workers is not None:
        wanted["num_workers"] = settings.workers
    if settings.start_method is not None:
        wanted["multiprocessing_context"] = settings.start_method
    if lost():
        wanted["pin_memory"] = False
    return wanted


@contextmanager
def construction_lines() -> Iterator[dict[int, Place]]:
    """While it lasts, the user's line that constructs each loader, by the `id` of the loader."""
    lines: dict[int, Place] = {}
    with replaced("__init__", lambda original: _noting(original, lines)):
        yield lines


def _noting(original: Callable[..., None], lines: dict[int, Place]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(self: Loader, *args: Any, **kwargs: Any) -> None:
        if at := caller():
            lines[id(self)] = at
        original(self, *args, **kwargs)

    return init
