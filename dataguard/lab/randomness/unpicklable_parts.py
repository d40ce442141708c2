"""The smallest part of a loader that cannot be pickled, and so not be sent to a spawned worker."""

from __future__ import annotations

import io
import threading
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import SemLock
from typing import Any

import torch

from dataguard.core.incident import is_library
from dataguard.lab.core.object_graph import FEW_ENTRIES, parts_of
from dataguard.lab.core.source_location import assigned_at, made_at
from dataguard.lab.process.incidents import incident_of
from dataguard.lab.reading.spawn_transfer import MOST_SECONDS, PickleLimitExceeded, as_if_spawning, send
from dataguard.lab.rng.rng_discovery import Source, find_generators
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

Holder = tuple[Any, str]
"""An object of the user's, and the step from it to what it holds: `.file`."""
MOST_DEEP = 100
"""Most failing parts whose own parts are searched."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The smallest part of a loader that cannot be pickled, as plain data.

    `path` leads to it, such as `dataset.transform.transforms[2]`; `what` describes it; `error` is what pickling or
    unpickling it raised; `at` is the file and line where it is defined, assigned to its holder, or else where that is.
    """

    path: str
    what: str
    error: str
    at: tuple[str, int] | None

    @property
    def words(self) -> str:
        """The problem as text: with the exception, unless its kind can never be pickled."""
        return f"{self.path} is {self.what}" + (f" ({self.error})" if self.what.startswith(_SOME_OBJECT) else "")


@dataclass(frozen=True, slots=True)
class Pickling:
    """The first part of a loader that cannot be pickled, and the torch generators among its parts."""

    culprit: Culprit | None
    generators: tuple[Culprit, ...]


def try_pickling(loader: Loader, *, forked: bool) -> Pickling:
    """Pickle and unpickle what torch sends to a spawned worker.

    `forked`: the loader's workers are forked, so its locks and shared values were created for that. If spawning were
    the default they would be created for spawning, so they do not count.
    """
    roots = {
        "dataset": loader.dataset,
        "collate_fn": loader.collate_fn,
        "worker_init_fn": loader.worker_init_fn,
    }
    # Objects that only globals, classes and code refer to are not sent.
    sent = [source for source in find_generators(roots) if source.kind == "torch.Generator" and "<" not in source.path]
    generators = [Culprit(source.path, "a torch.Generator", "", _line_of(source)) for source in sent]
    return Pickling(find_culprit(roots, forked=forked), tuple(generators))


def find_culprit(roots: Mapping[str, Any], *, forked: bool = False, seconds: float = MOST_SECONDS) -> Culprit | None:
    """The smallest part of the first root that cannot be pickled; None if every root can."""
    search = _Search(time.monotonic() + seconds, forked=forked)
    with as_if_spawning():
        return next((culprit for path, root in roots.items() if (culprit := search.smallest(path, root))), None)


class _Search:
    """A search for the smallest part that fails; after the deadline it returns the part reached so far."""

    def __init__(self, deadline: float, *, forked: bool) -> None:
        self.deadline = deadline
        self.forked = forked
        self.entered: dict[int, Any] = {}
        """The failing parts by `id`; held, so that each `id` stays unique."""

    def smallest(self, path: str, value: Any, holder: Holder = (None, "")) -> Culprit | None:
        """The value itself if it fails and no part of it does; `holder` is the user's object around it, if any."""
        if id(value) in self.entered:
            return None
        error = self.attempt(value)
        if error is None:
            return None
        self.entered[id(value)] = value
        unsettled = isinstance(error, PickleLimitExceeded)
        if self.may_blame_parts(value, error):
            for step, part in self.suspects(value):
                culprit = self.smallest(path + step, part, (value, step) if _place(value) else holder)
                if culprit:
                    return culprit
                # It fails because of an object around it: another part of the cycle is the culprit.
                unsettled = unsettled or (holder[0] is not None and id(part) in self.entered)
        return None if unsettled else _culprit(path, value, holder, error)

    def may_blame_parts(self, value: Any, error: Exception) -> bool:
        """Whether to search the parts: not if the class itself fails, or the object is nested too deeply."""
        if len(self.entered) >= MOST_DEEP or isinstance(error, RecursionError):
            return False
        return type(value).__module__ == "builtins" or self.attempt(type(value)) is None

    def suspects(self, value: Any) -> Sequence[tuple[str, Any]]:
        """The parts of an object; a large container is bisected down to a few."""
        try:
            parts = list(parts_of(value))
        except Exception:  # noqa: BLE001 - `__reduce__` is the user's code; then the object itself fails
            return ()
        while len(parts) > FEW_ENTRIES:
            half = parts[: len(parts) // 2]
            error = self.attempt([part for _, part in half])
            if isinstance(error, PickleLimitExceeded):
                return parts[:: len(parts) // FEW_ENTRIES]
            parts = half if error else parts[len(half) :]
        return parts

    def attempt(self, value: Any) -> Exception | None:
        """The exception that pickling an object and unpickling the result raises, if any."""
        if time.monotonic() > self.deadline:
            return None
        try:
            send(value, forked=self.forked, deadline=self.deadline).received()
        except Exception as error:  # noqa: BLE001 - `__reduce__` is the user's code
            return error
        return None


def _culprit(path: str, value: Any, holder: Holder, error: Exception) -> Culprit:
    incident = incident_of(error, "transfer")
    frame = incident.own_frame
    location = (frame.file, frame.line) if frame else _place(value) or _assigned_at(*holder)
    return Culprit(path, _what(value), incident.headline, location)


def _assigned_at(holder: Any, step: str) -> tuple[str, int] | None:
    """The line that assigns the attribute of a holder, such as an open file; else where its class is defined."""
    at = assigned_at(holder, step.removeprefix("."))
    return at[:2] if at else _place(holder)


def _line_of(source: Source) -> tuple[str, int] | None:
    at = source.assigned_at
    return at[:2] if at else _place(source.holder)


def _place(value: Any) -> tuple[str, int] | None:
    """Where the class or function is defined, if it is the user's."""
    location = None if value is None else made_at(value)
    return location if location and location[0] and not is_library(location[0]) else None


def _what(value: Any) -> str:
    if isinstance(value, types.FunctionType):
        if value.__name__ == "<lambda>":
            return "a lambda"
        return f"the {'local ' if _is_local(value) else ''}function {value.__name__}"
    if isinstance(value, type):
        return f"the {'local ' if _is_local(value) else ''}class {value.__name__}"
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    kind = type(value)
    if _is_local(kind):
        return f"an instance of the local class {kind.__name__}"
    for kinds, words in _WORDS:
        if isinstance(value, kinds):
            return words
    return f"{_SOME_OBJECT} {kind.__module__}.{kind.__qualname__}".replace(" builtins.", " ")


def _is_local(definition: Any) -> bool:
    return "<locals>" in definition.__qualname__


_SOME_OBJECT = "an instance of the class"
_WORDS: tuple[tuple[Any, str], ...] = (
    (types.GeneratorType, "a generator"),
    (io.IOBase, "an open file"),
    ((type(threading.Lock()), type(threading.RLock())), "a lock"),
    (SemLock, "a multiprocessing lock"),
    (torch.Tensor, "a non-leaf tensor that requires grad"),
)
