"""What collate_fn makes of a handful of samples: which row of each leaf holds which sample, form by form."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from dataguard.lab.batches.batch_rows import Column, Content, columns, holds, key, sample_contents
from dataguard.lab.batches.collate_inputs import LARGEST, MOST, SEEDS, Handful, Refused, bytes_of
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import LeafRecord
from dataguard.model import Undecided

REREAD = 4
"""How many samples are read again after they were collated."""
COLLATED = 2 * len(SEEDS) + 3
"""How many batches are put together, but for those of one sample."""
READS = MOST + 4 * REREAD + MOST
"""How many samples are read, `__getitems__` included."""
DOUBLED = "each twice"
MOST_BYTES = 128_000_000
"""How large the samples of a handful are together at most; there are some ten copies of them at a time."""
FEWEST = 4
"""Different numbers that all become the same, before this is more than a coincidence."""
_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

Rows = tuple[frozenset[int], ...]
"""For each row of a leaf, the samples that it may hold."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A leaf of the batch whose rows are all recognised.

    `source` tells which leaves carry the same thing: what this leaf is for each of the samples alone.
    """

    leaf: str
    source: bytes
    rows: Rows


@dataclass(frozen=True, slots=True)
class Form:
    """One batch: the positions of the samples that were put in, and the leaves that carry them on.

    `orders` are leaves that hold the numbers of rows in another order, as for putting sorted rows back.
    """

    positions: tuple[int, ...]
    carried: tuple[Carried, ...]
    orders: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Collation:
    """Batches of the samples at `indices`, by seed and form; None stands for a sample of a stream.

    `alone` tells that each sample gives something when it is put into a batch by itself, and `twins` which samples are
    the same to a source. `written` are leaves of samples that were different when read again after being collated.
    `cut` are leaves whose numbers differ until they are made whole in the batch, where all are the same; `wrapped` are
    those whose whole numbers do not fit the batch's type.
    """

    indices: tuple[Index, ...]
    shown: tuple[str, ...]
    forms: Mapping[tuple[int, str], Form]
    alone: bool
    twins: Mapping[bytes, Rows]
    written: Mapping[str, Index] = field(default_factory=dict)
    cut: Mapping[str, str] = field(default_factory=dict)
    wrapped: Mapping[str, str] = field(default_factory=dict)


def gather(handful: Handful) -> None:
    """Read the samples: a few, or the whole batch where collate_fn insists on it. Raises Refused where it refuses.

    Raises Undecided for samples so large that several batches of them would fill the memory.
    """
    handful.fill(1)
    size = max((bytes_of(sample) for sample in handful.samples), default=0)
    room = MOST_BYTES // max(size, 1)
    if room < 2:
        raise Undecided(f"a sample takes {size / 1e6:.0f} MB, too much to collate several of them repeatedly")
    handful.fill(min(len(handful.indices), MOST, room))
    try:
        handful.collate(range(len(handful.samples)))
    except Refused:
        if not len(handful.samples) < len(handful.indices) <= min(LARGEST, room):
            raise
        handful.fill(len(handful.indices))
        handful.collate(range(len(handful.samples)))


def try_forms(handful: Handful, alone: Sequence[Mapping[str, Column]]) -> Collation:
    """Put the samples together in every form, and look what became of them; `alone` is what `try_alone` gave."""
    count = len(handful.samples)
    contents = [sample_contents(sample) for sample in handful.samples]
    order = tuple(range(count))
    wanted = {(seed, name): form for seed in range(len(SEEDS)) for name, form in _orders(order).items()}
    wanted[0, DOUBLED] = tuple(sorted(order * 2))[:count]
    cut = {form: _columns(handful, positions, form[0]) for form, positions in wanted.items()}
    sources = _Sources(alone, contents)
    forms = {
        form: Form(wanted[form], sources.carried(found, wanted[form]), _numberings(found))
        for form, found in cut.items()
    }
    always = frozenset.intersection(*(_pairs(form) for form in forms.values()))
    kept = {
        form: replace(found, carried=tuple(one for one in found.carried if (one.leaf, one.source) in always))
        for form, found in forms.items()
    }
    return Collation(
        tuple(handful.indices[:count]),
        tuple(map(str, handful.indices[:count])),
        kept,
        bool(alone),
        {source: sources.twins(source) for _, source in always},
        _written(handful),
        *_squeezed(cut[0, "in order"], contents),
    )


def _orders(order: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {"in order": order, "reversed": order[::-1]}


def _numberings(found: Mapping[str, Column]) -> tuple[tuple[int, ...], ...]:
    numbers = (
        tuple(int(row) for row in column.rows if isinstance(row, Tensor) and not row.ndim and row.dtype in _WHOLE)
        for column in found.values()
    )
    return tuple(one for one in numbers if sorted(one) == list(range(len(one))) != list(one))


def _pairs(form: Form) -> frozenset[tuple[str, bytes]]:
    return frozenset((one.leaf, one.source) for one in form.carried)


def _columns(handful: Handful, positions: Sequence[int], seed: int) -> dict[str, Column]:
    try:
        batch = handful.collate(positions, seed)
    except Refused:  # it does not take repeated samples, say: then nothing is known to be carried
        return {}
    return {column.name: column for column in columns(batch, len(positions))}


def try_alone(handful: Handful) -> list[dict[str, Column]]:
    """The columns of each sample's own batch, or of one that holds it twice; nothing where collate_fn takes neither.

    Samples of which nothing comes out are left out of the handful, as long as others give something.
    """
    for times in (1, 2):
        found = [_columns(handful, [position] * times, 0) for position in range(len(handful.samples))]
        if any(found):
            handful.keep([position for position, columns in enumerate(found) if columns])
            return [columns for columns in found if columns]
    return []


_NONE = Column("", ())


class _Sources:
    """What can be recognised in a batch: what its leaves are for each of the samples alone.

    Where samples cannot be alone, their own leaves serve, as far as no two samples have the same.
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
        """What a leaf may carry: what it is for each sample alone; where that is nothing, what no two samples share."""
        own = self._of_leaf.get(name)
        if own is not None or any(one.get(name, _NONE).rows for one in self.alone):
            return [own] if own is not None else []
        return [source for source in self.known if all(len(twins) == 1 for twins in self.twins(source))]

    def twins(self, source: bytes) -> Rows:
        """For each sample, those that are the same to a source."""
        keys = [frozenset(map(key, alternatives)) for alternatives in self.known[source]]
        return tuple(frozenset(n for n, other in enumerate(keys) if other & own) for own in keys)

    def carried(self, found: Mapping[str, Column], positions: Sequence[int]) -> tuple[Carried, ...]:
        """The columns all of whose rows are recognised, by sources that tell samples apart."""
        carried = []
        for name, column in found.items():
            for source in self._candidates(name):
                rows = self._rows(column, source, sorted(set(positions)))
                if rows and len(set(self.twins(source))) > 1:
                    carried.append(Carried(name, source, rows))
        return tuple(carried)

    def _rows(self, column: Column, source: bytes, among: Sequence[int]) -> Rows | None:
        contents, rows = self.known[source], []
        for row in column.rows:
            who = frozenset(n for n in among if any(holds(row, content) for content in contents[n]))
            if not who:
                return None
            rows.append(who)
        return tuple(rows)


def _squeezed(found: Mapping[str, Column], contents: Sequence[Mapping[str, Content]]) -> tuple[dict[str, str], ...]:
    """Leaves whose fractions are cut off so that all samples become the same, and those that wrap round."""
    cut: dict[str, str] = {}
    wrapped: dict[str, str] = {}
    for path in contents[0]:
        inside = [one.get(path) for one in contents]
        for column in found.values():
            pairs = list(zip(inside, column.rows, strict=False))
            if len(column.rows) != len(inside) or not all(_is_made_whole(one, row) for one, row in pairs):
                continue
            numbers = [(one, row) for one, row in pairs if isinstance(one, Tensor) and isinstance(row, Tensor)]
            words = f"{_type(numbers[0][0])} becomes {_type(numbers[0][1])} in batch{column.name}"
            if numbers[0][0].is_floating_point():
                if len({key(one) for one, _ in numbers}) >= FEWEST > len({key(row) for _, row in numbers}) == 1:
                    cut[path] = words
            elif any(not torch.equal(row.to(one.dtype), one) for one, row in numbers):
                wrapped[path] = words
    return cut, wrapped


def _is_made_whole(content: Content | None, row: Content) -> bool:
    """Whether a row is a content of another type that was cast to whole numbers."""
    if not isinstance(content, Tensor) or not isinstance(row, Tensor) or content.shape != row.shape:
        return False
    whole = (
        row.dtype in _WHOLE and row.dtype != content.dtype and (content.is_floating_point() or content.dtype in _WHOLE)
    )
    return whole and holds(row, content)


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _written(handful: Handful) -> dict[str, Index]:
    """Leaves of samples that are different when read again after collate_fn had the samples, and stay so.

    Two readings before have to agree, for a dataset may well change by itself.
    """
    if handful.is_stream:
        return {}
    count = min(REREAD, len(handful.samples))
    readings = [_read(handful, count) for _ in range(2)]
    rest = [handful.fresh(position) for position in range(count, len(handful.samples))]
    try:
        handful.collate_these([*(sample for sample, _ in readings[1]), *rest])
    except Refused:
        return {}
    readings += [_read(handful, count) for _ in range(2)]
    written: dict[str, Index] = {}
    for position in range(count):
        before, again, after, later = ({leaf.path: leaf for leaf in reading[position][1]} for reading in readings)
        for path, leaf in before.items():
            same_type = path not in after or after[path].kind == leaf.kind  # else something was put off until then
            if same_type and again.get(path) == leaf != after.get(path) == later.get(path):
                written.setdefault(path, handful.indices[position])
    return written


def _read(handful: Handful, count: int) -> list[tuple[Any, tuple[LeafRecord, ...]]]:
    """The first samples with their leaves as they are now; what they are later may be another thing."""
    samples = [handful.read(index) for index in handful.indices[:count]]
    return [(sample, leaves_of(sample)) for sample in samples]
