"""What collate_fn makes of a few samples: which row of each leaf holds which sample, form by form."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from torch import Tensor

from dataguard.lab.batches.batch_rows import (
    WHOLE,
    Column,
    Content,
    columns,
    holds,
    is_ambiguous,
    key,
    lossy_casts,
    sample_contents,
)
from dataguard.lab.batches.collate_inputs import LARGEST, MOST, SEEDS, CollateInputs, Refused
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaf_sizes import bytes_of
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import LeafRecord
from dataguard.model import Undecided

REREAD, FEW_REREAD, TIMES = 4, 1, 4
"""How many samples are read again after being collated, how many of those that are slow, and how often each."""
COLLATED = 2 * len(SEEDS) + 5
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
        return frozenset((one.leaf, one.source) for one in self.recognized)


@dataclass(frozen=True, slots=True)
class Collation:
    """Batches of the samples at `indices`, by seed and form; None is a sample of a stream.

    `alone`: each sample yields something in a batch of its own. `equal_samples` are the samples that are equal in a
    source. `mutated` are leaves of samples that differ when read again after being collated. `truncated` are leaves
    whose values differ until the batch casts them to integers, all of them equal; `overflowed` are leaves whose
    integers do not fit the dtype of the batch.
    """

    indices: tuple[Index, ...]
    shown: tuple[str, ...]
    forms: Mapping[tuple[int, str], Form]
    alone: bool
    equal_samples: Mapping[bytes, Rows]
    mutated: Mapping[str, Index] = field(default_factory=dict)
    truncated: Mapping[str, str] = field(default_factory=dict)
    overflowed: Mapping[str, str] = field(default_factory=dict)


def read_samples(inputs: CollateInputs) -> None:
    """Read a few samples, or the whole batch if collate_fn requires it. Raises Refused if it fails.

    Raises Undecided for samples so large that several batches of them would fill the memory.
    """
    inputs.fill(1)
    size = max((bytes_of(sample) for sample in inputs.samples), default=0)
    affordable = MOST_BYTES // max(size, 1)
    if affordable < 2:
        raise Undecided(f"a sample takes {size / 1e6:.0f} MB, too much to collate several of them repeatedly")
    inputs.fill(min(len(inputs.indices), MOST, affordable))
    try:
        inputs.collate(range(len(inputs.samples)))
    except Refused:
        if not len(inputs.samples) < len(inputs.indices) <= min(LARGEST, affordable):
            raise
        inputs.fill(len(inputs.indices))
        inputs.collate(range(len(inputs.samples)))


def collate_forms(inputs: CollateInputs, alone: Sequence[Mapping[str, Column]], reread: int) -> Collation:
    """Collate the samples in every form, and find them in the batch; so many are read again after that.

    `alone` is the result of `collate_singly`.
    """
    count = len(inputs.samples)
    contents = [sample_contents(sample) for sample in inputs.samples]
    order = tuple(range(count))
    wanted = {(seed, name): form for seed in range(len(SEEDS)) for name, form in _orders(order).items()}
    wanted[0, DOUBLED] = tuple(sorted(order * 2))[:count]
    columns_of = {form: _columns(inputs, positions, form[0]) for form, positions in wanted.items()}
    sources = _Sources(alone, contents)
    forms = {
        form: Form(wanted[form], sources.recognized(found, wanted[form]), _permutations(found))
        for form, found in columns_of.items()
    }
    always = frozenset.intersection(*(form.pairs for form in forms.values()))
    kept = {
        form: replace(found, recognized=tuple(one for one in found.recognized if (one.leaf, one.source) in always))
        for form, found in forms.items()
    }
    return Collation(
        tuple(inputs.indices[:count]),
        tuple(map(str, inputs.indices[:count])),
        kept,
        bool(alone),
        {source: sources.equal_samples(source) for _, source in always},
        _mutated(inputs, reread),
        *lossy_casts(columns_of[0, "in order"], contents),
    )


def _orders(order: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {"in order": order, "reversed": order[::-1]}


def _permutations(found: Mapping[str, Column]) -> tuple[tuple[int, ...], ...]:
    numbers = (
        tuple(int(row) for row in column.rows if isinstance(row, Tensor) and not row.ndim and row.dtype in WHOLE)
        for column in found.values()
    )
    return tuple(one for one in numbers if sorted(one) == list(range(len(one))) != list(one))


def _columns(inputs: CollateInputs, positions: Sequence[int], seed: int) -> dict[str, Column]:
    try:
        batch = inputs.collate(positions, seed)
    except Refused:  # for example, it rejects repeated samples: then nothing is recognized
        return {}
    return {column.name: column for column in columns(batch, len(positions))}


def collate_singly(inputs: CollateInputs) -> list[dict[str, Column]]:
    """The columns of a batch of each sample alone, or twice; empty if collate_fn accepts neither.

    Samples that yield nothing are dropped, as long as others yield something.
    """
    for times in (1, 2):
        found = [_columns(inputs, [position] * times, 0) for position in range(len(inputs.samples))]
        if any(found):
            inputs.keep([position for position, columns in enumerate(found) if columns])
            return [columns for columns in found if columns]
    return []


_NONE = Column("", ())


class _Sources:
    """What can be recognized in a batch: its leaves for each of the samples alone.

    If samples cannot be collated alone, their own leaves are used, unless two samples share a value.
    """

    def __init__(self, alone: Sequence[Mapping[str, Column]], contents: Sequence[Mapping[str, Content]]) -> None:
        self.alone = alone
        self.known: dict[bytes, Sequence[tuple[Content, ...]]] = {}
        """By source: the contents of each sample."""
        self._of_leaf: dict[str, bytes] = {}
        if alone:
            for name in alone[0]:
                if all(name in one and one[name].rows for one in alone):
                    self._of_leaf[name] = self._add([one[name].rows for one in alone])
        else:
            for path in contents[0]:
                values = [(one[path],) for one in contents if path in one]
                if len(values) == len({key(value) for (value,) in values}) == len(contents):
                    self._add(values)

    def _add(self, contents: Sequence[tuple[Content, ...]]) -> bytes:
        digest = hashlib.blake2b(digest_size=8)
        for content in chain.from_iterable(contents):
            digest.update(key(content))
        source = digest.digest()
        self.known[source] = contents
        return source

    def _candidates(self, name: str) -> list[bytes]:
        """What a leaf may hold: what it is for each sample alone or, without such, what no two samples share."""
        own = self._of_leaf.get(name)
        if own is not None or any(one.get(name, _NONE).rows for one in self.alone):
            return [own] if own is not None else []
        return [
            source
            for source in self.known
            if all(len(equal_samples) == 1 for equal_samples in self.equal_samples(source))
        ]

    def equal_samples(self, source: bytes) -> Rows:
        """For each sample, those that are equal to it in a source."""
        keys = [frozenset(map(key, alternatives)) for alternatives in self.known[source]]
        return tuple(frozenset(n for n, other in enumerate(keys) if other & own) for own in keys)

    def recognized(self, found: Mapping[str, Column], positions: Sequence[int]) -> tuple[RecognizedLeaf, ...]:
        """The columns whose rows are all recognized, by sources that distinguish samples."""
        recognized = []
        for name, column in found.items():
            for source in self._candidates(name):
                rows = self._rows(column, source, sorted(set(positions)))
                if rows and len(set(self.equal_samples(source))) > 1:
                    recognized.append(RecognizedLeaf(name, source, rows))
        return tuple(recognized)

    def _rows(self, column: Column, source: bytes, among: Sequence[int]) -> Rows | None:
        contents, rows = self.known[source], []
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
