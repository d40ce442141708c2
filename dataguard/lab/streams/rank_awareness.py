"""Whether the user's code, or a library's stream, reads its rank from torch.distributed or the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.utils.data import IterableDataset

from dataguard.incident import is_library
from dataguard.lab.core.index import members
from dataguard.lab.core.index_schedules import Schedule, drawn
from dataguard.lab.core.stand_ins import rebind
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.recording import Records
from dataguard.lab.subject import Subject
from dataguard.model import Location, NotApplicable
from dataguard.target.variants import Loader

VARIABLES = frozenset(
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "SLURM_PROCID", "SLURM_NTASKS"}
)
_FUNCTIONS = ("get_rank", "get_world_size", "is_initialized")
_DEFINING = ("torch.distributed", "torch.distributed.distributed_c10d")
_SAMPLES = 4
"""Samples of a map-style dataset that are read."""
_DEEP = 40
"""Most frames to search for the user's code above a rank query, past those of the standard library."""


DEFAULT, MOST = 2, 4
"""How many ranks to run by default for a rank-aware loader, and at most."""


def world(subject: Subject) -> int:
    """How many ranks to run: the number in the settings, or two if the loader is rank-aware.

    Raises NotApplicable if the loader is meant for one process only.
    """
    asked = subject.settings.ranks
    if asked == 1:
        raise NotApplicable("ranks is set to 1")
    if asked:
        return min(asked, MOST)
    if is_given(subject) or asks(subject):
        return DEFAULT
    raise NotApplicable("the loader does not use ranks (--ranks 2 tests it with two)")


def is_given(subject: Subject) -> bool:
    """Whether the settings request several ranks, or the factory takes `rank` or `world_size`."""
    return (subject.settings.ranks or 0) > 1 or subject.target.takes("rank", "world_size")


def asks(subject: Subject) -> Location | None:
    """Where the user's code reads its rank from torch.distributed or the environment, if it does."""
    return subject.vary("asking", lambda folder: watch_for_asking(subject.build, folder))


def is_declared(subject: Subject) -> bool:
    """Whether the loader itself shards by rank, or the settings request several ranks.

    Code that reads its rank counts for a stream only: a trainer may add a distributed sampler to any other loader.
    """
    if subject.settings.ranks == 1:
        return False
    return is_given(subject) or bool(subject.facts.kind == "stream" and asks(subject))


def watch_for_asking(build: Callable[..., Loader], folder: Path) -> Location | None:
    """Build the loader, read its first batch in this process; return where the user's code first read its rank."""
    asked: list[Location] = []

    def note(what: str) -> None:
        place = _place()
        if place:
            asked.append(Location(*place, what))

    _watch_environment(note)
    _watch_functions(note)
    loader = build(num_workers=0, schedule=lambda inner, batched: _First(inner, batched=batched))
    drive(loader, Plan(folder, (Records(),), keep_going=True), batches=(1,))
    return asked[0] if asked else None


class _First(Schedule):
    """The first batch, or the first indices, reduced to a few samples."""

    def __init__(self, inner: Any, *, batched: bool) -> None:
        super().__init__(inner)
        self.batched = batched

    def __iter__(self) -> Iterator[Any]:
        for entry in islice(drawn(self.inner), 1 if self.batched else _SAMPLES):
            yield members(entry)[:_SAMPLES] if self.batched else entry


def _watch_environment(note: Callable[[str], None]) -> None:
    kind: Any = type(os.environ)
    original = kind.__getitem__

    def getitem(environment: Any, key: Any) -> Any:
        if key in VARIABLES:
            note(f"os.environ[{key!r}]")
        return original(environment, key)

    kind.__getitem__ = getitem  # get(), getenv() and `in` end here too


def _watch_functions(note: Callable[[str], None]) -> None:
    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def asking(*args: Any, **kwargs: Any) -> Any:
            note(f"torch.distributed.{original.__name__}()")
            return original(*args, **kwargs)

        return asking

    originals = [getattr(dist, name) for name in _FUNCTIONS]
    rebind({id(original): (original, watched(original)) for original in originals}, _DEFINING)


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
