"""Which files a sample is read from, by folder, with the integers in the sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dataguard.lab.core.index import Index
from dataguard.lab.decoding.file_opens import watched
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.spy.value_summaries import numbers_of
from dataguard.targets.variants import Loader

READS = 24


@dataclass(frozen=True, slots=True)
class SampleFolders:
    """A sample: the names of the folders of its own files, and its single integers by path."""

    index: Index
    folders: tuple[str, ...]
    numbers: tuple[tuple[str, int], ...]


def find_folders(loader: Loader, folder: Path, indices: Sequence[Index]) -> tuple[SampleFolders, ...]:
    """Read samples, and find the files that are opened for each; files that several samples open are left out."""
    reader = Reader(loader, folder)
    reader.read(indices[0])
    found: list[tuple[Index, list[str], tuple[tuple[str, int], ...]]] = []
    for index in indices:
        opened: list[str] = []

        def note(path: str, opened: list[str] = opened) -> bool:
            opened.append(path)
            return False

        with watched(note):
            sample = reader.read(index)
        numbers = (one for one in numbers_of(sample) if one.size == 1 and one.whole and not one.is_float)
        found.append((index, list(dict.fromkeys(opened)), tuple((one.path, int(one.low)) for one in numbers)))
    shared = Counter(path for _, opened, _ in found for path in opened)
    return tuple(
        SampleFolders(
            index, tuple(dict.fromkeys(Path(path).parent.name for path in opened if shared[path] == 1)), numbers
        )
        for index, opened, numbers in found
    )
