"""The steps of a pipeline, watched while they are called with images, and transforms that are never used.

Steps are callable objects that the dataset or collate_fn holds. A step is watched by patching its class, so that the
user's own object runs.

A transform counts as used if its attribute is read, so that one that is not called because of a flag or by chance is
not reported. So does a call of the transform, or a part of it, under another name.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset, Sampler

from dataguard.lab.core.leaves import describe, iter_leaves, keep
from dataguard.lab.core.loader_facts import by_name, wrapped_by
from dataguard.lab.core.object_graph import Node, reachable
from dataguard.lab.core.records import Index, streamed
from dataguard.lab.images.painter import is_image
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rng.rng_discovery import SEED, seeded
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

_FOREIGN = {*sys.stdlib_module_names, "torch", "numpy", "PIL", "cv2", "pandas", "dataguard"}
"""Packages whose callable objects are not pipeline steps."""

NO_STEPS = "the dataset calls no transform or other object with an image"

Fingerprint = Counter[tuple[str, bytes]]
"""The content of a step's input or result: the number of leaves of each kind and digest."""


class CallLog:
    """The calls of one step: how many, how many changed something, and the first arguments with an image.

    An `is_outer` step calls others, and another step calls an `is_nested` one; `in_place` means that its arguments
    changed.
    """

    def __init__(self, node: Node) -> None:
        self.step = node.value
        self.path = node.path
        self.calls = 0
        self.acts = 0
        self.is_outer = False
        self.is_nested = False
        self.in_place = False
        self.example: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    @property
    def name(self) -> str:
        """The name of its class."""
        return type(self.step).__name__


class PipelineWatch:
    """Watches every step that can be reached from some objects, in this disposable process."""

    def __init__(self, roots: Mapping[str, Any]) -> None:
        nodes = list(reachable(roots, _is_step, enter=True))
        self._logs = {id(node.value): CallLog(node) for node in nodes}
        self._running: list[CallLog] = []
        self.change: Callable[[CallLog, Any], Any] | None = None
        """Replaces the result of a step, if set."""
        self.calls: dict[type, Callable[..., Any]] = {}
        """The original `__call__` of each class."""
        for kind in {type(node.value) for node in nodes}:
            self._install(kind)

    @property
    def watches(self) -> bool:
        """Whether there is any step."""
        return bool(self._logs)

    @property
    def logs(self) -> list[CallLog]:
        """The steps that were called with images."""
        return [log for log in self._logs.values() if log.example is not None]

    def _install(self, kind: Any) -> None:
        original = kind.__call__

        @functools.wraps(original)
        def __call__(step: Any, *args: Any, **kwargs: Any) -> Any:
            log = self._logs.get(id(step))
            if log is None or log in self._running:
                return original(step, *args, **kwargs)
            return self._watched(log, functools.partial(original, step), args, kwargs)

        with contextlib.suppress(TypeError, AttributeError):  # a class that cannot be patched
            kind.__call__ = __call__
            self.calls[kind] = original

    def _watched(self, log: CallLog, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._running:
            self._running[-1].is_outer = log.is_nested = True
        if log.example is None and has_image((args, kwargs)):
            with contextlib.suppress(Exception):  # arguments that cannot be copied
                log.example = copy.deepcopy((args, kwargs))
        before = fingerprint((args, kwargs))
        self._running.append(log)
        try:
            given = call(*args, **kwargs)
        finally:
            self._running.pop()
        log.calls += 1
        log.acts += fingerprint(given) != before
        log.in_place |= fingerprint((args, kwargs)) != before
        return self.change(log, given) if self.change else given


def watch_of(loader: Loader) -> PipelineWatch:
    """Watches the steps of a loader."""
    return PipelineWatch({"dataset": loader.dataset, "collate_fn": loader.collate_fn})


def has_steps(loader: Loader) -> bool:
    """Whether a loader holds any object that may be a step."""
    return watch_of(loader).watches


def _is_step(value: Any) -> bool:
    """Whether an object may be a step: a callable of a class that is not of a foreign package."""
    kind = type(value)
    if issubclass(kind, type | Dataset | Sampler) or kind.__module__.partition(".")[0] in _FOREIGN:
        return False
    return any("__call__" in cls.__dict__ for cls in kind.__mro__)


def has_image(value: Any) -> bool:
    """Whether a structure holds an image."""
    return any(is_image(leaf) for _, leaf in iter_leaves(value))


def fingerprint(value: Any) -> Fingerprint:
    """The content of a structure, to compare before and after a step."""
    leaves = [describe("", leaf) for _, leaf in iter_leaves(value)]
    return Counter((leaf.kind, leaf.digest) for leaf in leaves)


def read_samples(loader: Loader, folder: Path, indices: Sequence[Index], most: int) -> Iterator[Any]:
    """At most so many samples, each under another random state; of a stream, if there are no indices."""
    reader = Reader(loader, folder, most)
    stream = None if indices else streamed(loader.dataset)
    for draw in range(most):
        if stream is None:
            yield reader.read(indices[draw % len(indices)], draw)
            continue
        with gate("sample"), seeded(SEED + draw):
            samples = list(islice(stream, 1))
        yield from samples


def try_to_collate(loader: Loader, batch: list[Any]) -> None:
    """Collate some samples; collate_fn may need other batches, and an epoch reports its errors."""
    with contextlib.suppress(Exception), seeded(SEED):
        loader.collate_fn(batch)


MOST_IN_BATCH = 4
"""Samples that collate_fn is given at most: enough for one that mixes or pairs them, and a limit of memory."""
UNUSED_READS, FEWEST_UNUSED_READS = 64, 16
"""The most and the fewest samples that are read while a transform stays unused: one that is used with probability 0.25
is not in 16 of them once in a hundred times, nor in 64 once in 1e8."""
_UNUSED_SECONDS = 3.0
"""Seconds after which no more samples are read than the fewest: a limit of time."""
_TRANSFORM_NAMES = frozenset({"transform", "transforms"})
_MOST_DEPTH = 4
"""The depth to which the parts of a transform are searched, as of a composition in a partial in a method."""


@dataclass(frozen=True, slots=True)
class UnusedTransform:
    """A transform that nothing reads, by its path and its class; `library` means that a class of torch holds it."""

    path: str
    name: str
    library: bool
    samples: int


def find_unused(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> UnusedTransform | None:
    """The transform that the user's outermost dataset holds and does not use, in this disposable process.

    The transform of a wrapped dataset may be unused on purpose, if the outer one takes only its images.
    """
    transform = _held(build().dataset) if len(indices) >= FEWEST_UNUSED_READS else None
    if transform is None:
        return None
    recorder = _CallRecorder(_parts(transform.transform))
    read = _recorded_reads()
    with recorder.recording():
        loader = build()
        held = _held(loader.dataset)
        if held is None:
            return None
        has_images, count = _read(loader, folder, indices, lambda: id(held.dataset) in read)
    if (
        id(held.dataset) in read
        or not has_images
        or count < FEWEST_UNUSED_READS
        or recorder.include(_parts(held.transform))
    ):
        return None
    return UnusedTransform(held.path, type(held.transform).__name__, _is_torch(held.dataset), count)


def holds(build: Callable[..., Loader]) -> bool:
    """Whether the user's outermost dataset holds a transform."""
    return _held(build().dataset) is not None


@dataclass(frozen=True, slots=True)
class _HeldTransform:
    """A transform, its path, and the dataset that has it."""

    dataset: Any
    path: str
    transform: Any


def _held(dataset: Any) -> _HeldTransform | None:
    """The transform of the outermost dataset that has one, unless other user code wraps that dataset."""
    for path, part in wrapped_by(dataset, by_name):
        state = getattr(part, "__dict__", {})
        name = next(
            (attribute for attribute, value in state.items() if attribute in _TRANSFORM_NAMES and callable(value)), None
        )
        if name is not None:
            return _HeldTransform(part, f"{path}.{name}", state[name]) if isinstance(part, Dataset) else None
        if not _is_torch(part) or not isinstance(state.get("dataset"), Dataset):
            return None
    return None


def _is_torch(part: Any) -> bool:
    return type(part).__module__.startswith("torch.")


def _recorded_reads() -> set[int]:
    """The ids of datasets whose transform attribute is read from now on, of any class."""
    kind: Any = Dataset
    original = kind.__getattribute__
    read: set[int] = set()

    def __getattribute__(part: Any, name: str) -> Any:
        if name in _TRANSFORM_NAMES:
            read.add(id(part))
        return original(part, name)

    kind.__getattribute__ = __getattribute__
    return read


def _read(loader: Loader, folder: Path, indices: Sequence[Index], is_read: Callable[[], bool]) -> tuple[bool, int]:
    """Read samples until the transform is used; return whether they hold images, and how many were read."""
    reader = Reader(loader, folder, UNUSED_READS)
    batch: list[Any] = []
    count = 0
    until = time.monotonic() + _UNUSED_SECONDS
    while count < len(indices) and not is_read() and (count < FEWEST_UNUSED_READS or time.monotonic() < until):
        keep(reader.read(indices[count], count), batch, 1, MOST_IN_BATCH)
        count += 1
    try_to_collate(loader, batch)
    return any(is_image(leaf) for _, leaf in iter_leaves(batch[:1])), count


def _parts(transform: Any, depth: int = 0) -> list[Any]:
    """A transform and its parts: functions and callable objects."""
    if depth > _MOST_DEPTH:
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
    callables = [transform] if callable(transform) else []
    return callables + [part for value in inner for part in _parts(value, depth + 1)]


class _CallRecorder:
    """Records which of some callables are called."""

    def __init__(self, callables: Sequence[Any]) -> None:
        self._codes = {code for code in map(_code_of, callables) if code is not None}
        self._functions: set[types.CodeType] = set()
        self._objects: dict[int, Any] = {}

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record calls in this thread, and in those that are started meanwhile."""
        sys.setprofile(self._record)
        threading.setprofile(self._record)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def include(self, callables: Sequence[Any]) -> bool:
        """Whether one of these was called."""
        return any(
            _code_of(function) in self._functions
            if isinstance(function, types.FunctionType)
            else id(function) in self._objects
            for function in callables
        )

    def _record(self, frame: types.FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code in self._codes:
            self._functions.add(code)
            first = next(iter(_arguments(frame)), None)
            self._objects[id(first)] = first


def _arguments(frame: types.FrameType) -> Iterator[Any]:
    """The positional arguments of a call; a decorated function takes them as `*args`."""
    code = frame.f_code
    yield from (frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount])
    if code.co_flags & inspect.CO_VARARGS:
        yield from frame.f_locals.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount], ())


def _code_of(value: Any) -> types.CodeType | None:
    """The code that runs when it is called; None if it is not Python code."""
    function = value if isinstance(value, types.FunctionType) else type(value).__call__
    return getattr(function, "__code__", None)
