"""What collate_fn makes of a few samples: which row of each leaf holds which sample.

`CollateInputs` holds samples in a process that emulates a worker. They are read once and collated repeatedly: in order,
reversed, alone, each twice (a `Form` each). A row belongs to a sample if it holds its content.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dataguard.core.model import NotApplicable, NotTested, Undecided
from dataguard.lab.batches.batch_rows import (
    INTEGERS,
    Column,
    Content,
    ShiftedNumbers,
    UnmovedNumbers,
    columns,
    contents_of,
    holds,
    is_ambiguous,
    key,
    lossy_casts,
    may_be_joined,
    replaced_fields,
    sample_contents,
    shifted_numbers,
    unmoved_numbers,
)
from dataguard.lab.core.leaves import bytes_of, iter_leaves, leaves_of
from dataguard.lab.core.object_graph import is_handle
from dataguard.lab.core.records import BatchRecord, Index, LeafRecord, SampleRecord, streamed
from dataguard.lab.process.incidents import FlightRecorder, incident_of
from dataguard.lab.reading.epoch_trace import EpochTrace, gate
from dataguard.lab.reading.sample_reader import emulate_worker
from dataguard.lab.rng.frozen_rng import RngFreezer
from dataguard.lab.rng.rng_discovery import SEED
from dataguard.targets.variants import Loader

MOST_COLLATED = 8
"""How many samples of a batch are used unless collate_fn requires more: each form collates all of them."""
LARGEST_BATCH = 64
"""The largest batch that is read completely for a collate_fn that requires it."""
BATCH_SEEDS = ((SEED,), (SEED + 1,))
"""The seeds of all generators before each batch: the first for all batches, the second to compare."""
READ_SEEDS = tuple(range(SEED + 2, SEED + 2 + LARGEST_BATCH))
"""The seeds before each read: one per sample, because a dataset may generate samples entirely at random."""


def choose(epoch: EpochTrace, *, mixes: bool = False) -> tuple[Index, ...]:
    """The indices of the batch with the most varied samples; as many None for a stream.

    `mixes`: any samples may meet in a batch; some that share an identifier then do. Raises NotApplicable if the indices
    cannot be requested again.
    """
    members = epoch.members()
    good = [batch for batch in epoch.batches if batch.incident is None]
    batches = [members[batch.worker, batch.batch] for batch in good or epoch.batches]
    best = max(batches, key=_variety, default=[])
    chosen = _varied_first(best)
    if mixes:
        chosen = _with_namesakes(chosen, epoch.samples)
    if not chosen:
        raise NotApplicable("no batch of known samples was collated")
    if any(sample.shown is not None and sample.index is None for sample in chosen):
        raise NotTested("the sampler's indices are not numbers, strings or tuples: samples cannot be read again")
    return tuple(sample.index for sample in chosen)


def _variety(samples: Sequence[SampleRecord]) -> int:
    """How many different structures there are, plus how many contents of each leaf."""
    contents = {(leaf.path, leaf.digest) for sample in samples for leaf in sample.leaves}
    return len({sample.structure for sample in samples}) + len(contents)


def _varied_first(samples: Sequence[SampleRecord]) -> list[SampleRecord]:
    """The samples, each index or content once, ordered so that the first few differ in structure."""
    distinct = list({sample.digest if sample.index is None else sample.index: sample for sample in samples}.values())
    kinds = {sample.structure: number for number, sample in reversed(list(enumerate(distinct)))}
    heads = set(list(dict.fromkeys(kinds.values()))[:MOST_COLLATED])
    few = sorted(
        heads | set(islice((n for n in range(len(distinct)) if n not in heads), max(0, MOST_COLLATED - len(heads))))
    )
    return [distinct[n] for n in few] + [distinct[n] for n in range(len(distinct)) if n not in few]


def _with_namesakes(chosen: list[SampleRecord], samples: Sequence[SampleRecord]) -> list[SampleRecord]:
    """The samples, with the last of the first few replaced by others that have an identifier of an earlier one.

    A single value that no two of the first few share may be one: a collate_fn that keys samples by it loses some.
    """
    few, rest = chosen[:MOST_COLLATED], chosen[MOST_COLLATED:]
    kept = len(few)
    for path in [leaf.path for leaf in few[0].leaves if not leaf.shape] if few else ():
        owners = {leaf.digest: sample for sample in few for leaf in sample.leaves if leaf.path == path}
        namesake = next((sample for sample in samples if _is_namesake(sample, path, few[: kept - 1], few)), None)
        if len(owners) == len(few) and namesake is not None and kept > 2:
            kept -= 1
            few[kept] = namesake
    return few + [sample for sample in rest if all(sample is not other for other in few)]


def _is_namesake(sample: SampleRecord, path: str, of: Sequence[SampleRecord], others: Sequence[SampleRecord]) -> bool:
    """Whether a sample has the same value at a path as one `of` these, and something else otherwise."""
    digests = {leaf.digest for leaf in sample.leaves if leaf.path == path}
    same = [other for other in of if any(leaf.path == path and leaf.digest in digests for leaf in other.leaves)]
    return any(other.digest != sample.digest for other in same) and all(other.index != sample.index for other in others)


def collate_seconds(batches: Sequence[BatchRecord]) -> float:
    """The median time of collate_fn per batch, in seconds; the first call may import something."""
    return statistics.median(batch.collate_seconds for batch in batches) if batches else 0.0


class Refused(Exception):
    """collate_fn or `__getitems__` raised; the original exception is the cause."""


class CollateInputs:
    """Samples of a loader in this process, which emulates a worker if the loader has any.

    If `frozen`, all generators, including those in the user's objects, start every read and every batch in the same
    state.
    """

    def __init__(self, loader: Loader, folder: Path, indices: Sequence[Index], *, frozen: bool = True) -> None:
        self.loader = loader
        self.indices = list(indices)
        self.reads = 0
        self.recorder = FlightRecorder(folder)
        self._roots = {"dataset": loader.dataset, "collate_fn": loader.collate_fn}
        self._freezer = RngFreezer((*BATCH_SEEDS, READ_SEEDS)) if frozen else None
        self._numbers: dict[Index, int] = {}
        if loader.num_workers:
            emulate_worker(loader, self.recorder, 1)
        self.samples: list[Any] = []

    def _frozen(self, row: int, number: int = 0) -> contextlib.AbstractContextManager[None]:
        return self._freezer.frozen(row, number, self._roots) if self._freezer else contextlib.nullcontext()

    @property
    def is_stream(self) -> bool:
        """Whether the samples have no indices."""
        return self.indices[0] is None

    def fill(self, count: int) -> None:
        """Read samples until there are `count` of them, or no more."""
        if self.is_stream:
            with gate("sample"), self._frozen(len(BATCH_SEEDS)):
                self.samples = list(islice(streamed(self.loader.dataset), count))
            self.reads += len(self.samples)
            return
        self.samples += [self.read(index) for index in self.indices[len(self.samples) : count]]

    def keep(self, positions: Sequence[int]) -> None:
        """Drop all other samples."""
        self.samples = [self.samples[position] for position in positions]
        self.indices = [self.indices[position] for position in positions]

    def read(self, index: Any) -> Any:
        """Read a sample of a map-style dataset again."""
        self.reads += 1
        self.recorder.mark(None, "sample", index)
        number = self._numbers.setdefault(index, len(self._numbers))
        with gate("sample"), self._frozen(len(BATCH_SEEDS), number):
            return self.loader.dataset[index]

    def read_getitems(self, indices: Sequence[Any]) -> Any:
        """What `__getitems__` returns for these indices. Raises Refused if it raises."""
        self.reads += len(indices)
        self.recorder.mark(None, "sample", indices[0])
        dataset: Any = self.loader.dataset
        try:
            with self._frozen(len(BATCH_SEEDS)):
                return dataset.__getitems__(list(indices))
        except Exception as error:
            raise Refused from error

    def fresh(self, position: int) -> Any:
        """A copy of a sample that collate_fn may modify; a sample that cannot be copied is read again."""
        try:
            return duplicate(self.samples[position])
        except Exception as error:
            if self.is_stream:
                raise Undecided(f"samples of the stream cannot be copied: {type(error).__name__}: {error}") from error
            return self.read(self.indices[position])

    def collate(self, positions: Sequence[int], seed: int = 0, number: int = 0) -> Any:
        """The batch of copies of these samples. Raises Refused if collate_fn raises."""
        return self.collate_these([self.fresh(position) for position in positions], seed, number)

    def collate_these(self, samples: list[Any], seed: int = 0, number: int = 0) -> Any:
        """The batch of exactly these objects, under one of `BATCH_SEEDS`, or beyond them of `READ_SEEDS`, by number.

        Raises Refused if collate_fn raises.
        """
        self.recorder.mark(None, "collate", None)
        try:
            with self._frozen(seed, number):
                return self.loader.collate_fn(samples)
        except Exception as error:
            if incident_of(error, "collate").out_of_shared_memory:
                raise Undecided("too little shared memory to collate samples repeatedly") from error
            raise Refused from error


def duplicate(sample: Any) -> Any:
    """A deep copy of a sample but for open decoders; a tensor that is a view of a larger one is cloned alone."""
    copies = {}
    for _, leaf in iter_leaves(sample):
        if isinstance(leaf, torch.Tensor) or is_handle(leaf):
            copies[id(leaf)] = leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
    return copy.deepcopy(sample, copies)


REREAD, FEW_REREAD, REREAD_TIMES = 4, 1, 4
"""How many samples are read again after being collated, how many of those that are slow, and how often each."""
COLLATED_BATCHES = 2 * len(BATCH_SEEDS) + 6
"""How many batches are collated, apart from those of one sample."""
DOUBLED = "each twice"
MOST_BYTES = 128_000_000
"""The most bytes of all samples together; about ten copies of them exist at a time."""

Rows = tuple[frozenset[int], ...]
"""For each row of a leaf, the samples that it may hold."""


@dataclass(frozen=True, slots=True)
class RecognizedLeaf:
    """A leaf of the batch whose rows are all recognized.

    `source` identifies leaves of the same content: what this leaf is for each sample alone.
    """

    leaf: str
    source: bytes
    rows: Rows


@dataclass(frozen=True, slots=True)
class Form:
    """One batch: the positions of the collated samples, and the leaves in which they are recognized.

    `orders` are leaves that hold a permutation of row numbers, such as one that restores sorted rows.
    """

    positions: tuple[int, ...]
    recognized: tuple[RecognizedLeaf, ...]
    orders: tuple[tuple[int, ...], ...] = ()

    @property
    def pairs(self) -> frozenset[tuple[str, bytes]]:
        """Each recognized leaf with its source."""
        return frozenset((leaf.leaf, leaf.source) for leaf in self.recognized)


@dataclass(frozen=True, slots=True)
class Collation:
    """Batches of the samples at `indices`, by seed and form; None is a sample of a stream.

    `collates_singly`: each sample yields something in a batch of its own. `equal_samples` are the samples that are
    equal in a source. `mutated` are leaves of samples that differ when read again after being collated. `truncated` are
    leaves whose values differ until the batch casts them to integers, all of them equal; `overflowed` are leaves whose
    integers do not fit the dtype of the batch. `replaced` are leaves that hold another leaf of their sample, and
    `shifted` are those whose numbers grow as indices do, and are none; those of `unmoved` are indices, and do not grow.
    """

    indices: tuple[Index, ...]
    shown: tuple[str, ...]
    forms: Mapping[tuple[int, str], Form]
    collates_singly: bool
    equal_samples: Mapping[bytes, Rows]
    mutated: Mapping[str, Index] = field(default_factory=dict)
    truncated: Mapping[str, str] = field(default_factory=dict)
    overflowed: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)
    shifted: Mapping[str, ShiftedNumbers] = field(default_factory=dict)
    unmoved: Mapping[str, UnmovedNumbers] = field(default_factory=dict)


def read_samples(inputs: CollateInputs) -> None:
    """Read a few samples, or the whole batch if collate_fn requires it. Raises Refused if it fails.

    Raises Undecided for samples so large that several batches of them would fill the memory.
    """
    inputs.fill(1)
    size = max((bytes_of(sample) for sample in inputs.samples), default=0)
    affordable = MOST_BYTES // max(size, 1)
    if affordable < 2:
        raise Undecided(f"a sample takes {size / 1e6:.0f} MB, too much to collate several of them repeatedly")
    inputs.fill(min(len(inputs.indices), MOST_COLLATED, affordable))
    try:
        inputs.collate(range(len(inputs.samples)))
    except Refused:
        if not len(inputs.samples) < len(inputs.indices) <= min(LARGEST_BATCH, affordable):
            raise
        inputs.fill(len(inputs.indices))
        inputs.collate(range(len(inputs.samples)))


def collate_singly(inputs: CollateInputs) -> list[dict[str, Column]]:
    """The columns of a batch of each sample alone, or twice; empty if collate_fn accepts neither.

    Samples that yield nothing are dropped, as long as others yield something.
    """
    for times in (1, 2):
        batches = [_columns(inputs, [position] * times, 0) for position in range(len(inputs.samples))]
        if any(batches):
            inputs.keep([position for position, columns in enumerate(batches) if columns])
            return [columns for columns in batches if columns]
    return []


def collate_forms(inputs: CollateInputs, single_columns: Sequence[Mapping[str, Column]], reread: int) -> Collation:
    """Collate the samples in every form, and find them in the batch; so many are read again after that.

    `single_columns` is the result of `collate_singly`.
    """
    count = len(inputs.samples)
    contents = contents_of(inputs.samples)
    order = tuple(range(count))
    wanted = {(seed, name): form for seed in range(len(BATCH_SEEDS)) for name, form in _orders(order).items()}
    wanted[0, DOUBLED] = tuple(sorted(order * 2))[:count]
    columns_of = {form: _columns(inputs, positions, form[0]) for form, positions in wanted.items()}
    sources = _Sources(single_columns, contents)
    forms = {
        form: Form(wanted[form], sources.recognized(columns_by_name, wanted[form]), _permutations(columns_by_name))
        for form, columns_by_name in columns_of.items()
    }
    always = frozenset.intersection(*(form.pairs for form in forms.values()))
    kept = {
        form: replace(
            candidate, recognized=tuple(leaf for leaf in candidate.recognized if (leaf.leaf, leaf.source) in always)
        )
        for form, candidate in forms.items()
    }
    truncated, overflowed = lossy_casts(columns_of[0, "in order"], contents)
    joined = _joined(inputs, order) if may_be_joined(contents) else {}
    return Collation(
        tuple(inputs.indices[:count]),
        tuple(map(str, inputs.indices[:count])),
        kept,
        bool(single_columns),
        {source: sources.equal_samples(source) for _, source in always},
        _mutated(inputs, reread),
        truncated,
        overflowed,
        replaced=replaced_fields(columns_of[0, "in order"], contents),
        shifted=shifted_numbers(joined, contents),
        unmoved=unmoved_numbers(joined, contents),
    )


def _joined(inputs: CollateInputs, order: Sequence[int]) -> dict[str, Content]:
    try:
        return sample_contents(inputs.collate(order))
    except Refused:
        return {}


def _orders(order: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {"in order": order, "reversed": order[::-1]}


def _columns(inputs: CollateInputs, positions: Sequence[int], seed: int) -> dict[str, Column]:
    try:
        batch = inputs.collate(positions, seed)
    except Refused:  # for example, it rejects repeated samples: then nothing is recognized
        return {}
    return {column.name: column for column in columns(batch, len(positions))}


def _permutations(columns_by_name: Mapping[str, Column]) -> tuple[tuple[int, ...], ...]:
    leaf_numbers = (
        tuple(int(row) for row in column.rows if isinstance(row, Tensor) and not row.ndim and row.dtype in INTEGERS)
        for column in columns_by_name.values()
    )
    return tuple(numbers for numbers in leaf_numbers if sorted(numbers) == list(range(len(numbers))) != list(numbers))


_NONE = Column("", ())


class _Sources:
    """What can be recognized in a batch: its leaves for each of the samples alone.

    If samples cannot be collated alone, their own leaves are used, unless two samples share a value.
    """

    def __init__(
        self, single_columns: Sequence[Mapping[str, Column]], contents: Sequence[Mapping[str, Content]]
    ) -> None:
        self.single_columns = single_columns
        self.sample_contents: dict[bytes, Sequence[tuple[Content, ...]]] = {}
        """By source: the contents of each sample."""
        self._of_leaf: dict[str, bytes] = {}
        if single_columns:
            for name in single_columns[0]:
                if all(name in columns_by_name and columns_by_name[name].rows for columns_by_name in single_columns):
                    self._of_leaf[name] = self._add([columns_by_name[name].rows for columns_by_name in single_columns])
        else:
            for path in contents[0]:
                values = [(content[path],) for content in contents if path in content]
                if len(values) == len({key(value) for (value,) in values}) == len(contents):
                    self._add(values)

    def _add(self, contents: Sequence[tuple[Content, ...]]) -> bytes:
        digest = hashlib.blake2b(digest_size=8)
        for content in chain.from_iterable(contents):
            digest.update(key(content))
        source = digest.digest()
        self.sample_contents[source] = contents
        return source

    def _candidates(self, name: str) -> list[bytes]:
        """What a leaf may hold: what it is for each sample alone or, without such, what no two samples share."""
        leaf_source = self._of_leaf.get(name)
        if leaf_source is not None or any(
            columns_by_name.get(name, _NONE).rows for columns_by_name in self.single_columns
        ):
            return [leaf_source] if leaf_source is not None else []
        return [
            source
            for source in self.sample_contents
            if all(len(equal_samples) == 1 for equal_samples in self.equal_samples(source))
        ]

    def equal_samples(self, source: bytes) -> Rows:
        """For each sample, those that are equal to it in a source."""
        keys = [frozenset(map(key, alternatives)) for alternatives in self.sample_contents[source]]
        return tuple(frozenset(n for n, other in enumerate(keys) if other & equal) for equal in keys)

    def recognized(self, columns_by_name: Mapping[str, Column], positions: Sequence[int]) -> tuple[RecognizedLeaf, ...]:
        """The columns whose rows are all recognized, by sources that distinguish samples."""
        recognized = []
        for name, column in columns_by_name.items():
            for source in self._candidates(name):
                rows = self._rows(column, source, sorted(set(positions)))
                if rows and len(set(self.equal_samples(source))) > 1:
                    recognized.append(RecognizedLeaf(name, source, rows))
        return tuple(recognized)

    def _rows(self, column: Column, source: bytes, among: Sequence[int]) -> Rows | None:
        contents, rows = self.sample_contents[source], []
        for row in column.rows:
            candidates = frozenset(n for n in among if any(holds(row, content) for content in contents[n]))
            if not candidates:
                return None
            candidates |= frozenset(n for n in among if any(is_ambiguous(row, content) for content in contents[n]))
            rows.append(candidates)
        return tuple(rows)


def _mutated(inputs: CollateInputs, reread: int) -> dict[str, Index]:
    """Leaves of samples that differ when read again after collate_fn had the samples, and stay so.

    Two earlier reads must agree, because a dataset may change on its own.
    """
    count = 0 if inputs.is_stream else min(reread, len(inputs.samples))
    if not count:
        return {}
    readings = [_read(inputs, count) for _ in range(2)]
    rest = [inputs.fresh(position) for position in range(count, len(inputs.samples))]
    try:
        inputs.collate_these([*(sample for sample, _ in readings[1]), *rest])
    except Refused:
        return {}
    readings += [_read(inputs, count) for _ in range(2)]
    mutated: dict[str, Index] = {}
    for position in range(count):
        before, again, after, later = ({leaf.path: leaf for leaf in reading[position][1]} for reading in readings)
        for path, leaf in before.items():
            same_type = path not in after or after[path].kind == leaf.kind  # else the value was loaded lazily
            if same_type and again.get(path) == leaf != after.get(path) == later.get(path):
                mutated.setdefault(path, inputs.indices[position])
        lists = {_list_of(path) for path in before.keys() & again.keys()} - {""}
        for path in (after.keys() & later.keys()) - before.keys() - again.keys():
            if _list_of(path) in lists:
                mutated.setdefault(_list_of(path), inputs.indices[position])
    return mutated


def _list_of(path: str) -> str:
    """The path of the list that has this element; empty if it is an element of something else."""
    container, _, last = path.rpartition("[")
    return container if last[:-1].isdecimal() else ""


def _read(inputs: CollateInputs, count: int) -> list[tuple[Any, tuple[LeafRecord, ...]]]:
    """The first samples with their leaves as they are now, before they are modified."""
    samples = [inputs.read(index) for index in inputs.indices[:count]]
    return [(sample, leaves_of(sample)) for sample in samples]
