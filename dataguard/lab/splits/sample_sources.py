"""What each sample of a split is read from, for all indices: files, members, rows, and what transforms are given.

Samples that take no time are all read. Of others, some are read, and a list of names or numbers that spells what each
of these came from says it for the rest; where none does, all are read if the budget allows it. Rows of arrays in memory
are found by changing them, in the same way.
"""

from __future__ import annotations

import contextlib
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from dataguard.core.incident import LoaderFailed
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.loader_facts import asked_columns
from dataguard.lab.core.records import Index
from dataguard.lab.provenance.reads_seen import ReadLog, merged
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.origins import Read, RowOrigins, SampleReads
from dataguard.lab.rows.row_changes import Entry, Store
from dataguard.lab.rows.stores import held_stores, held_values
from dataguard.lab.splits.index_contents import CONTENT, DISTINCT_SHARE, NAMES, ColumnFinder, Columns
from dataguard.lab.splits.sample_pairs import digest_of, inputs_of_transforms, unit_of
from dataguard.lab.splits.stored_contents import StoredContents, Unit, hashed
from dataguard.lab.splits.tables import hashes_of_records
from dataguard.lab.spy.sample_ledger import hash_of, is_rich
from dataguard.process.originals import os, time
from dataguard.targets.variants import Loader

SOURCE = "the source of"
"""The prefix of a column for what samples are read from."""
ROWS = f"{SOURCE} rows in memory"
"""The column for the content of the rows in memory from which samples are made."""
MEMORY = "the addresses of rows in memory"
"""The column for where those rows are, which can be compared only between datasets of one process."""
_PARTS = "parts of one file or folder"
PARTS = f"{SOURCE} {_PARTS}"
"""The column for the folder or file that each sample reads several files or parts from, perhaps others every time."""
FEWEST_SPELLED = 4
"""Samples whose source a column spells before it is believed for the others: no name is part of four paths, at the same
place in each, by chance."""
LEAST_BYTES = 9
"""The bytes of a row in memory that says where a sample comes from: a single number is a label, or an index."""
MOST_ENTRIES = 1_000_000
"""Rows whose content is compared: a limit of time, a microsecond each."""
RICH_ROWS = 8
"""Rows of which is tested how rich they are."""
FEWEST_MEASURED = 2
"""Columns of measurements in rows that may be equal in two splits: a single one may be a time at which all begin."""
FEWEST_TIMED = 64
"""Samples that are read before it is known how long all take."""
MOST_NAMES = 500_000
"""Datasets with more indices are not looked through for names: a limit of memory, as each is a Python object."""

_ROWS = re.compile(r"::.*|(\[(:, )+\*\])?\[[\d,]+\].*", re.DOTALL)
"""What follows the path of a file in a unit."""

Kinds = Mapping[str, tuple[Unit, ...]]
"""The units of one sample by kind, such as `.png files`, in the order in which they are read."""


@dataclass(frozen=True, slots=True)
class SampleSources:
    """What samples are read from, one number for each index and kind; `files` are paths by index, if they are known.

    `rich`: rows in memory have so much content that equal ones are one; `measured`: they hold measurements. `tables`
    are the numbers of the tables whose rows are samples, equal for equal tables: rows of two others may have one
    number, and are not one.
    """

    indices: array[int]
    columns: Columns
    rich: bool = False
    measured: bool = False
    files: Mapping[Index, tuple[str, ...]] = field(default_factory=dict)
    tables: frozenset[int] = frozenset()

    def by_index(self, name: str) -> dict[Index, int]:
        """The number of each index in a column."""
        return dict(zip(self.indices, self.columns[name], strict=True))


def find_sources(
    loader: Loader,
    folder: Path,
    indices: array[int],
    seen: Sequence[SampleReads],
    rows: RowOrigins | None,
    *,
    reading: float,
    shared_memory: bool,
    most_files: int,
    seconds: float,
) -> SampleSources:
    """What all samples are read from, as those that were `seen` say, or as all say.

    All are read if those do not say it, and if this takes no more than `reading` seconds of CPU time. `rows` are those
    of arrays in memory on which a few samples depend. Their addresses are known to the datasets of another split if
    they are in the same process: `shared_memory`. The content of up to `most_files` is compared, too, and that of more
    if it is read in so many seconds.
    """
    names = _names_of(loader.dataset, indices)
    found = _spelled(seen, indices, names)
    held: dict[str, array[int]] = {}
    rich = measured = False
    if rows is not None and not _with_paths(found):  # what is in memory beside files are their names
        held, rich, measured = _held(loader.dataset, indices, rows, names, shared_memory=shared_memory)
    settled = _with_paths(found) or (rich and len(set(held[ROWS])) == len(indices))
    if reading and not settled and (units := _read_all(loader, folder, indices, reading)):
        found = _by_kind(units)
        held = {} if _with_paths(found) else held
    period = _period([*zip(*_with_paths(found).values(), strict=True)])
    if period:
        indices, found = indices[:period], {kind: listed[:period] for kind, listed in found.items()}
    files: dict[Index, tuple[str, ...]] = {}
    for listed in _with_paths(found).values():
        for index, own in zip(indices, listed, strict=True):
            files[index] = (*files.get(index, ()), *own)
    numbers = {
        f"{CONTENT if kind == _SAMPLES else SOURCE} {kind}": array("Q", map(hashed, listed))
        for kind, listed in found.items()
    }
    stored = StoredContents(loader.dataset)
    numbers |= {
        f"{CONTENT} the {kind}": contents
        for kind, listed in _with_paths(found).items()
        if (contents := stored.of_samples(listed, most_files, seconds))
    }
    tables = _tables(loader.dataset, found.get(_TABLES, ()))
    return SampleSources(indices, {**numbers, **held}, rich, measured, files, tables)


def _tables(dataset: Any, listed: Sequence[tuple[Unit, ...]]) -> frozenset[int]:
    """The numbers of the tables that these rows belong to."""
    names = {_ROWS.sub("", unit) for units in listed for unit in units}
    held = {path: value for path, value, _ in held_values(dataset)} if names else {}
    known = ((held.get(name), hashes_of_records(held.get(name))) for name in names)
    return frozenset(id(table) if rows is None else xxh3_64_intdigest(rows.tobytes()) for table, rows in known)


_TABLES = "rows of tables"
TABLES = f"{SOURCE} {_TABLES}"
"""The column for the rows of tables in memory, by their numbers."""
_GIVEN, _SAMPLES = "what transforms are given", "samples"
"""Kinds of content, which have no path."""
INPUTS = f"{SOURCE} {_GIVEN}"
"""The column for the content that transforms are given."""


def _with_paths(found: Mapping[str, list[tuple[Unit, ...]]]) -> dict[str, list[tuple[Unit, ...]]]:
    return {kind: listed for kind, listed in found.items() if kind not in (_GIVEN, _SAMPLES)}


def _period(sources: Sequence[object]) -> int | None:
    """After how many samples they begin again, as those of a list of files that is passed over several times do."""
    period = len(set(sources))
    passes, rest = divmod(len(sources), max(period, 1))
    return period if passes > 1 and not rest and list(sources) == [*sources[:period]] * passes else None


def kind_of(read: Read) -> str:
    """What a source is, such as `.png files`: the same in two splits."""
    path, _, member = read.source.partition("::")
    if not read.source.startswith("/"):
        return _TABLES
    return f"{Path(member).suffix or Path(path).suffix} files".strip()


def _kinds(reads: Iterable[Read]) -> dict[str, tuple[Unit, ...]]:
    found: dict[str, list[Unit]] = defaultdict(list)
    for read in reads:
        found[kind_of(read)].append(unit_of(read))
    return {kind: tuple(dict.fromkeys(units)) for kind, units in found.items()}


@dataclass(frozen=True, slots=True)
class _Units:
    """The units of one sample by kind: those that are read in both of two random states, and those in only one."""

    steady: Kinds
    varying: Kinds

    def without(self, common: Collection[Unit]) -> _Units:
        kept = {kind: tuple(unit for unit in units if unit not in common) for kind, units in self.steady.items()}
        return _Units(kept, self.varying)


def _read_all(loader: Loader, folder: Path, indices: Sequence[int], seconds: float) -> list[_Units] | None:
    """The units of each sample, and its content if that is not random.

    None if a sample cannot be read, or all will take longer than these seconds of CPU time.
    """
    reader, log = Reader(loader, folder), ReadLog()
    with contextlib.suppress(LoaderFailed), inputs_of_transforms(loader.dataset) as given:
        reader.read(indices[0])  # so that what is opened only once is open
        found: list[_Units] = []
        started = time.process_time()
        for index in indices:
            if len(found) >= FEWEST_TIMED and (time.process_time() - started) / len(found) * len(indices) > seconds:
                return None
            states, hashes, inputs = [], [], []
            for draw in (0, 1):
                given.clear()
                with log.recorded():
                    hashes.append(hash_of(reader.read(index, draw)))
                states.append(dict.fromkeys(merged(log.reads)))
                inputs.append(max(given, key=lambda one: one.nbytes, default=None))
            first, second = states
            cached = not second  # a cached sample reads nothing
            steady = _kinds(read for read in first if cached or read in second)
            if inputs[0] is not None and inputs[1] is not None and np.array_equal(inputs[0], inputs[1]):
                steady[_GIVEN] = (digest_of(inputs[0]).hex(),)
            if hashes[0] is not None and hashes[0] == hashes[1]:
                steady[_SAMPLES] = (str(hashes[0]),)
            found.append(_Units(steady, {} if cached else _kinds(first.keys() ^ second.keys())))
        times = Counter(unit for units in found for own in units.steady.values() for unit in own)
        common = {unit for unit, count in times.items() if count > max(1, len(found) / 2)}
        return [units.without(common) for units in found]
    return None


def _by_kind(units: Sequence[_Units]) -> dict[str, list[tuple[Unit, ...]]]:
    """The units of all samples by kind, for kinds of which all samples have some, and know all."""
    kinds = dict.fromkeys(kind for one in units for each in (one.steady, one.varying) for kind in each)
    partial = {kind for kind in kinds if _is_partial(units, kind)}
    found = {}
    for kind in kinds:
        listed = [one.steady.get(kind, ()) for one in units]
        if all(listed) and kind not in partial:
            found[kind] = listed
    wholes = [_whole_of(one) for one in units]
    distinct = len(set(wholes)) >= DISTINCT_SHARE * len(wholes)
    if all(wholes) and (distinct or not found.keys() - {_GIVEN, _SAMPLES}):
        found[_PARTS] = [(whole,) for whole in wholes if whole is not None]
    return found


def _is_partial(units: Sequence[_Units], kind: str) -> bool:
    """Whether a sample reads in one state what it does not in another, such as other frames of a video.

    What is drawn from a common pool, such as noise or a second sample to be mixed in, other samples read as well.
    """
    varying = [set(one.varying.get(kind, ())) for one in units]
    times = Counter(unit for own, one in zip(varying, units, strict=True) for unit in own | {*one.steady.get(kind, ())})
    drawn = set[Unit]().union(*varying)
    return sum(times[unit] == 1 for unit in drawn) > len(drawn) / 2


def _whole_of(units: _Units) -> Unit | None:
    """The folder of several files of a sample, or the file of several parts, if they are in one."""
    read = {unit for each in (units.steady, units.varying) for own in each.values() for unit in own}
    files = {_ROWS.sub("", unit) for unit in read if unit.startswith("/")}
    folders = {file.rpartition("/")[0] for file in files}
    if len(read) < 2 or len(folders) != 1:
        return None
    return files.pop() if len(files) == 1 else folders.pop()


def _spelled(
    seen: Sequence[SampleReads], indices: Sequence[int], names: Mapping[str, np.ndarray]
) -> dict[str, list[tuple[Unit, ...]]]:
    """The units of all samples, for kinds whose units in each of those that were seen are spelled by columns."""
    place: dict[Index, int] = {index: number for number, index in enumerate(indices)}
    known = {
        place[sample.index]: _Units(
            _kinds(read for read in sample.reads if read not in sample.varying), _kinds(sample.varying)
        )
        for sample in seen
        if sample.index in place
    }
    found: dict[str, list[tuple[Unit, ...]]] = {}
    if len(known) < FEWEST_SPELLED:
        return found
    for kind, listed in _by_kind([*known.values()]).items():
        counts = {len(units) for units in listed}
        slots = [
            _spelling({number: units[slot] for number, units in zip(known, listed, strict=True)}, names)
            for slot in range(counts.pop())
            if not counts
        ]
        complete = [slot for slot in slots if slot is not None]
        if len(complete) == len(slots) > 0:
            found[kind] = list(zip(*complete, strict=True))
    return found


def _spelling(units: Mapping[int, Unit], names: Mapping[str, np.ndarray]) -> list[Unit] | None:
    """A unit for each index, by a column that is part of each of these units, between equal strings; None without."""
    if len(set(units.values())) < len(units):
        return None
    for column in names.values():
        for spelled in (str, os.path.realpath):
            if spelled is os.path.realpath and not os.path.exists(str(column[next(iter(units))])):
                continue
            frames = [_frame(unit, spelled(str(column[place]))) for place, unit in units.items()]
            around = {frame and frame[:2] for frame in frames}
            widths = {frame[2] for frame in frames if frame is not None} - {0}
            if len(around) == 1 and len(widths) <= 1 and (strings := around.pop()) is not None:
                width = max(widths, default=0)
                return [f"{strings[0]}{spelled(str(name)).zfill(width)}{strings[1]}" for name in column]
    return None


def _frame(unit: Unit, name: str) -> tuple[str, str, int] | None:
    """The text of a unit before and after a name, and the width to which a number is filled, 0 if it is not."""
    name = os.path.normpath(name) if "/" in name else name
    if name.isdecimal():
        numbers = [match for match in re.finditer(r"\d+", unit) if int(match[0]) == int(name)]
        if not numbers:
            return None
        last = numbers[-1]
        return unit[: last.start()], unit[last.end() :], len(last[0]) if len(last[0]) > len(name) else 0
    whole = [*re.finditer(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", unit)]
    start = whole[-1].start() if whole else unit.rfind(name)
    return None if start < 0 or not name else (unit[:start], unit[start + len(name) :], 0)


def _names_of(dataset: Any, indices: Sequence[int]) -> dict[str, np.ndarray]:
    """The names and numbers that a dataset, or one that it wraps, lists for these indices; and the indices."""
    places = np.asarray(indices, np.int64)
    found = asked_columns(dataset, _NameFinder(0).own, indices, MOST_NAMES)
    return {"index": places, **{name: column[places] for name, (_, column) in found.items()}}


class _NameFinder(ColumnFinder):
    """Finds names, and whole numbers, as they are."""

    def _entries(self, entries: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        if all(isinstance(one, str | os.PathLike | bytes) for one in entries):
            yield NAMES, np.array([os.fsdecode(one) for one in entries], object)
        elif all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in entries):
            yield NAMES, np.array([int(one) for one in entries], np.int64)

    def _numbers(self, value: np.ndarray) -> Iterator[tuple[str, str, Any]]:
        if value.ndim == 1 and value.dtype.kind in "iu":
            yield NAMES, "", value


def _held(
    dataset: Any,
    indices: Sequence[int],
    origins: RowOrigins,
    names: Mapping[str, np.ndarray],
    *,
    shared_memory: bool,
) -> tuple[dict[str, array[int]], bool, bool]:
    """The row or rows in memory that each sample depends on: their content and address.

    And whether they are rich, and whether they are measurements.
    """
    place: dict[Index, int] = {index: number for number, index in enumerate(indices)}
    stores = {store.path: store for store in held_stores(dataset, origins.axes)}
    best: list[Entry] = []
    measured = False
    for path, count in origins.sources.items():
        rows = {
            place[sample.index]: sorted({row for leaf in sample.leaves if leaf.source == path for row in leaf.rows})
            for sample in origins.samples
            if sample.index in place
        }
        windows = {len(own) for own in rows.values()}
        if len(windows) != 1 or any(not own or own[-1] - own[0] != len(own) - 1 for own in rows.values()):
            continue
        window, store = windows.pop(), stores.get(path)
        every = _rows_by_number({number: own[0] for number, own in rows.items()}, count, names)
        if every is not None and store is not None and window * len(every) <= MOST_ENTRIES:
            entries = [_window(store, row, window) for row in every.tolist()]
            if sum(len(entry.content) for entry in entries) > sum(len(entry.content) for entry in best):
                best, measured = entries, _are_measured(store.numbers)
    if not best or min(len(entry.content) for entry in best) < LEAST_BYTES:
        return {}, False, False
    found = {ROWS: array("Q", [xxh3_64_intdigest(entry.content) for entry in best])}
    if shared_memory:
        found[MEMORY] = array("Q", [entry.address for entry in best])
    rich = all(is_rich(np.frombuffer(entry.content, np.uint8)) for entry in evenly(best, RICH_ROWS))
    return found, rich, measured


def _are_measured(numbers: np.ndarray | None) -> bool:
    """Whether rows hold several numbers that are mostly no whole ones, as places and numbers of files are."""
    if numbers is None or numbers.ndim != 2:
        return False
    with np.errstate(invalid="ignore"):
        return int(((numbers % 1 != 0).mean(0) > 0.5).sum()) >= FEWEST_MEASURED


def _window(store: Store, row: int, window: int) -> Entry:
    """So many rows from one on as a single one."""
    entries = [store.entry(each) for each in range(row, row + window)]
    return Entry(b"".join(entry.content for entry in entries), entries[0].address)


def _rows_by_number(rows: Mapping[int, int], count: int, names: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The row of each sample, by a column of numbers, or the index, to which a constant may be added."""
    if len(set(rows.values())) < FEWEST_SPELLED or min(rows.values()) < 0:
        return None
    for column in names.values():
        if column.dtype.kind not in "iu":
            continue
        for period in (0, count):
            spelled = column % period if period else column
            if len({row - int(spelled[place]) for place, row in rows.items()}) == 1:
                place, row = next(iter(rows.items()))
                every = spelled + (row - int(spelled[place]))
                if every.min() >= 0 and every.max() < count:
                    return np.asarray(every)
    return None
