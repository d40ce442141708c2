"""What the observed processes send back: small, frozen, plain data. Standard library only.

Indices as samplers yield them, the leaves of samples and batches, their values, the states and seeds of random
generators, the memory of processes, and exceptions. A reader picks the types that it knows.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, NamedTuple

from dataguard.core.incident import Incident, shown_index

Index = int | str | tuple[Any, ...] | None
"""An index as a sampler yielded it, if it is plain enough to be requested again; None for streams."""


def plain_index(index: Any) -> Index:
    """The index itself if it is a plain number, string or tuple of such; None otherwise.

    numpy integers and 0-d integer tensors, which samplers do yield, become int.
    """
    if isinstance(index, tuple):
        items = tuple(plain_index(item) for item in index)
        return None if None in items else items
    if isinstance(index, str):
        return index
    try:
        return operator.index(index)
    except Exception:  # noqa: BLE001 - not a number; the user's own index may raise anything
        return None


def members(batch: Any) -> list[Any]:
    """The indices of a batch; one that cannot be iterated is its own only member, since torch itself refuses it."""
    try:
        return list(batch)
    except Exception:  # noqa: BLE001 - see above
        return [batch]


def rereadable(batch: Any) -> Any:
    """The batch itself; a list of its indices if it can be iterated only once, or is a list that may change later."""
    return list(batch) if type(batch) is list or hasattr(batch, "__next__") else batch


def streamed(dataset: Any) -> Iterator[Any]:
    """The samples of a stream, as torch takes them: its iterator needs no `__iter__` of its own."""
    samples = iter(dataset)
    while True:
        try:
            sample = next(samples)
        except StopIteration:
            return
        yield sample


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the last axis of a leaf: the sum, the two largest and the smallest of its values."""

    sum: float
    largest: float
    second: float
    least: float


@dataclass(frozen=True, slots=True)
class Numbers:
    """The values of one leaf of a sample or batch, which may be a label, boxes or an image.

    `low` and `high` are the smallest and the largest finite value. `whole`: all are integers; `counts` is how often
    each occurs, if there are few. `divided`: the values times 255 are integers, and `counts` holds these. `rows`
    summarize each row of a table in a batch, and `values` are all values, if there are few. `layout` and `canvas` are
    the format of boxes and the height and width of their image, if their type has these.
    """

    path: str
    type_name: str
    shape: tuple[int, ...]
    low: float
    high: float
    whole: bool
    counts: Mapping[int, int] | None = None
    divided: bool = False
    rows: tuple[Row, ...] = ()
    values: tuple[float, ...] = ()
    layout: str | None = None
    canvas: tuple[int, int] | None = None

    @property
    def is_float(self) -> bool:
        """Whether its values are floating point numbers."""
        return "float" in self.type_name

    @property
    def size(self) -> int:
        """The number of values."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """The values in the leaves of one sample or, if `position` is None, of a whole batch."""

    worker: int | None
    batch: int
    position: int | None
    index: Index
    numbers: tuple[Numbers, ...]

    @property
    def place(self) -> tuple[int | None, int, int | None]:
        """The worker, the number of its batch, and the position there."""
        return self.worker, self.batch, self.position


FEWEST_VALUES = 64
"""The fewest values of an array that may be called constant: fewer are labels, sizes or boxes, and often equal."""
FEWEST_SERIES_VALUES = 1000
"""The fewest values of a row that may be called constant: a waveform, or another series."""
_ENTRY = re.compile(r".\[\d+\]")
"""An entry of a list inside a sample."""
_KEY = re.compile(r"key|\bid\b|_id\b|index|name|path|file|url", re.IGNORECASE)
"""How leaves are named that identify a sample to its reader."""


@dataclass(frozen=True, slots=True)
class LeafRecord:
    """One value at the bottom of a sample or batch.

    `kind` is the type's name, `shape` is None if it has none, `digest` is a hash of 8 bytes over dtype, shape and
    content. `nan` and `inf` count non-finite elements; `mask`: all of them are -inf in an additive mask. `shown` is the
    repr of a short string or integer, `device` where a tensor is, if not on the CPU. `constant`: an array of some size
    with a single value, or a single colour.
    """

    path: str
    kind: str
    dtype: str | None
    shape: tuple[int, ...] | None
    digest: bytes
    nan: int = 0
    inf: int = 0
    mask: bool = False
    shown: str | None = None
    device: str | None = None
    constant: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # A sample may have thousands of leaves: what dataclasses with slots bring along takes three times as long.
        return LeafRecord, _fields(self)

    @property
    def size(self) -> int:
        """The number of values; 1 without a shape."""
        return math.prod(self.shape or ())

    @property
    def is_coloured(self) -> bool:
        """Whether it has the shape of an image with three or four channels."""
        if self.kind == "PIL.Image":
            return self.dtype not in ("1", "L", "P", "I", "I;16", "F")
        shape = self.shape or ()
        return len(shape) == 3 and not {shape[0], shape[-1]}.isdisjoint({3, 4}) and "int64" not in (self.dtype or "")

    @property
    def type_name(self) -> str:
        """The dtype of its values, such as float32; a Python number has that of the tensor it becomes."""
        name = self.dtype or {"int": "int64", "float": "float64"}.get(self.kind, self.kind)
        return "str" if name.lstrip("<>|=")[:1] in ("U", "S") else name


_fields = attrgetter(*(field.name for field in fields(LeafRecord)))


def blank_of(leaves: Sequence[LeafRecord]) -> LeafRecord | None:
    """The first image of a sample if each image has a single colour; of other arrays, then long rows, without images.

    Otherwise the first coloured image of a single colour that has the form of another one: left and right, before and
    after.
    """
    tables = [leaf for leaf in leaves if len(leaf.shape or ()) > 1 and leaf.size >= FEWEST_VALUES]
    coloured = [leaf for leaf in tables if leaf.is_coloured]
    rows = [
        leaf
        for leaf in leaves
        if len(leaf.shape or ()) == 1 and leaf.size >= FEWEST_SERIES_VALUES and "float" in leaf.type_name
    ]
    inputs = coloured or tables or rows
    if all(leaf.constant for leaf in inputs):
        return inputs[0] if inputs else None
    shown = {(leaf.shape, leaf.type_name) for leaf in coloured if not leaf.constant}
    return next((leaf for leaf in coloured if leaf.constant and (leaf.shape, leaf.type_name) in shown), None)


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One sample as the dataset returned it, before collating. `worker` is None in the main process.

    `batch` numbers the fetches of that worker and epoch, and `position` is the place in the batch. `shown` is the index
    as messages show it, and `seconds` is how long reading took.
    """

    worker: int | None
    epoch: int
    batch: int
    position: int
    index: Index
    shown: str | None
    seconds: float
    leaves: tuple[LeafRecord, ...]

    @property
    def digest(self) -> tuple[tuple[str, bytes], ...]:
        """The identity of the content: every leaf's path and digest."""
        return tuple((leaf.path, leaf.digest) for leaf in self.leaves)

    @property
    def name(self) -> str | None:
        """The leaf that identifies the sample to a reader, with its value: a key or path, else another string."""
        texts = [leaf for leaf in self.leaves if leaf.shown]
        keys = [leaf for leaf in texts if _KEY.search(leaf.path)] or [leaf for leaf in texts if leaf.kind == "str"]
        return f"{keys[0].path.lstrip('.') or 'sample'} = {keys[0].shown}" if keys else None

    @property
    def blank(self) -> LeafRecord | None:
        """See `blank_of`."""
        return blank_of(self.leaves)

    @property
    def structure(self) -> tuple[tuple[object, ...], ...]:
        """What decides whether samples stack: the path, type, dtype and shape of every leaf."""
        return tuple((leaf.path, leaf.kind, leaf.dtype, leaf.shape) for leaf in self.leaves)

    @property
    def form(self) -> frozenset[tuple[str, str, int]]:
        """The path, type and rank of every leaf, without the entries of lists inside a sample."""
        leaves = (leaf for leaf in self.leaves if not _ENTRY.search(leaf.path))
        return frozenset((leaf.path, leaf.type_name, len(leaf.shape or ())) for leaf in leaves)


def sample_records(
    fetch: tuple[int | None, int, int],
    indices: Sequence[Any],
    seconds: Sequence[float],
    leaves: Iterable[tuple[LeafRecord, ...]],
) -> Iterator[SampleRecord]:
    """The samples of one fetch, by the leaves of each; `fetch` is its worker, epoch and number."""
    for position, sample_leaves in enumerate(leaves):
        given = indices[position] if position < len(indices) else None
        yield SampleRecord(
            *fetch,
            position,
            plain_index(given),
            None if given is None else shown_index(given),
            seconds[position] if position < len(seconds) else 0.0,
            sample_leaves,
        )


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch as collate_fn returned it, inside the worker.

    `shared_bytes` is the shared memory needed to send it, each tensor storage rounded up to 4096 bytes. If collate_fn
    fails, `refuses_each` is whether it fails on each sample alone, not only on their combination. `threads` counts
    those of the process, of Python's only the main one. `began` is when its samples were requested, in seconds by a
    clock that all processes share.
    """

    worker: int | None
    epoch: int
    batch: int
    size: int
    indices: tuple[Index, ...]
    fetch_seconds: float
    collate_seconds: float
    leaves: tuple[LeafRecord, ...]
    shared_bytes: int
    incident: Incident | None = None
    refuses_each: bool = False
    threads: int = 1
    began: float = 0.0


def named_leaves(record: SampleRecord | BatchRecord) -> Iterator[tuple[str, LeafRecord]]:
    """The leaves of a record with their names in reports: `sample['image']`, `batch['image']`."""
    root = "sample" if isinstance(record, SampleRecord) else "batch"
    return ((root + leaf.path, leaf) for leaf in record.leaves)


class WorkerEpoch(NamedTuple):
    """One worker in one epoch; the main process counts as worker 0."""

    worker: int
    epoch: int


@dataclass(frozen=True, slots=True)
class GeneratorState:
    """A random generator that was found in a worker: the path to it, its type and a digest of its state.

    A path reads `dataset.transform.rng`; the generators that python, numpy and torch share are called `global ...`.
    `at` is the file and line of what holds it. `part` is the path of the library's object that it belongs to, if any,
    and `reseed` the path of a method that reseeds it. `made` distinguishes objects at the same path.
    """

    path: str
    kind: str
    state: bytes
    at: tuple[str, int] | None
    reseed: str | None = None
    part: str | None = None
    made: int = 0

    @property
    def library(self) -> str | None:
        """The library that it belongs to, if its state can only be probed and not read."""
        return self.kind if self.path == f"global {self.kind}" else None


@dataclass(frozen=True, slots=True)
class Census:
    """Every generator that was found in a worker after so many fetches of an epoch.

    `unreadable` names imported libraries with a generator whose state cannot be read; `probed` shows by its next
    numbers what state it was in.
    """

    worker: int | None
    epoch: int
    fetches: int
    generators: tuple[GeneratorState, ...]
    unreadable: tuple[str, ...]
    probed: tuple[GeneratorState, ...] = ()

    @property
    def where(self) -> WorkerEpoch:
        """The worker and epoch in which it was taken."""
        return WorkerEpoch(self.worker or 0, self.epoch)

    @property
    def states(self) -> dict[str, GeneratorState]:
        """All generators by path, the probed ones included."""
        return {state.path: state for state in (*self.generators, *self.probed)}


@dataclass(frozen=True, slots=True)
class Seeding:
    """A seed that the user's code gave to a random generator of a `kind`, and where.

    `direct`: the user's line gives it, not a library that this line calls. `epochs`: the user's code around it names an
    epoch. `path` is that of the generator, if it was searched for.
    """

    kind: str
    seed: str
    file: str
    line: int
    function: str
    direct: bool = True
    epochs: bool = False
    path: str | None = None

    @property
    def place(self) -> tuple[str, str, int]:
        """What distinguishes the seeding calls of the user's code."""
        return self.kind, self.file, self.line


@dataclass(frozen=True, slots=True)
class Seedings:
    """The seeds given during one fetch, and the libraries whose own code drew in it, if they were watched."""

    worker: int | None
    epoch: int
    batch: int
    seeds: tuple[Seeding, ...]
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pages:
    """Bytes of a process by kind of page: anonymous pages, and dirty ones, `private` or `shared` with others."""

    anonymous: int
    private: int
    shared: int


@dataclass(frozen=True, slots=True)
class Reading:
    """A process after so many `samples`: bytes `allocated`, its `pages` if counted, and open `descriptors`.

    `in_use` are the bytes of live objects, None if they are unknown: growth shows in it after few samples, as nothing
    is rounded to pages. `at` is the time, and `spent` the CPU time of all earlier readings, in seconds.
    """

    worker: int | None
    epoch: int
    samples: int
    allocated: int
    in_use: int | None
    pages: Pages | None
    descriptors: int
    at: float
    spent: float


@dataclass(frozen=True, slots=True)
class Pools:
    """The libraries of a process that use more than one thread, each with its number of threads."""

    worker: int | None
    epoch: int
    pools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception in a worker, caught before torch handles it."""

    worker: int | None
    epoch: int
    incident: Incident


@dataclass(frozen=True, slots=True)
class Refusal:
    """An exception of the user's objects, raised when an instrument inspected the samples of a batch."""

    incident: Incident


@dataclass(frozen=True, slots=True)
class Stop:
    """A StopIteration from a map-style dataset, which torch interprets as the end of the epoch."""

    worker: int | None
    epoch: int
    incident: Incident
