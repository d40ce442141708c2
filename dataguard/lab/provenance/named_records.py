"""Whether what a table says of a file reaches the sample that is read from that file.

A row of a table may name a file: `im012.png,cat`. The contents of some rows are exchanged in a copy of the table that
the factory opens in its place; what names the files stays. First the rows that name the files of some samples are
changed, and then all others: a sample that changes with the others alone has the contents of another file's row. Which
row that is, a few more calls of the factory say: each changes the other rows in whose number one bit is set.
"""

from __future__ import annotations

import builtins
import contextlib
import csv
import functools
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from dataguard.core.incident import LoaderFailed
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.records import Index
from dataguard.lab.decoding.file_substitution import open_replaced, read_path
from dataguard.lab.process.write_protection import WriteRefused, forbid_writes
from dataguard.lab.provenance.reads_seen import ReadLog
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.rows_changed import Values, values_of
from dataguard.process.process_tree import undisturbed_seconds
from dataguard.targets.variants import Loader

MOST_BYTES, MOST_TABLES = 1 << 24, 2
"""Files that are larger are not read as tables, and so many tables are judged."""
COMPARED_SAMPLES, FEWEST_COMPARED = 12, 4
"""Samples whose rows are exchanged with each other, at most half of the rows of the table."""
FACTORY_CALLS = 8
"""How often the factory is called at least; beyond that, once for each bit of the number of a row."""
_DELIMITERS = ("\t", ",", ";", "|", " ")
_NO_TABLES = (".py", ".pyc", ".toml", ".cfg", ".ini", ".yaml", ".yml", ".md", ".so", ".ipynb")

Record = list[Any] | dict[str, Any]


@dataclass(frozen=True, slots=True)
class OtherRecord:
    """A sample that is read from `file`, which is named in `row` of a table, and has the contents of `other` row.

    `other_file` is what that row names.
    """

    index: Index
    file: str
    row: int
    other: int
    other_file: str


@dataclass(frozen=True, slots=True)
class NamedRecords:
    """What samples have of the rows of a table that name their files.

    `wrong` ones have the contents of another row. `places` are those of the row that names the file and of the row
    whose contents the sample has, among the complete rows of the table; of right samples, too, of which both are equal.
    """

    table: str
    samples: int
    wrong: tuple[OtherRecord, ...] = ()
    places: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Table:
    """The records of a file, and how they are written again."""

    path: str
    records: Sequence[Record]
    write: Callable[[Sequence[Record]], str]

    def named(self, files: Sequence[str]) -> tuple[Any, dict[str, int]]:
        """The column that names most of these files, and the row that does so, of each that one row alone names."""
        stems = {PurePosixPath(file).stem for file in files}
        found: dict[Any, dict[str, list[int]]] = {}
        for row, record in enumerate(self.records):
            for column, value in _items(record):
                if isinstance(value, str | int) and (stem := _stem(value)) in stems:
                    found.setdefault(column, {}).setdefault(stem, []).append(row)
        if not found:
            return None, {}
        column = max(found, key=lambda one: len(found[one]))
        rows = {stem: own[0] for stem, own in found[column].items() if len(own) == 1}
        elsewhere = [others for other, others in found.items() if other != column]
        for others in elsewhere:  # a row that names a file in another part, as that of the next frame does
            rows = {stem: row for stem, row in rows.items() if others.get(stem, [row]) == [row]}
        return column, {file: rows[stem] for file in files if (stem := PurePosixPath(file).stem) in rows}

    def contents(self, row: int, column: Any) -> dict[Any, Any]:
        """What a row says of the file that it names."""
        record = self.records[row]
        name = _stem(dict(_items(record)).get(column))
        return {key: value for key, value in _items(record) if key != column and _stem(value) != name}

    def exchanged(self, column: Any, donors: Mapping[int, int]) -> str:
        """The text of the file with the contents of some rows in others."""
        records: list[Record] = [record.copy() for record in self.records]
        for row, donor in donors.items():
            contents = self.contents(donor, column)
            record: Any = records[row]
            for key in self.contents(row, column):
                if key in contents:
                    record[key] = contents[key]
        return self.write(records)


def _items(record: Record) -> Iterable[tuple[Any, Any]]:
    return record.items() if isinstance(record, dict) else enumerate(record)


def _stem(value: Any) -> str:
    return PurePosixPath(str(value).strip()).stem


def tables_of(path: str, text: str) -> _Table | None:
    """The records of a file of text: lines with columns, objects of JSON, or lines of them."""
    if text[:1] in "[{":
        return _json_table(path, text)
    lines = [line for line in text.splitlines() if line.strip()]
    for delimiter in _DELIMITERS:
        rows = list(csv.reader(lines, delimiter=delimiter))
        widths = {len(row) for row in rows}
        if len(rows) == len(lines) and len(widths) == 1 and widths.pop() > 1:
            return _Table(path, rows, functools.partial(_written, delimiter=delimiter))
    split = [list(line.partition(" ")[::2]) for line in lines]
    return _Table(path, split, _lines) if all(rest for _, rest in split) else None


def _written(records: Sequence[Record], delimiter: str) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(list(record) for record in records)
    return text.getvalue()


def _lines(records: Sequence[Record]) -> str:
    return "".join(f"{' '.join(record)}\n" for record in records)


def _json_table(path: str, text: str) -> _Table | None:
    with contextlib.suppress(ValueError):
        tree = json.loads(text)
        if isinstance(tree, dict) and all(isinstance(one, str | int | float | list) for one in tree.values()):
            pairs = [[name, value] for name, value in tree.items()]
            return _Table(path, pairs, lambda records: json.dumps(dict(map(tuple, records))))
        if isinstance(tree, list) and all(isinstance(one, dict) for one in tree):
            return _Table(path, tree, json.dumps)
        return None
    with contextlib.suppress(ValueError):
        records = [json.loads(line) for line in text.splitlines() if line.strip()]
        if all(isinstance(one, dict) for one in records):
            return _Table(path, records, lambda records: "".join(f"{json.dumps(one)}\n" for one in records))
    return None


class _OpenedTables:
    """Notes files that are opened for reading in this disposable process, and gives copies of some in their place."""

    def __init__(self, folder: Path) -> None:
        self.paths: dict[str, None] = {}
        self._folder, self._copies = folder, dict[str, Path]()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch `open`, whoever calls it."""
        opening = builtins.open

        @functools.wraps(opening)
        def open_copy(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if path := read_path(file, mode):
                self.paths[path] = None
                file = self._copies.get(path, file)
            return opening(file, mode, *arguments, **options)

        with open_replaced(open_copy):
            yield

    def exchange(self, path: str, text: str | None) -> None:
        """Give a copy with this text in place of a file from now on; or the file itself again."""
        self._copies.pop(path, None)
        if text is not None:
            copy = self._folder / f"table{len(self.paths)}"
            copy.mkdir(exist_ok=True)
            (copy / Path(path).name).write_text(text)
            self._copies[path] = copy / Path(path).name

    def tables(self, without: frozenset[str]) -> Iterator[_Table]:
        """The tables among the files that were opened."""
        for path in list(self.paths):
            if path in without or path.endswith(_NO_TABLES) or path.startswith(("/proc/", "/sys/", "/dev/", "/etc/")):
                continue
            with contextlib.suppress(OSError, UnicodeDecodeError, csv.Error):
                if 0 < Path(path).stat().st_size <= MOST_BYTES and (
                    table := tables_of(path, Path(path).read_text("utf-8"))
                ):
                    yield table


def find_named_records(
    call: Callable[[], Loader], folder: Path, files: Mapping[Index, Sequence[str]], seconds: float
) -> tuple[NamedRecords, ...]:
    """Exchange the contents of rows that name the files of samples, and of others, and see which samples change.

    `files` are those of each sample. All calls of the factory take so many `seconds` at most.
    """
    opened, started = _OpenedTables(folder), undisturbed_seconds()
    with opened.watched():
        first = _Samples(call(), folder)
        first.read(next(iter(files)))  # what is loaded at the first read is a table as well
        every = frozenset(file for own in files.values() for file in own)
        found: list[NamedRecords] = []
        for table in opened.tables(every):
            column, rows = table.named(sorted(every))
            own = {index: [file for file in each if file in rows] for index, each in files.items()}
            single = {index: each[0] for index, each in own.items() if len(each) == 1}
            if len(single) < FEWEST_COMPARED or len(found) == MOST_TABLES:
                continue
            search = _Search(call, folder, opened, table, column, {index: rows[file] for index, file in single.items()})
            base = {index: first.read(index) for index in search.rows}
            if undisturbed_seconds() - started > seconds / 2:
                return ()  # the next call would take the other half
            if (records := search.compare(base, single, seconds)) is not None:
                found.append(records)
            started = undisturbed_seconds()
    return tuple(found)


Seen = tuple[Values, frozenset[str]]
"""The values of a sample, and the files that it was read from."""


class _Samples:
    """Reads samples of one loader, and what they are read from."""

    def __init__(self, loader: Loader, folder: Path) -> None:
        self._reader, self._log = Reader(loader, folder), ReadLog(loader.dataset)

    def read(self, index: Index) -> Seen:
        with self._log.recorded():
            values = values_of(self._reader.read(index))
        return values, frozenset(read.file for read in self._log.reads if read.file)


@dataclass(slots=True)
class _Search:
    """Finds the rows of a table that samples have, which are read from the files that `rows` name."""

    call: Callable[[], Loader]
    folder: Path
    opened: _OpenedTables
    table: _Table
    column: Any
    rows: dict[Index, int]
    _texts: dict[int, str] = field(default_factory=dict)
    """What the rows that name a file say of it."""

    def __post_init__(self) -> None:
        every = range(len(self.table.records))
        self.rows = {
            index: self.rows[index] for index in evenly(list(self.rows), min(COMPARED_SAMPLES, len(every) // 2))
        }
        records = {row: self.table.contents(row, self.column) for row in every if self._is_record(row)}
        empty = {row: tuple(key for key, value in own.items() if value in ("", None)) for row, own in records.items()}
        usual = Counter(empty.values()).most_common(1)  # others may be left out by the factory
        self._texts = {row: repr(own) for row, own in records.items() if empty[row] == usual[0][0]}

    def compare(self, base: Mapping[Index, Seen], files: Mapping[Index, str], seconds: float) -> NamedRecords | None:
        """Which samples have the contents of the rows that name their files; None if that cannot be seen.

        None, too, if all calls of the factory take longer than `seconds`, by one that finds modules imported.
        """
        own = sorted(set(self.rows.values()) & self._texts.keys())
        others = [row for row in self._texts if row not in own]
        if len(own) < FEWEST_COMPARED or len(others) < FEWEST_COMPARED:
            return None
        started, calls = undisturbed_seconds(), FACTORY_CALLS + len(self.table.records).bit_length()
        if self._changed(base, []):
            return None  # the factory returns other samples when it is called again
        if (undisturbed_seconds() - started) * calls > seconds:
            return None
        forbid_writes()
        try:
            by_own, by_others = self._changed(base, own), self._changed(base, others)
            if by_own is None or by_others is None:
                return None
            right, wrong = by_own - by_others, sorted(by_others - by_own, key=str)
            number = {row: place for place, row in enumerate(self._texts)}
            places = [(number[self.rows[index]],) * 2 for index in right if self.rows[index] in number]
            if not wrong:
                return NamedRecords(self.table.path, len(self.rows), (), tuple(places)) if places else None
            found = dict.fromkeys(wrong, 0)
            for bit in range(len(others).bit_length()):
                changed = self._changed(base, [row for place, row in enumerate(others) if place >> bit & 1])
                for index in changed or ():
                    if index in found:
                        found[index] += 1 << bit
            had = {index: others[place] for index, place in found.items() if place < len(others)}
            confirmed = self._changed(base, sorted(set(had.values()))) or set()
        except (LoaderFailed, WriteRefused):
            return None
        had = {index: row for index, row in had.items() if index in confirmed and self.rows[index] in number}
        records = [
            OtherRecord(index, files[index], self.rows[index], row, self._name(row)) for index, row in had.items()
        ]
        places += [(number[one.row], number[one.other]) for one in records]
        return NamedRecords(self.table.path, len(self.rows), tuple(records), tuple(places))

    def _changed(self, base: Mapping[Index, Seen], rows: Sequence[int]) -> set[Index] | None:
        """The samples that change with the contents of these rows; None if some are read from other files then."""
        self.opened.exchange(self.table.path, self.table.exchanged(self.column, self._donors(rows)) if rows else None)
        samples, changed = _Samples(self.call(), self.folder), set[Index]()
        for index, (values, files) in base.items():
            after, own = samples.read(index)
            if own != files:
                return None
            if after.keys() != values.keys() or not all(map(_equal, values.values(), after.values())):
                changed.add(index)
        return changed

    def _donors(self, rows: Sequence[int]) -> dict[int, int]:
        """For each row another one with other contents: of these rows, so that what all of them hold stays the same."""
        order = sorted(rows, key=lambda row: (self._texts[row], row))
        half = len(order) // 2
        donors = dict(zip(order, order[half:] + order[:half], strict=True))
        first, *_ = self._texts
        other = next((row for row, text in self._texts.items() if text != self._texts[first]), first)
        for row, donor in donors.items():
            if self._texts[donor] == self._texts[row]:
                donors[row] = first if self._texts[first] != self._texts[row] else other
        return donors

    def _is_record(self, row: int) -> bool:
        """Whether a row names a file, as those of samples do, and is no header."""
        suffix = PurePosixPath(self._name(next(iter(self.rows.values())))).suffix
        return PurePosixPath(self._name(row)).suffix == suffix and bool(suffix or row)

    def _name(self, row: int) -> str:
        return str(dict(_items(self.table.records[row])).get(self.column, ""))


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
