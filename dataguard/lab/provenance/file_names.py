"""Names of files taken apart into folders, words and numbers, and what lies beside a file. Standard library only.

The name of a source is its path and, for a member of an archive or an array of a file, what stands after `::`.
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from dataguard.process.originals import os

MOST_NAMES = 150_000
"""Names that are listed for files of one role: to take as many apart takes 1.5 s, and COCO has 118,000."""
_SUFFIX = re.compile(r"(?:\.[a-z][a-z0-9]{0,9}){1,2}$", re.IGNORECASE)
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")
_WIDTH = 20
"""Digits to which whole numbers are filled up, so that they sort like numbers, and before words."""

Words = tuple[str, ...]


def shown(source: str, rows: Sequence[object]) -> str:
    """A source for readers, with its folder, and the first of its rows: `cats/17.jpg`, `train.h5/x, row 4`."""
    return ", row ".join(["/".join(FileName(source).steps[-2:]), *map(str, rows[:1])])


@lru_cache(4096)
def words_of(text: str) -> Words:
    """The words and numbers of a name, in lower case; equal numbers are equal, however many zeros they begin with."""
    return tuple(_normal(token) for token in _TOKEN.findall(text.lower()))


def _normal(token: str) -> str:
    if not token[0].isdigit():
        return token
    whole, _, fraction = token.partition(".")
    return whole.lstrip("0").zfill(_WIDTH) + (f".{fraction}" if fraction else "")


def is_number(word: str) -> bool:
    """Whether a word of `words_of` is a number."""
    return word[:1].isdigit()


@dataclass(frozen=True)  # without slots, which have no room for cached properties
class FileName:
    """The name of a source, taken apart."""

    source: str

    @cached_property
    def steps(self) -> tuple[str, ...]:
        """The folders, and the file or member."""
        return tuple(step for step in re.split(r"/|::", self.source) if step)

    @cached_property
    def suffix(self) -> str:
        """The suffix, in lower case, such as `.nii.gz`."""
        found = _SUFFIX.search(self.steps[-1])
        return found.group().lower() if found else ""

    @property
    def stem(self) -> str:
        """The last step without its suffix."""
        return self.steps[-1][: len(self.steps[-1]) - len(self.suffix)]

    @cached_property
    def words(self) -> tuple[Words, ...]:
        """The words of each step."""
        return (*map(words_of, self.steps[:-1]), words_of(self.stem))


def listed(names: Sequence[FileName], keys: Mapping[str, Sequence[str]] = MappingProxyType({})) -> list[FileName]:
    """All files, or members of an archive, in the place of these: below the folder that they share, as deep as they.

    `keys` are those of databases, by path. [] if these are not alike in depth, or if there are too many.
    """
    depths = {len(name.steps) for name in names}
    files = {name.source.partition("::")[0] for name in names}
    members = {name.source.partition("::")[2] for name in names}
    if len(depths) != 1 or not names:
        return []
    if len(files) == 1 and members != {""}:
        (file,) = files
        found = [f"{file}::{member}" for member in keys.get(file) or members_of(file)]
    elif len(members) == 1:
        (member,) = members
        root = os.path.dirname(os.path.commonpath(files)) if len(files) == 1 else os.path.commonpath(files)
        depth = {file.count("/") for file in files}.pop() - root.rstrip("/").count("/")
        found = [f"{file}::{member}" if member else file for file in _below(root, depth)]
    else:
        return []
    if len(found) > MOST_NAMES:
        return []
    return [name for name in map(FileName, found) if len(name.steps) in depths]


def _below(root: str, depth: int) -> Iterator[str]:
    """The files that lie exactly so deep below a folder, until there are too many."""
    folders = [root]
    for level in range(depth):
        inner = [f"{folder.rstrip('/')}/{name}" for folder in folders for name in entries(folder, level < depth - 1)]
        if len(inner) > MOST_NAMES:
            return
        folders = inner
    yield from folders


@lru_cache(1024)
def entries(folder: str, folders: bool) -> tuple[str, ...]:
    """The names of the files in a folder, or of its folders, without hidden ones."""
    try:
        with os.scandir(folder) as found:
            return tuple(sorted(entry.name for entry in found if entry.name[0] != "." and entry.is_dir() == folders))
    except OSError:
        return ()


@lru_cache(64)
def members_of(file: str) -> tuple[str, ...]:
    """The names of the members of an archive, or of the arrays of a file of HDF5."""
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                return tuple(name for name in archive.namelist() if not name.endswith("/"))
        if tarfile.is_tarfile(file):
            with tarfile.open(file) as tar:
                return tuple(member.name for member in tar if member.isfile())
        if "h5py" in sys.modules:
            return _arrays_of(sys.modules["h5py"], file)
    except Exception:  # noqa: BLE001 - a broken archive, or one that is being written: what is in it is unknown
        return ()
    return ()


def _arrays_of(h5py: Any, file: str) -> tuple[str, ...]:
    found: list[str] = []

    def note(name: str, value: Any) -> None:
        if isinstance(value, h5py.Dataset):
            found.append(f"/{name}")

    with h5py.File(file, "r") as opened:
        opened.visititems(note)
    return tuple(found)
