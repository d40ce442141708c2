"""Transforms that a dataset is given and never looks at, while it is built, read and collated.

Reading the attribute is what counts, so that a transform which is not called because of a flag or by chance is no
matter here, unless even the attribute stays unread. One that is called by another name, or a part of it, is in use.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.wrapped_datasets import by_name, wrapped_by
from dataguard.lab.images.image_containers import is_picture
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.target.variants import Loader

READS, FEWEST = 64, 16
"""Samples that are read at most, as long as a transform stays unread, and at least."""
_SECONDS = 3.0
"""Seconds after which no more samples are read."""
_NAMES = frozenset({"transform", "transforms"})
_DEPTH = 4
"""How deep the parts of a transform are looked for."""


@dataclass(frozen=True, slots=True)
class Unread:
    """The transform that nothing reads, by its path and its class; `library` tells that torch's own code ignores it."""

    path: str
    name: str
    library: bool
    samples: int


def find_unread(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> Unread | None:
    """The transform that the outermost dataset of the user's has and does not look at, in this, thrown-away, process.

    Those of a dataset within it may be left over on purpose, where the outer one takes the images alone.
    """
    known = _held(build().dataset) if len(indices) >= FEWEST else None
    if known is None:
        return None
    calls = _Calls(_parts(known.transform))
    read = _watched()
    with calls.watched():
        loader = build()
        held = _held(loader.dataset)
        if held is None:
            return None
        pictures, count = _read(loader, folder, indices, lambda: id(held.dataset) in read)
    if id(held.dataset) in read or not pictures or count < FEWEST or calls.include(_parts(held.transform)):
        return None
    return Unread(held.path, type(held.transform).__name__, _is_torch(held.dataset), count)


@dataclass(frozen=True, slots=True)
class _Held:
    """A transform, its path, and the dataset that has it."""

    dataset: Any
    path: str
    transform: Any


def _held(dataset: Any) -> _Held | None:
    """What the outermost dataset has that has a transform, where no other code of the user's lies around it."""
    for path, part in wrapped_by(dataset, by_name):
        state = getattr(part, "__dict__", {})
        name = next((one for one, value in state.items() if one in _NAMES and callable(value)), None)
        if name is not None:
            return _Held(part, f"{path}.{name}", state[name]) if isinstance(part, Dataset) else None
        if not _is_torch(part) or not isinstance(state.get("dataset"), Dataset):
            return None
    return None


def _is_torch(part: Any) -> bool:
    return type(part).__module__.startswith("torch.")


def _watched() -> set[int]:
    """The identities of datasets of which a transform is read, from now on, whatever their classes."""
    kind: Any = Dataset
    original = kind.__getattribute__
    read: set[int] = set()

    def __getattribute__(part: Any, name: str) -> Any:
        if name in _NAMES:
            read.add(id(part))
        return original(part, name)

    kind.__getattribute__ = __getattribute__
    return read


def _read(loader: Loader, folder: Path, indices: Sequence[Index], is_read: Callable[[], bool]) -> tuple[bool, int]:
    """Read samples until the transform is, and tell whether there are pictures in them, and how many were read."""
    reader = Reader(loader, folder, READS)
    samples: list[Any] = []
    until = time.monotonic() + _SECONDS
    while len(samples) < len(indices) and not is_read() and (len(samples) < FEWEST or time.monotonic() < until):
        samples.append(reader.read(indices[len(samples)], len(samples)))
    with contextlib.suppress(Exception), seeded(SEED):  # it may want other batches; an epoch tells what it raises
        loader.collate_fn(samples[:4])
    return any(is_picture(leaf) for _, leaf in iter_leaves(samples[:1])), len(samples)


def _parts(transform: Any, depth: int = 0) -> list[Any]:
    """A transform and what it is made of: functions, and objects that can be called."""
    if depth > _DEPTH:
        return []
    inner: list[Any] = []
    if isinstance(transform, functools.partial):
        inner = [transform.func, *transform.args]
    elif isinstance(transform, types.MethodType):
        inner = [transform.__func__]
    elif hasattr(transform, "__dict__") and not isinstance(transform, type | types.FunctionType):
        inner = [*vars(transform).values()]
    elif isinstance(transform, list | tuple | dict):
        inner = [*transform.values()] if isinstance(transform, dict) else [*transform]
    own = [transform] if callable(transform) else []
    return own + [part for one in inner for part in _parts(one, depth + 1)]


class _Calls:
    """Takes down which of some callables are called, and which others of their classes."""

    def __init__(self, callables: Sequence[Any]) -> None:
        self._codes = {code for code in map(_code_of, callables) if code is not None}
        self._functions: set[types.CodeType] = set()
        self._objects: dict[int, Any] = {}

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch this thread, and those that are started meanwhile."""
        sys.setprofile(self._note)
        threading.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def include(self, callables: Sequence[Any]) -> bool:
        """Whether one of these was called."""
        return any(
            _code_of(one) in self._functions if isinstance(one, types.FunctionType) else id(one) in self._objects
            for one in callables
        )

    def _note(self, frame: types.FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code in self._codes:
            self._functions.add(code)
            first = next(iter(_arguments(frame)), None)
            self._objects[id(first)] = first


def _arguments(frame: types.FrameType) -> Iterator[Any]:
    """What a function was called with, by position; a decorated one takes it all as `*args`."""
    code = frame.f_code
    yield from (frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount])
    if code.co_flags & inspect.CO_VARARGS:
        yield from frame.f_locals.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ())


def _code_of(one: Any) -> types.CodeType | None:
    """The code that runs when it is called; None where that is not Python's."""
    function = one if isinstance(one, types.FunctionType) else type(one).__call__
    return getattr(function, "__code__", None)
