"""What a dataset stores for each index: paths, names, rows of arrays, indices of a subset, and groups of samples.

This alone proves nothing: it selects the samples of two splits that are read and compared. A group, such as a patient,
speaker or session, is known if an attribute, column or leaf names it.
"""

from __future__ import annotations

import contextlib
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Subset
from xxhash import xxh3_64

from dataguard.core.leaf_paths import key_of
from dataguard.lab.core.loader_facts import asked_columns, length_of
from dataguard.lab.core.records import Index, plain_index
from dataguard.lab.reading.epoch_trace import EpochTrace, gate
from dataguard.lab.reading.recorded_order import draw_epoch, recorder
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.splits.sample_pairs import PAIR_DRAWS, Thumbnails, thumbnails_of
from dataguard.lab.splits.stored_contents import content_of
from dataguard.lab.splits.tables import Table, find_tables, hashes_of_records
from dataguard.lab.spy.sample_ledger import FEWEST_HASHED_BYTES, hashes_of_rows
from dataguard.process.originals import os
from dataguard.targets.variants import Loader

WORDS = frozenset({"patient", "subject", "speaker", "participant", "session", "group"})
"""What names a group whose samples belong together; `site`, `device` and `class` name what splits are to share."""
_IDS = frozenset({"id", "ids", "no", "number", "name", "names", "key", "keys", "idx", "index", "code", "codes"})
MOST_GROUPS = 500_000
"""Datasets with more indices are skipped: a limit of memory, as each index has its name."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The group of each sample by index. `table` is a digest of all rows that these were chosen from, if known."""

    name: str
    of: Mapping[Index, str]
    table: bytes | None = None


def is_group(name: str, declared: str | None) -> bool:
    """Whether a name is that of a group, such as `patient_id`, or the declared one."""
    if declared is not None:
        return name == declared
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    return bool(words) and words[0].removesuffix("s") in WORDS and _IDS.issuperset(words[1:])


def find_groups(dataset: Any, indices: Sequence[int], declared: str | None) -> tuple[Groups, ...]:
    """The groups that a dataset, or one that it wraps, lists for its indices."""
    tables: dict[str, bytes] = {}

    def own(part: Any) -> Iterator[tuple[str, np.ndarray]]:
        for name, values in _listed(part, declared):
            tables[name] = xxh3_64("\0".join(values).encode("utf-8", "surrogatepass")).digest()
            yield name, np.array(values, dtype=object)

    return tuple(
        Groups(name, {index: str(column[index]) for index in indices}, tables[name])
        for name, (_, column) in asked_columns(dataset, own, indices, MOST_GROUPS).items()
    )


def recorded_groups(epoch: EpochTrace, declared: str | None) -> tuple[Groups, ...]:
    """The groups that leaves of recorded samples name."""
    found: dict[str, dict[Index, str]] = {}
    for sample in epoch.samples:
        for leaf in sample.leaves:
            name = key_of(leaf.path)
            if sample.index is not None and leaf.shown and is_group(name, declared):
                found.setdefault(name, {})[sample.index] = leaf.shown.strip("'\"")
    for summary in epoch.value_summaries:
        for numbers in summary.numbers if summary.index is not None else ():
            name = key_of(numbers.path)
            if numbers.whole and numbers.size == 1 and is_group(name, declared):
                found.setdefault(name, {})[summary.index] = str(int(numbers.low))
    return tuple(Groups(name, of) for name, of in found.items())


def _listed(dataset: Any, declared: str | None) -> Iterator[tuple[str, list[str]]]:
    """The attributes of one dataset, columns of its tables and keys of its records that are groups, as text."""
    length = length_of(dataset) or 0
    for name, value in () if isinstance(dataset, Subset) else list(getattr(dataset, "__dict__", {}).items()):
        if hasattr(value, "iloc") and hasattr(value, "columns"):  # pandas, if the user imported it
            parts = {str(column): value[column].tolist() for column in value.columns}
        elif isinstance(value, list) and len(value) == length and value and isinstance(value[0], Mapping):
            keys = [key for key in value[0] if isinstance(key, str) and is_group(key, declared)]
            parts = {key: [one.get(key) for one in value] for key in keys}
        else:
            plain = isinstance(value, torch.Tensor | np.ndarray) and value.ndim == 1
            parts = {name: value.tolist() if plain else value}
        for part, values in parts.items():
            listed = isinstance(values, list | tuple) and len(values) == length > 0 and is_group(part, declared)
            if listed and all(isinstance(one, str | int) for one in values):
                yield part, list(map(str, values))


CONTENT_READS = len(PAIR_DRAWS) + 2
"""Samples that are read to see whether one varies, and which values of it a table holds."""
MOST_INDICES = 4_000_000
"""Datasets with more indices are skipped: a limit of memory, of 32 MB for each column."""
DISTINCT_SHARE = 0.9
"""The share of distinct values above which a column identifies samples: labels and sizes repeat more, and a few copies
of samples leave it above."""
_MOST_DEPTH = 2
"""How deep names are searched in the entries of a list: in a record, or in an image that a record holds."""
_MASK = (1 << 64) - 1
"""Makes hashes unsigned, as `array("Q")` holds them."""

Columns = Mapping[str, "array[int]"]
"""For each way to identify samples, one number per index, equal in all forks of one process."""


CONTENT = "the content of"
"""The prefix of a column for the content of samples."""
NAMES = "the names in"
"""The prefix of a column for names of samples only."""
SUBSET = "the indices of "
"""The prefix of a column for a subset's indices: they can be compared only for the same dataset."""


@dataclass(frozen=True, slots=True)
class IndexContents:
    """What a dataset stores for each index that its loader requests.

    `complete`: these are all indices of one epoch; `deterministic`: two reads of a sample, in different generator
    states, are equal. `thumbnails` are those of the image files that were read.
    """

    indices: array[int]
    columns: Columns
    complete: bool
    deterministic: bool
    thumbnails: Thumbnails
    tables: tuple[Table, ...] = ()
    groups: tuple[Groups, ...] = ()

    @property
    def identify(self) -> bool:
        """Whether all samples differ in content that the dataset stores."""
        return self.complete and any(name.startswith(CONTENT) for name in self.columns)

    def by_index(self, name: str) -> dict[Index, int]:
        """The number of each index in a column."""
        return dict(zip(self.indices, self.columns[name], strict=True))


def read_index_contents(
    build: Callable[..., Loader],
    folder: Path,
    length: int | None,
    most_files: int,
    index: Index,
    seconds: float,
    group: str | None,
) -> IndexContents:
    """Draw the indices of an epoch, inspect the dataset, and read one sample twice in two generator states.

    Image files are read for so many seconds. `group` is the name that the contract gives.
    """
    recorded, schedule = recorder(length)
    loader = build(num_workers=0, schedule=schedule)
    with gate("sampler"):
        draw_epoch(loader, recorded, 0)
    drawn = {one: None for record in recorded for batch in record.batches for one in map(plain_index, batch)}
    indices = array("q", sorted(one for one in drawn if isinstance(one, int) and one >= 0))
    whole = bool(recorded) and all(record.whole for record in recorded if record.batches) and len(indices) == len(drawn)
    columns, files = find_columns(loader.dataset, indices, most_files)
    thumbnails, groups = thumbnails_of(files, seconds), find_groups(loader.dataset, indices, group)
    if index is None:
        return IndexContents(indices, columns, whole, False, thumbnails, (), groups)
    reader = Reader(loader, folder)
    answers = [reader.ask(index, draw) for draw in (*PAIR_DRAWS, PAIR_DRAWS[0])]
    steady = len({tuple(sorted(answer.digests.items())) for answer in answers}) == 1
    known = steady and answers[0].incident is None
    tables = find_tables(loader.dataset, indices, reader.read(index), index) if known else ()
    return IndexContents(indices, columns, whole, steady, thumbnails, tables, groups)


def find_columns(dataset: Any, indices: Sequence[int], most_files: int) -> tuple[Columns, list[str]]:
    """The columns of a dataset and of those that it wraps, including the content of up to so many files.

    The second value is the paths of those files.
    """
    finder = ColumnFinder(most_files)
    found = asked_columns(dataset, finder.own, indices, MOST_INDICES)
    asked = {name: array("Q", column[np.asarray(indices)].tobytes()) for name, (_, column) in found.items()}
    named = {number: None for name, column in asked.items() if name.startswith(NAMES) for number in column}
    files = [finder.files[number] for number in named if number in finder.files]
    return {name: column for name, column in asked.items() if len(set(column)) >= DISTINCT_SHARE * len(column)}, files


class ColumnFinder:
    """Finds attributes of datasets that have an entry per index."""

    def __init__(self, most_files: int) -> None:
        self._most_files = most_files
        self._folders: list[str] = [""]
        self.files: dict[int, str] = {}
        """The files that were read, by the numbers of their names."""

    def own(self, dataset: Any) -> Iterator[tuple[str, np.ndarray]]:
        """The named columns of one dataset: the indices of a subset, the attributes of any other."""
        if isinstance(dataset, Subset):
            indices = np.asarray(dataset.indices, np.int64).astype(np.uint64)
            yield f"{SUBSET}{type(dataset.dataset).__name__}[{length_of(dataset.dataset)}]", indices
        elif not isinstance(dataset, ConcatDataset):
            yield from ((name, np.array(rows)) for name, rows in self._of_attributes(dataset))

    def _of_attributes(self, dataset: Any) -> Iterator[tuple[str, array[int]]]:
        length = length_of(dataset) or 0
        attributes = getattr(dataset, "__dict__", {})
        strings = [os.fspath(one) for one in attributes.values() if isinstance(one, str | os.PathLike)]
        self._folders = ["", *(one for one in strings if isinstance(one, str) and one and Path(one).is_dir())]
        for name, value in attributes.items() if length else ():
            yield from ((f"{kind} {name}{step}", rows) for kind, step, rows in self._rows(value, length))

    def _rows(self, value: Any, length: int) -> Iterator[tuple[str, str, array[int]]]:
        """The numbers of a value with an entry per index: their kind, their path, and the numbers."""
        if (records := hashes_of_records(value)) is not None and len(records) == length:
            yield CONTENT, "", array("Q", records.tobytes())
        if hasattr(value, "iloc") and hasattr(value, "columns"):  # pandas, if the user imported it
            for name in value.columns:
                for kind, step, rows in self._rows(value[name].tolist(), length):
                    yield kind, f"[{name!r}]{step}", rows
            return
        if isinstance(value, tuple) and len(value) != length and all(isinstance(one, torch.Tensor) for one in value):
            for position, one in enumerate(value):  # TensorDataset
                yield from ((kind, f"[{position}]{step}", rows) for kind, step, rows in self._rows(one, length))
            return
        if isinstance(value, torch.Tensor):
            value = value.detach().numpy() if value.device.type == "cpu" and value.layout is torch.strided else None
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc" and value.ndim and len(value) == length:
            yield from self._numbers(value)
        elif isinstance(value, list | tuple) and len(value) == length:
            yield from self._listed(value)
        elif isinstance(value, np.ndarray) and value.ndim == 1 and len(value) == length:
            yield from self._listed(value.tolist())

    def _numbers(self, value: np.ndarray) -> Iterator[tuple[str, str, array[int]]]:
        """The numbers of the rows of an array."""
        if value.nbytes // len(value) >= FEWEST_HASHED_BYTES:
            parts = np.array_split(value, -(-len(value) // 4096))
            yield CONTENT, "", array("Q", [row for part in parts for row in hashes_of_rows(part)])

    def _listed(self, value: Sequence[Any], depth: int = 0) -> Iterator[tuple[str, str, array[int]]]:
        """The numbers of a list of paths, names or arrays, or of tuples, dictionaries or objects that hold names."""
        parts = _parts(value[0])
        if not parts:
            yield from ((kind, "", rows) for kind, rows in self._entries(value))
        for step, get, part in parts:
            if isinstance(part, str | os.PathLike):
                yield from ((kind, f"[*]{step}", rows) for kind, rows in self._entries([*map(get, value)]))
            elif depth < _MOST_DEPTH and not isinstance(part, tuple | list) and _parts(part):
                inner = self._listed([*map(get, value)], depth + 1)
                yield from ((kind, f"[*]{step}{more.removeprefix('[*]')}", rows) for kind, more, rows in inner)

    def _entries(self, entries: Sequence[Any]) -> Iterator[tuple[str, array[int]]]:
        numbers = [_number(entry) for entry in entries]
        if None not in numbers:
            strings = isinstance(entries[0], str | os.PathLike)
            yield NAMES if strings else CONTENT, array("Q", [one for one in numbers if one is not None])
            if strings and len(entries) <= self._most_files:
                yield from self._contents(entries)

    def _contents(self, names: Sequence[Any]) -> Iterator[tuple[str, array[int]]]:
        """The numbers of the contents of files with these names."""
        for folder in self._folders:
            if os.path.isfile(Path(folder) / names[0]):
                with contextlib.suppress(OSError, ValueError, TypeError):
                    yield f"{CONTENT} the files in", array("Q", [content_of(Path(folder) / name) for name in names])
                    self.files |= {number: str(Path(folder) / name) for name in names if (number := _number(name))}
                return


def _parts(entry: Any) -> list[tuple[str, Callable[[Any], Any], Any]]:
    """The parts of an entry: the step to each, how to get it from another entry, and the part."""
    if isinstance(entry, tuple | list):
        return [(f"[{position}]", partial(_item, position), part) for position, part in enumerate(entry)]
    if isinstance(entry, type | str | os.PathLike | np.ndarray | torch.Tensor):
        return []
    keyed = entry.items() if isinstance(entry, Mapping) else ()
    parts = [(f"[{key!r}]", partial(_keyed, key), part) for key, part in keyed]
    attributes = getattr(entry, "__dict__", {})
    return [*parts, *((f".{name}", partial(_attribute, name), part) for name, part in attributes.items())]


def _item(place: int, entry: Any) -> Any:
    return entry[place] if isinstance(entry, tuple | list) and len(entry) > place else None


def _keyed(key: Any, entry: Any) -> Any:
    return entry.get(key) if isinstance(entry, Mapping) else None


def _attribute(name: str, entry: Any) -> Any:
    return getattr(entry, "__dict__", {}).get(name)


def _number(part: Any) -> int | None:
    if isinstance(part, str | os.PathLike):
        return hash(os.fspath(part)) & _MASK  # the same in all forks of one process
    if isinstance(part, torch.Tensor) and part.layout is torch.strided and part.device.type == "cpu":
        part = part.detach().numpy()
    if isinstance(part, np.ndarray) and part.dtype.kind in "biufc" and part.nbytes >= FEWEST_HASHED_BYTES:
        return hashes_of_rows(part.reshape(1, -1))[0]
    return None
