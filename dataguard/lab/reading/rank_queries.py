"""Where the user's code, or a library's stream, reads its rank from torch.distributed or the environment."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch.utils.data import IterableDataset

from dataguard.incident import is_library
from dataguard.lab.core.stand_ins import rebind, replaced
from dataguard.model import Location
from dataguard.process.originals import os

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
