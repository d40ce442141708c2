"""Whether a dataset orders its samples itself: what a few indices are read from, in two epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataguard.lab.core.records import Index
from dataguard.lab.provenance.file_names import FileName, shown
from dataguard.lab.provenance.reads_seen import ReadLog, merged
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.origins import FILES, OwnOrder, Read
from dataguard.lab.rows.row_axes import find_axes
from dataguard.lab.rows.rows_changed import RowTracer, values_of
from dataguard.lab.rows.stores import held_stores
from dataguard.lab.spy.drive import begin_epoch
from dataguard.targets.variants import Loader

FEWEST_TRACED = 4
"""Samples whose source has to be known: fewer may be in any order by chance."""
MOST_ROWS = 64
"""Rows of a sample of which the content is compared between epochs."""
NUMBER_BYTES = 8
"""The bytes of a row that is a single number, such as an entry of a permutation: where it is says nothing, if samples
also depend on longer rows."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a sample comes from in one source: its first row or file, how that sorts, and what all of them hold."""

    first: int | str
    place: Any
    parts: frozenset[Any]


_Sources = Mapping[str, _Source]
"""What one sample is read from, by source."""


def find_own_order(loader: Loader, folder: Path, indices: Sequence[Index], *, rows: bool) -> OwnOrder | None:
    """Read samples in two epochs; find their rows in memory if they read no file and `rows`. None without sources."""
    reader, log = Reader(loader, folder), ReadLog(loader.dataset)
    log.install()
    epochs = []
    for epoch in (0, 1):
        begin_epoch(loader, epoch)
        seen = _read_from(reader, log, indices)
        epochs.append(seen if any(seen) or not rows else _rows_of(reader, indices))
    first, second = epochs
    both = [(one, other) for one, other in zip(first, second, strict=True) if one.keys() & other.keys()]
    if len(both) < FEWEST_TRACED:
        return None
    moved = [
        all(one[source].parts.isdisjoint(other[source].parts) for source in one.keys() & other.keys())
        for one, other in both
    ]
    varies = sum(moved) > len(moved) / 2
    begins = {source: [one[source] for one, _ in both if source in one] for one, _ in both for source in one}
    unordered = [source for source, own in begins.items() if not _is_ordered([each.place for each in own])]
    if len(unordered) < len(begins):
        return OwnOrder(varies, False)
    return OwnOrder(varies, True, unordered[0], tuple(each.first for each in begins[unordered[0]]))


def _is_ordered(places: list[Any]) -> bool:
    return places in (sorted(places), sorted(places, reverse=True))


def _read_from(reader: Reader, log: ReadLog, indices: Sequence[Index]) -> list[_Sources]:
    """The files, or parts of files, of each sample, without those that all of them read."""
    found: list[list[Read]] = []
    for index in indices:
        with log.recorded():
            reader.read(index)
        found.append([unit for read in merged(log.reads) if read.file for unit in read.units])
    common = set.intersection(*map(set, found))
    kept = [[unit for unit in units if unit not in common] for units in found]
    return [{FILES: _source(own)} if own else {} for own in kept]


def _source(units: Sequence[Read]) -> _Source:
    return _Source(shown(units[0].name, units[0].rows), _place(units[0]), frozenset(units))


def _place(unit: Read) -> tuple[object, ...]:
    """How a unit sorts: by the words and numbers of its path, and its row."""
    row = unit.rows[0] if unit.rows else 0
    return FileName(unit.source).words, unit.source, isinstance(row, str), row


def _rows_of(reader: Reader, indices: Sequence[Index]) -> list[_Sources]:
    """The rows in memory that the largest leaf of each sample that depends on any comes from."""
    axes = find_axes(reader.read, reader.dataset, indices)
    stores = {store.path: store for store in held_stores(reader.dataset, axes)}
    tracer = RowTracer(reader.read, list(stores.values()), reader.dataset)
    found: list[_Sources] = []
    for index in indices:
        leaves = [leaf for leaf in tracer.trace(index).leaves if leaf.known]
        sizes = {path: value.nbytes for path, value in values_of(reader.read(index)).items()}
        largest = max((leaf.path for leaf in leaves), key=lambda path: sizes.get(path, 0), default=None)
        own = {
            leaf.source: [(row, stores[leaf.source].entry(row).content) for row in leaf.known[:MOST_ROWS]]
            for leaf in leaves
            if leaf.path == largest
        }
        known = {source: rows for source, rows in own.items() if rows[0][1]}  # content that is no bytes is not compared
        rich = {source: rows for source, rows in known.items() if len(rows[0][1]) > NUMBER_BYTES}
        found.append(
            {source: _Source(rows[0][0], rows[0][0], frozenset(rows)) for source, rows in (rich or known).items()}
        )
    return found
