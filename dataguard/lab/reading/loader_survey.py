"""The first look at a target: its loaders by name, the settings of each, and the checkpoint, if one can be taken."""

from __future__ import annotations

import atexit
import gc
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from dataguard.lab.core import loader_facts
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.decoding.decoders import decoding_noted
from dataguard.lab.process import isolation, surroundings
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.process.fork_safety import ProcessSnapshot, can_be_known
from dataguard.lab.reading.checkpoint import Checkpoint
from dataguard.lab.reading.construction_lines import construction_lines
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.rank_queries import rank_queries
from dataguard.lab.rng.global_rng import seed_global_generators
from dataguard.model import UsageError
from dataguard.process.gc_pause import infrequent_gc
from dataguard.process.originals import os, time
from dataguard.settings.settings import Settings
from dataguard.targets.loading import Target, load

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
    if before is None or (change := surroundings.changed()):
        return Survey(facts, modules, seconds, reason=f"it changes {change}" if before else None)
    alone = before.shares_files(folder.parent)
    reason = before.unsafe(folder) if stay else None
    if not stay or (reason is not None and not target.runs_once):
        return Survey(facts, modules, seconds, reason=reason, alone=alone)
    files, asked_at = before.files(folder.parent), next(iter(asked), None)
    checkpoint = Checkpoint(loaders, construction, files, decodes=bool(decoders), asked_for_rank=asked_at)
    return Survey(facts, modules, seconds, checkpoint, reason, alone)
