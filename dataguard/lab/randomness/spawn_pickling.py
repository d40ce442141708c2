"""What a spawned worker is sent: whether it survives pickling, and which part of it does not.

Tensors and arrays are not copied but handed through, so that trying costs little whatever the dataset holds.
"""

from __future__ import annotations

import io
import os
import pickle
import threading
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import context
from multiprocessing.heap import Arena
from multiprocessing.reduction import ForkingPickler
from multiprocessing.synchronize import SemLock
from typing import Any

import numpy as np
import torch

from dataguard.incident import is_library
from dataguard.lab.core.object_graph import FEW
from dataguard.lab.core.pickled_parts import parts_of
from dataguard.lab.core.source_location import made_at
from dataguard.lab.process.exceptions import incident_of
from dataguard.lab.rng.rng_discovery import find_generators
from dataguard.target.variants import Loader

MOST_SECONDS = 3.0
MOST_BYTES = 100_000_000
"""How much of one part is pickled before it counts as one that can be."""

MOST_DEEP = 100
"""How many parts that fail are looked into."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The smallest part of a loader that does not survive pickling, as plain data.

    `path` leads to it, as in `dataset.transform.transforms[2]`; `what` is what it is, in words; `error` is what
    pickling or unpickling it raised; `at` is the file and line where it, or what holds it, is defined.
    """

    path: str
    what: str
    error: str
    at: tuple[str, int] | None

    @property
    def words(self) -> str:
        """What is wrong with it in words: a kind that never survives is enough, anything else needs the exception."""
        return f"{self.path} is {self.what}" + (f" ({self.error})" if self.what.startswith(_SOME_OBJECT) else "")


@dataclass(frozen=True, slots=True)
class Pickling:
    """What is known of a loader's parts: the first that does not survive, and torch's generators among them."""

    culprit: Culprit | None
    generators: tuple[Culprit, ...]


def try_pickling(loader: Loader, *, forked: bool) -> Pickling:
    """Pickle and unpickle what torch sends to a spawned worker.

    `forked` tells that the loader's workers are forked so far, so that locks and shared values were made for that:
    where spawning is the default they would be made for it instead, and are not held against the loader.
    """
    roots = {
        "dataset": loader.dataset,
        "collate_fn": loader.collate_fn,
        "worker_init_fn": loader.worker_init_fn,
    }
    # What only globals, classes and code lead to is not sent.
    sent = [source for source in find_generators(roots) if source.kind == "torch.Generator" and "<" not in source.path]
    generators = [Culprit(source.path, "a torch.Generator", "", _place(source.holder)) for source in sent]
    return Pickling(find_culprit(roots, forked=forked), tuple(generators))


def find_culprit(roots: Mapping[str, Any], *, forked: bool = False, seconds: float = MOST_SECONDS) -> Culprit | None:
    """The smallest part of the first root that does not survive pickling, None where every root does."""
    search = _Search(time.monotonic() + seconds, (SemLock, Arena) if forked else ())
    with _as_if_spawning():
        return next((found for path, root in roots.items() if (found := search.smallest(path, root))), None)


class _Search:
    """A search for the smallest part that fails; what the deadline cuts short is answered by the part around it."""

    def __init__(self, deadline: float, exempt: tuple[type, ...]) -> None:
        self.deadline = deadline
        self.exempt = exempt
        self.entered: dict[int, Any] = {}
        """By `id`, what was found to fail; held, so that no other object gets the same `id` meanwhile."""

    def smallest(self, path: str, value: Any, holder: Any = None) -> Culprit | None:
        """The part itself if it fails and no part of it does; `holder` is the user's object around it, if any."""
        if id(value) in self.entered:
            return None
        error = self.attempt(value)
        if error is None:
            return None
        self.entered[id(value)] = value
        unsettled = isinstance(error, _TooMuch)
        if self.may_blame_parts(value, error):
            for step, part in self.suspects(value):
                found = self.smallest(path + step, part, value if _place(value) else holder)
                if found:
                    return found
                # It fails because of what is around it: the cycle has another part that is to blame.
                unsettled = unsettled or (holder is not None and id(part) in self.entered)
        return None if unsettled else _culprit(path, value, holder, error)

    def may_blame_parts(self, value: Any, error: Exception) -> bool:
        """Not where the object's class is what fails, or where it is nested too deeply."""
        if len(self.entered) >= MOST_DEEP or isinstance(error, RecursionError):
            return False
        return type(value).__module__ == "builtins" or self.attempt(type(value)) is None

    def suspects(self, value: Any) -> Sequence[tuple[str, Any]]:
        """The parts of an object, those of a big container narrowed down to a few by halves."""
        try:
            parts = list(parts_of(value))
        except Exception:  # noqa: BLE001 - reduction is the user's own code; then the object itself is what fails
            return ()
        while len(parts) > FEW:
            half = parts[: len(parts) // 2]
            error = self.attempt([part for _, part in half])
            if isinstance(error, _TooMuch):
                return parts[:: len(parts) // FEW]
            parts = half if error else parts[len(half) :]
        return parts

    def attempt(self, value: Any) -> Exception | None:
        """What pickling an object and unpickling the result raises."""
        if time.monotonic() > self.deadline:
            return None
        kept: list[Any] = []
        sink = _Sink(self.deadline)
        try:
            _Pickler(sink, kept, self.exempt).dump(value)
            sink.seek(0)
            _Unpickler(sink, kept).load()
        except Exception as error:  # noqa: BLE001 - whatever the user's own reduction raises is the answer
            return error
        return None


class _TooMuch(Exception):
    """More was to be pickled than there is time or memory for."""


class _Sink(io.BytesIO):
    """Memory to pickle into, up to a limit."""

    def __init__(self, deadline: float) -> None:
        super().__init__()
        self.deadline = deadline

    def write(self, data: Any) -> int:
        if self.tell() > MOST_BYTES or time.monotonic() > self.deadline:
            raise _TooMuch
        return super().write(data)


class _Pickler(ForkingPickler):
    """Pickles as for a new process, but hands tensors, arrays and what is exempt through as they are."""

    def __init__(self, sink: io.BytesIO, kept: list[Any], exempt: tuple[type, ...]) -> None:
        super().__init__(sink)
        self.kept = kept
        self.exempt = exempt

    def persistent_id(self, value: Any) -> int | None:
        if not (_is_content(value) or isinstance(value, self.exempt)):
            return None
        self.kept.append(value)
        return len(self.kept) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, source: io.BytesIO, kept: Sequence[Any]) -> None:
        super().__init__(source)
        self.kept = kept

    def persistent_load(self, number: Any) -> Any:
        return self.kept[number]


def _is_content(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_leaf or not value.requires_grad  # torch refuses to send any other
    return type(value) is np.ndarray and not value.dtype.hasobject


class _Spawning:
    """Stands in for the process that is being started, which multiprocessing asks to inherit file descriptors."""

    def duplicate_for_child(self, descriptor: int) -> int:
        return descriptor

    @staticmethod
    def DupFd(descriptor: int) -> _Descriptor:
        return _Descriptor(descriptor)


@dataclass(frozen=True, slots=True)
class _Descriptor:
    number: int

    def detach(self) -> int:
        return os.dup(self.number)


@contextmanager
def _as_if_spawning() -> Iterator[None]:
    stand_in: Any = _Spawning()
    context.set_spawning_popen(stand_in)  # queues, pipes and locks refuse to be pickled at any other time
    try:
        yield
    finally:
        context.set_spawning_popen(None)


def _culprit(path: str, value: Any, holder: Any, error: Exception) -> Culprit:
    incident = incident_of(error, "transfer")
    frame = incident.own_frame
    place = (frame.file, frame.line) if frame else _place(value) or _place(holder)
    return Culprit(path, _what(value), incident.headline, place)


def _place(thing: Any) -> tuple[str, int] | None:
    """Where the class or function is defined, where it is the user's."""
    place = None if thing is None else made_at(thing)
    return place if place and place[0] and not is_library(place[0]) else None


def _is_local(thing: Any) -> bool:
    return "<locals>" in thing.__qualname__


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


_SOME_OBJECT = "an instance of the class"
_WORDS: tuple[tuple[Any, str], ...] = (
    (types.GeneratorType, "a generator"),
    (io.IOBase, "an open file"),
    ((type(threading.Lock()), type(threading.RLock())), "a lock"),
    (SemLock, "a multiprocessing lock"),
    (torch.Tensor, "a non-leaf tensor that requires grad"),
)
