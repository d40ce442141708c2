"""Containers that use the memory of workers: those that grow with every sample, and those that forks copy.

An unbounded cache and one with a large bound look the same from outside. So a growing container is overfilled: it
receives references to what it holds already, doubling each time, and new samples are read in between. One that has a
bound stops growing. A large container of Python objects need not grow: counting references writes to each of its pages,
and so copies it into every forked worker.
"""

from __future__ import annotations

import functools
import gc
import math
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset

from dataguard.lab.core.index_schedules import exists, flat, unique
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.object_graph import Node, reachable
from dataguard.lab.core.source_location import assigned_at, made_at
from dataguard.lab.culprit.line_trace import line_of_change
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.sample_reader import emulate_worker
from dataguard.lab.spy.drive import announce_epoch
from dataguard.lab.spy.usage_readings import descriptors_open
from dataguard.targets.variants import Loader

WARM_UP_READS, MEASURED_READS, OVERFILLED_READS = 8, 16, 3
"""Samples that are read before the first measurement, between two measurements, and after each overfilling: caches of a
decoder fill within the first, and a container that gains an entry in four samples gains four in the second."""
EXPECTED_ENTRIES = 12
"""Entries that a container should gain at its rate before it counts as full, as some samples may add none: it is full
if it gained less than a quarter of them."""
MOST_ADDED = 1 << 17
"""References that are added to a container at most, 1 MiB of them: a larger bound is not found."""
DOUBLINGS = 14
"""How often a container is doubled at most: from `WARM_UP_READS` entries, that is `MOST_ADDED`."""
GROWTH_READS = WARM_UP_READS + MEASURED_READS + OVERFILLED_READS * DOUBLINGS
_CACHED = type(functools.lru_cache(lambda: None))
_CONTAINERS = (dict, list, set, deque)


@dataclass(frozen=True, slots=True)
class GrowingContainer:
    """A container that grew by `rate` entries with every sample.

    It stopped growing at `bound` entries or fewer, or did not up to `tried`; `in_generator`: a running generator holds
    it, as it does the shuffle buffer of a stream; sets are excluded, as they cannot be sampled by position. `at` is the
    file and line that adds an entry, or of the function that caches, or of the class that holds it.
    """

    path: str
    kind: str
    rate: float
    bound: int | None
    tried: int
    in_generator: bool
    at: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class GrowingContainers:
    """What grew, the most obvious first, and how many files stayed open per sample after garbage collection."""

    found: tuple[GrowingContainer, ...]
    opened: float


def find_growing_containers(
    build: Callable[..., Loader], folder: Path, facts: LoaderFacts, limit: int | None
) -> GrowingContainers:
    """Read samples in this disposable process, and find what grows."""
    loader = build()
    recorder = FlightRecorder(folder)
    announce_epoch(loader, 0)
    if facts.num_workers:
        emulate_worker(loader, recorder, facts.num_workers)
    reads = _Reads(loader, recorder, limit)
    roots = {"dataset": loader.dataset, "collate_fn": loader.collate_fn, "stream": reads.stream}
    reads.more(WARM_UP_READS)
    before, counted = _lengths(roots), _counters(roots)
    gc.collect()
    opened = descriptors_open()
    count = reads.more(MEASURED_READS)
    gc.collect()
    opened = descriptors_open() - opened
    grown = [
        (node, (length_of_container(node.value) - before[node.path]) / max(count, 1))
        for node in containers_of(roots)
        if node.path in before and length_of_container(node.value) - before[node.path] >= max(count, 1) / 4
    ]
    grown.sort(key=lambda rated: len(rated[0].line))
    probed = tuple(_probed(node, rate, reads, counted) for node, rate in grown[:2])
    return GrowingContainers(probed, opened / max(count, 1))


class _Reads:
    """New samples, one after the other."""

    def __init__(self, loader: Loader, recorder: FlightRecorder, limit: int | None) -> None:
        self._recorder = recorder
        self._collate = loader.collate_fn if loader.batch_sampler is not None else None
        self.dataset: Any = loader.dataset
        self.stream: Any = None
        if isinstance(loader.dataset, IterableDataset):
            with gate("sample"):
                self.stream = iter(loader.dataset)
            return
        batched = loader.batch_sampler is not None
        order = flat(loader.batch_sampler if batched else loader.sampler, batched=batched)
        self._indices = unique(index for index in order if exists(index, limit))

    def more(self, count: int) -> int:
        """Read so many more, if there are as many, and return how many were read."""
        done = 0
        for index in [None] * count if self.stream is not None else islice(self._indices, count):
            self._recorder.mark(None, "sample", index)
            with gate("sample"):
                try:
                    sample = next(self.stream) if self.stream is not None else self.dataset[index]
                except StopIteration:
                    break
            if self._collate is not None:
                self._take(sample)
            done += 1
        return done

    def _take(self, sample: Any) -> None:
        """Collate the sample alone; a collate_fn that needs more samples is skipped."""
        assert self._collate is not None
        try:
            self._collate([sample])
        except Exception:  # noqa: BLE001
            self._collate = None


def containers_of(roots: Mapping[str, Any]) -> Iterator[Node]:
    """The containers, and functions that cache, which can be reached."""
    return reachable(roots, _is_container, enter=True)


def _is_container(value: Any) -> bool:
    return issubclass(type(value), (_CACHED, *_CONTAINERS))


def _lengths(roots: Mapping[str, Any]) -> dict[str, int]:
    return {node.path: length_of_container(node.value) for node in containers_of(roots)}


def length_of_container(value: Any) -> int:
    """The number of entries; None entries of a list do not count."""
    if isinstance(value, _CACHED):
        return value.cache_info().currsize
    length = next(kind for kind in _CONTAINERS if isinstance(value, kind)).__len__(value)
    if isinstance(value, list) and length <= MOST_ADDED:
        return sum(entry is not None for entry in list.__iter__(value))
    return length


def _counters(roots: Mapping[str, Any]) -> dict[tuple[int, str], float]:
    """The numeric attributes next to a container, such as the bytes that a cache counts."""
    return {
        (id(node.holder.value), name): number
        for node in containers_of(roots)
        if node.holder is not None
        for name, number in _numbers(node.holder.value).items()
    }


def _numbers(holder: Any) -> dict[str, float]:
    state = getattr(holder, "__dict__", None)
    return {name: value for name, value in state.items() if type(value) in (int, float)} if type(state) is dict else {}


def _probed(node: Node, rate: float, reads: _Reads, counted: Mapping[tuple[int, str], float]) -> GrowingContainer:
    holder = node.holder.value if node.holder is not None else None
    rising = [name for name, value in _numbers(holder).items() if value > counted.get((id(holder), name), value)]
    reading = partial(reads.more, math.ceil(1 / rate))
    line = line_of_change(reading, partial(length_of_container, node.value))
    bound, tried = _bound(node.value, rate, reads, lambda: _double(holder, rising))
    objects = [step_node.value for step_node in node.line[1:] if not isinstance(step_node.value, _CONTAINERS)]
    in_generator = any("<local" in step_node.step for step_node in node.line) and not isinstance(node.value, set)
    made: Any = getattr(node.value, "__wrapped__", None)  # of a function that caches, it is its decorator
    owner = made or (objects[0] if objects else None)
    at = line[:2] if line and made is None else made_at(owner) if owner is not None else None
    return GrowingContainer(node.path, _kind(node.value), rate, bound, tried, in_generator, at)


def _double(holder: Any, names: Sequence[str]) -> None:
    """Double the attributes that count entries, or their bytes."""
    for name in names:
        vars(holder)[name] *= 2


def _kind(value: Any) -> str:
    return "lru_cache" if isinstance(value, _CACHED) else type(value).__name__


def _bound(value: Any, rate: float, reads: _Reads, double: Callable[[], None]) -> tuple[int | None, int]:
    """The length at which the container stops growing, if known, and the length up to which it did not."""
    if isinstance(value, _CACHED):
        return value.cache_parameters()["maxsize"], length_of_container(value)
    if isinstance(value, deque):
        return value.maxlen, len(value)
    tried = length_of_container(value)
    if isinstance(value, list) and tried < len(value):  # its entries were allocated in advance
        return None, tried
    for _ in range(DOUBLINGS):
        try:
            _overfill(value, length_of_container(value))
            double()
            full = length_of_container(value)
            if full > MOST_ADDED or not (count := reads.more(OVERFILLED_READS)):
                break
            if length_of_container(value) - full < count:
                count += reads.more(math.ceil(EXPECTED_ENTRIES / rate))
                if rate * count < 1:
                    break
        except Exception:  # noqa: BLE001 - the user's code may fail on these entries; then nothing more is known
            break
        if length_of_container(value) - full < rate * count / 4:
            return full, tried
        tried = full
    return None, tried


def _overfill(value: Any, count: int) -> None:
    """Add so many references to what the container holds already."""
    if isinstance(value, list):
        value[:0] = value[:1] * count
    elif isinstance(value, set):
        value |= {_Key() for _ in range(count)}
    elif isinstance(value, dict):
        some = next(iter(dict.values(value)))
        put = OrderedDict.__setitem__ if isinstance(value, OrderedDict) else dict.__setitem__
        for _ in range(count):
            put(value, _Key(), some)


class _Key:
    """A key that equals no other."""


FEWEST_ENTRIES = 10_000
"""The fewest entries of a container that counts as large: smaller ones take about a megabyte in each worker."""
SAMPLED_ENTRIES = 200
"""Entries whose sizes are added up for an estimate of all: their mean is exact to 7 % of the deviation of sizes."""
MOST_DEPTH = 4
"""How deep the parts of an entry are followed, as of a dictionary of lists of tuples."""
_COPIED = (dict, list, tuple, set, frozenset)


@dataclass(frozen=True, slots=True)
class CopiedContainer:
    """A container, the number of its entries, and about how many bytes these take, without its own table.

    `at` is the file and line that assigns it to the object that holds it, or of the class of that.
    """

    path: str
    kind: str
    entries: int
    bytes: int
    at: tuple[str, int] | None


def find_copied_containers(dataset: Any) -> tuple[CopiedContainer, ...]:
    """The large containers in the dataset, the largest first."""
    copied = []
    for node in reachable({"dataset": dataset}, _is_large, enter=True):
        value = node.value
        count = value.size if isinstance(value, np.ndarray) else len(value)
        held = round(count * _mean_bytes(value, count))
        holder = next((link.value for link in node.line[1:] if not isinstance(link.value, _COPIED)), dataset)
        assigned = assigned_at(holder, node.path.rpartition(".")[2])
        at = assigned[:2] if assigned else made_at(holder)
        copied.append(CopiedContainer(node.path, type(value).__name__, count, held, at))
    return tuple(sorted(copied, key=lambda container: -container.bytes))


def _is_large(value: Any) -> bool:
    kind = type(value)
    if issubclass(kind, np.ndarray):
        return bool(value.dtype == object and value.size >= FEWEST_ENTRIES)
    builtin = next((base for base in _COPIED if issubclass(kind, base)), None)
    return builtin is not None and builtin.__len__(value) >= FEWEST_ENTRIES


def _mean_bytes(value: Any, count: int) -> float:
    """The mean bytes of an entry; objects shared by several entries count once, and small integers not at all."""
    seen: set[int] = set()
    sampled = list(_some(value, count))
    return sum(_bytes(entry, seen, 0) for entry in sampled) / max(len(sampled), 1)


def _some(value: Any, count: int) -> Iterator[Any]:
    """Evenly spaced entries of a sequence, or the first ones of anything else."""
    if isinstance(value, list | tuple):
        yield from (value[number] for number in range(0, count, max(count // SAMPLED_ENTRIES, 1)))
    elif isinstance(value, np.ndarray):
        yield from (value.flat[number] for number in range(0, count, max(count // SAMPLED_ENTRIES, 1)))
    else:
        yield from islice(dict.items(value) if isinstance(value, dict) else iter(value), SAMPLED_ENTRIES)


def _bytes(value: Any, seen: set[int], depth: int) -> int:
    if id(value) in seen or isinstance(value, type) or depth > MOST_DEPTH:
        return 0
    seen.add(id(value))
    if isinstance(value, int) and abs(value) < 256:
        return 0
    parts: Iterable[Any] = ()
    if isinstance(value, dict):
        parts = (part for pair in islice(value.items(), SAMPLED_ENTRIES) for part in pair)
    elif isinstance(value, list | tuple | set | frozenset):
        parts = islice(value, SAMPLED_ENTRIES)
    elif hasattr(value, "__dict__"):
        parts = (vars(value),)
    try:
        size = sys.getsizeof(value)
    except Exception:  # noqa: BLE001 - a user-defined type may raise anything
        size = 64
    return size + sum(_bytes(part, seen, depth + 1) for part in parts)
