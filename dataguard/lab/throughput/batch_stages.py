"""How the time of a batch is spent: opening, reading, decoding, transforming, collating, sending, pinning, copying.

Measured part by part, in a separate process that does the work of one worker. Transforms are timed by replacing the
`__call__` of their class, so that they stay the same objects. That is not possible for a plain function: in a list or
an attribute, it is replaced by an object that calls it. Files that are opened in Python have a raw file of their own,
which times each read; for a decoder that opens a path itself, the file is read once before.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import statistics
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, TypeVar

from torch.utils.data import DataLoader, Dataset, IterableDataset, _DatasetKind

from dataguard.lab.core.leaves import shared_bytes
from dataguard.lab.core.loader_facts import by_name, wrapped_by
from dataguard.lab.core.source_location import replaced
from dataguard.lab.decoding.decoders import DECODERS, Decoder, redirected
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.sample_reader import emulate_worker
from dataguard.lab.throughput.device_copies import measure_transfer
from dataguard.lab.throughput.timed_run import EndlessOrder
from dataguard.measured import Stage
from dataguard.process.originals import os, time
from dataguard.targets.variants import Loader

T = TypeVar("T")

_MOST_BATCHES = 8
"""Batches that are made: their mean is enough to see which part is slow; each takes as long as in training."""
_MOST_BYTES = 256_000_000
"""Bytes after which no more batches are made: they stay in shared memory until all are sent."""
_OPENING, _READING, _DECODING = "opening", "reading", "decoding"
_REST_OF_DATASET = "other work of the dataset"


@dataclass(frozen=True, slots=True)
class Profile:
    """The stages of a batch, the bytes of shared memory needed to send one, and facts about the device."""

    stages: tuple[Stage, ...]
    batch_bytes: int
    device: dict[str, Any]


def run_profile(loader: Loader, recorder: FlightRecorder, seconds: float) -> Profile:
    """Make some batches here, as a worker does, for about so many seconds, then send, pin and copy them."""
    if loader.num_workers:
        emulate_worker(loader, recorder, 1)
    watch = TransformTimer()
    watch.watch(loader.dataset)
    with _files_timed(watch):
        batches, fetched, collated = _made(loader, recorder, watch, seconds)
    count = max(len(fetched), 1)
    files = [Stage(name, watch.seconds.pop(name) / count) for name in _FILES if name in watch.seconds]
    transforms = [Stage(name, total / count) for name, total in watch.seconds.items()]
    parts = [*files, *sorted(transforms, key=lambda part: part.seconds or 0, reverse=True)]
    fetch = statistics.fmean(fetched)
    if parts:
        parts.append(Stage(_REST_OF_DATASET, max(fetch - sum(part.seconds or 0 for part in parts), 0.0)))
    sizes = [shared_bytes(batch) for batch in batches]
    stages = [
        Stage("fetch", fetch, tuple(parts)),
        Stage("collate", statistics.fmean(collated)),
        _transfer(batches, recorder) if loader.num_workers else Stage("transfer", skipped="num_workers=0"),
    ]
    device = measure_transfer(batches[-1], pinned=loader.pin_memory)
    return Profile((*stages, *device.stages), max(sizes), device.known)


_FILES = (_OPENING, _READING, _DECODING)


@contextlib.contextmanager
def _files_timed(watch: TransformTimer) -> Iterator[None]:
    """Time what opens, reads and decodes files inside the context."""
    opening = builtins.open

    def timed_open(file: Any, mode: str = "r", buffering: int = -1, *arguments: Any, **options: Any) -> Any:
        plain = buffering == -1 and options.keys() <= {"encoding", "errors", "newline"} and not arguments
        if not plain or set(mode) - set("rbt"):
            return watch.measured(_OPENING, lambda: opening(file, mode, buffering, *arguments, **options))
        raw = watch.measured(_OPENING, lambda: _TimedFile(file, watch))
        buffered = io.BufferedReader(raw)
        if "b" in mode:
            return buffered
        text = io.TextIOWrapper(buffered, **options)
        setattr(text, "mode", mode)  # noqa: B010 - as `open` does; the type says it is read-only
        return text

    def timed_decoder(function: Callable[..., Any], decoder: Decoder) -> Callable[..., Any]:
        def decode(*args: Any, **kwargs: Any) -> Any:
            given = decoder.given(args, kwargs)
            if decoder.missing is not None and isinstance(given, str | os.PathLike):
                with contextlib.suppress(OSError), timed_open(given, "rb") as file:
                    file.read()
            return watch.measured(_DECODING, lambda: function(*args, **kwargs))

        return decode

    with contextlib.ExitStack() as stack:
        for module in (builtins, io):
            stack.enter_context(replaced(module, "open", timed_open))
        stack.enter_context(redirected(DECODERS, timed_decoder))
        pillow: Any = getattr(sys.modules.get("PIL.ImageFile"), "ImageFile", None)
        if pillow is not None:  # it decodes when pixels are first used
            load = pillow.load
            stack.enter_context(replaced(pillow, "load", lambda image: watch.measured(_DECODING, lambda: load(image))))
        yield


class _TimedFile(io.FileIO):
    """A raw file whose reads are timed; what buffers and decodes it is as `open` makes it."""

    def __init__(self, file: Any, watch: TransformTimer) -> None:
        super().__init__(file)
        self._watch = watch

    def readinto(self, buffer: Any) -> int | None:
        """As the file does, timed."""
        return self._watch.measured(_READING, lambda: super(_TimedFile, self).readinto(buffer))

    def readall(self) -> bytes:
        """The rest, timed."""
        return self._watch.measured(_READING, super().readall)


def _made(
    loader: Loader, recorder: FlightRecorder, watch: TransformTimer, seconds: float
) -> tuple[list[Any], list[float], list[float]]:
    """Some batches, with the seconds for fetching and collating all but the first."""
    stream = isinstance(loader.dataset, IterableDataset)
    kind = _DatasetKind.Iterable if stream else _DatasetKind.Map
    batched = loader._auto_collation
    collating: list[float] = []

    def collate(data: Any) -> Any:
        started = time.perf_counter()
        batch = loader.collate_fn(data)
        collating.append(time.perf_counter() - started)
        return batch

    batches: list[Any] = []
    fetching: list[float] = []
    began = time.perf_counter()
    with gate("sample"):
        fetcher = _DatasetKind.create_fetcher(kind, loader.dataset, batched, collate, loader.drop_last)
        for entry in islice(EndlessOrder(loader._index_sampler), _MOST_BATCHES):
            recorder.mark(None, "sample")
            started = time.perf_counter()
            try:
                batch = fetcher.fetch(entry)
            except StopIteration:
                break
            fetching.append(time.perf_counter() - started - collating[-1])
            if len(fetching) == 1:
                watch.seconds.clear()
            batches.append(batch)
            enough = time.perf_counter() - began > seconds or shared_bytes(batch) * len(batches) > _MOST_BYTES
            if enough and len(batches) > 1:
                break
    warm = 1 if len(fetching) > 1 else 0
    return batches, fetching[warm:], collating[warm:]


def _transfer(batches: Sequence[Any], recorder: FlightRecorder) -> Stage:
    """The time to send a finished batch from a worker; each is sent once, because it is in shared memory then."""
    if len(batches) < 3:
        return Stage("transfer", skipped="too few batches")
    replay: Loader = DataLoader(
        _BatchDataset(batches), batch_size=None, num_workers=1, collate_fn=_identity, multiprocessing_context="fork"
    )
    arrivals = []
    for _ in replay:
        recorder.mark(None, "transfer")
        arrivals.append(time.perf_counter())
    return Stage("transfer", statistics.median(later - earlier for earlier, later in pairwise(arrivals)))


_TRANSFORM_NAMES = (
    "transform",
    "transforms",
    "target_transform",
    "augment",
    "augmentation",
    "augmentations",
    "preprocess",
)
"""Attributes under which datasets and transforms hold transforms."""
_PLAIN = (FunctionType, BuiltinFunctionType, MethodType)
_MOST_DEPTH = 8
"""How deep transforms are searched inside others: a guard against those that hold themselves."""


class _Calls(threading.local):
    """Of the calls that run in a thread, outermost first: the seconds of those that they made."""

    def __init__(self) -> None:
        self.inside: list[float] = []


class TransformTimer:
    """Seconds by the name of a transform; the time of a nested transform counts only for the nested one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._names: dict[int, str] = {}
        self._held: list[Any] = []
        self._calls = _Calls()
        self._classes: set[type] = set()

    def watch(self, dataset: Any) -> None:
        """Find the transforms of a dataset, and of those that it wraps, and time them from now on."""
        parts = (part for _, part in wrapped_by(dataset, by_name))
        transforms = [entry for part in parts for entry in _transforms(part, _MOST_DEPTH)]
        for holder, slot, transform in transforms:
            if id(transform) in self._names:
                continue
            with contextlib.suppress(Exception):  # a class that cannot be changed is timed with the rest
                self._time(holder, slot, transform)

    def measured(self, name: str, call: Callable[[], T]) -> T:
        """Call a function, and add its time, without that of nested transforms."""
        inside = self._calls.inside
        inside.append(0.0)
        started = time.perf_counter()
        try:
            return call()
        finally:
            taken = time.perf_counter() - started
            self.seconds[name] += taken - inside.pop()
            if inside:
                inside[-1] += taken

    def _time(self, holder: Any, slot: Any, transform: Any) -> None:
        if isinstance(transform, _PLAIN):
            name = self._name(transform, transform.__name__)
            _replace(holder, slot, _Timed(self, name, transform))
        else:
            self._patch(type(transform))
            self._name(transform, type(transform).__name__)

    def _name(self, transform: Any, name: str) -> str:
        """A unique name for a transform, which is kept alive, so that no other object gets the same id."""
        taken = set(self._names.values())
        number = next(number for number in range(1, len(taken) + 2) if _numbered(name, number) not in taken)
        self._held.append(transform)
        self._names[id(transform)] = _numbered(name, number)
        return self._names[id(transform)]

    def _patch(self, kind: type) -> None:
        if kind in self._classes:
            return
        watch, original = self, kind.__call__

        def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
            name = watch._names.get(id(self))
            if name is None:
                return original(self, *args, **kwargs)
            return watch.measured(name, lambda: original(self, *args, **kwargs))

        setattr(kind, "__call__", timed)  # noqa: B010 - mypy forbids the plain form
        self._classes.add(kind)


class _Timed:
    """Replaces a plain function."""

    def __init__(self, watch: TransformTimer, name: str, function: Callable[..., Any]) -> None:
        self._watch = watch
        self._name = name
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._watch.measured(self._name, lambda: self._function(*args, **kwargs))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._function, name)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name} ({number})"


def _transforms(holder: Any, depth: int) -> Iterator[tuple[Any, Any, Any]]:
    """Every innermost transform below a dataset or transform: its holder, its slot there, and itself."""
    if depth == 0:
        return
    state = getattr(holder, "__dict__", {})
    for name in _TRANSFORM_NAMES:
        if name in state:
            yield from _below(holder, name, state[name], depth)


def _below(holder: Any, slot: Any, value: Any, depth: int) -> Iterator[tuple[Any, Any, Any]]:
    if isinstance(value, list | tuple) or type(value).__name__ in ("Sequential", "ModuleList"):
        if depth:
            for position, part in enumerate(value):
                yield from _below(value, position, part, depth - 1)
        return
    if not callable(value) or isinstance(value, type):
        return
    inside = list(_transforms(value, depth - 1))
    yield from inside or [(holder, slot, value)]


def _replace(holder: Any, slot: Any, value: Any) -> None:
    if isinstance(slot, int):
        holder[slot] = value
    else:
        setattr(holder, slot, value)


class _BatchDataset(Dataset[Any]):
    """Batches that exist already."""

    def __init__(self, batches: Sequence[Any]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Any:
        return self.batches[index]


def _identity(batch: Any) -> Any:
    return batch
