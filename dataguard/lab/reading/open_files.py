"""What samples share beneath their values: open files and memory.

The files that are open for reading in this process, with their offsets and the objects that hold them; and where
tensors and arrays lie in memory, and which of them overlap.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import io
import stat
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.core.incident import is_library
from dataguard.core.model import NotTested
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.loader_facts import worker_roots
from dataguard.lab.core.object_graph import Node, reachable
from dataguard.lab.core.source_location import Place, assigned_at, caller, made_at
from dataguard.process.originals import os
from dataguard.targets.variants import Loader

AddressRanges = tuple[tuple[int, int], ...]
"""Ranges of memory addresses, each with start and end."""


def address_ranges(leaf: Any) -> AddressRanges:
    """The memory of a tensor or array; of another mutable object its `id`."""
    if isinstance(leaf, torch.Tensor):
        if leaf.layout is not torch.strided or not leaf.numel():
            return ()
        steps = [stride * leaf.element_size() for stride in leaf.stride()]
        return _array_range(leaf.data_ptr(), leaf.shape, steps, leaf.element_size())
    if isinstance(leaf, np.ndarray):
        return _array_range(leaf.ctypes.data, leaf.shape, leaf.strides, leaf.itemsize) if leaf.size else ()
    mutable = not isinstance(leaf, str | bytes | int | float | complex | bool | type(None) | np.generic)
    return ((id(leaf), id(leaf) + 1),) if mutable else ()


def _array_range(start: int, shape: Sequence[int], steps: Sequence[int], size: int) -> AddressRanges:
    """The address range of an array; steps are in bytes, and may be negative."""
    reaches = [(count - 1) * step for count, step in zip(shape, steps, strict=True)]
    return ((start + sum(min(reach, 0) for reach in reaches), start + sum(max(reach, 0) for reach in reaches) + size),)


def overlap(ranges: AddressRanges, others: AddressRanges) -> bool:
    """Whether any two of these ranges overlap."""
    return any(start < other_end and other < end for start, end in ranges for other, other_end in others)


def ranges_at(value: Any, path: str) -> AddressRanges:
    """The address ranges of the leaf at a path of a sample or batch, and of the container that leads to it."""
    containers = [] if value is None else [(id(value), id(value) + 1)]
    return tuple(
        address_range
        for step, leaf in iter_leaves(value)
        if step == path
        for address_range in (*containers, *address_ranges(leaf))
    )


def overlapping(leaves: Sequence[Any]) -> list[int]:
    """The numbers of the leaves that share memory with another one."""
    ranges = sorted(
        (*address_range, number) for number, leaf in enumerate(leaves) for address_range in address_ranges(leaf)
    )
    numbers: set[int] = set()
    reach, last = 0, -1
    for start, end, number in ranges:
        if start < reach and number != last:
            numbers |= {number, last}
        if end > reach:
            reach, last = end, number
    return sorted(numbers)


_DESCRIPTORS = Path("/proc/self/fd")
_FAR = 1 << 40
"""An offset that no reader reaches."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file that was open for reading before any sample was read.

    `path` leads to the object that holds it, such as `dataset.file`, if one was found; `at` is the line that sets it,
    or that of the class around it. `identity` is its device and inode, because a closed descriptor is reused; `size`
    and `changed` (ns) show whether the file was written to later; `readers` counts the workers whose items read it, if
    known.
    """

    descriptor: int
    file: str
    identity: tuple[int, int]
    size: int
    changed: int
    path: str | None = None
    at: tuple[str, int] | None = None
    readers: int = 0

    @property
    def name(self) -> str:
        """The path of the object that holds it, or else its file."""
        return self.path or self.file

    def is_same(self, other: OpenFile) -> bool:
        """Whether this is the same file in another build of the loader."""
        return self.path == other.path if self.path and other.path else self.descriptor == other.descriptor

    def is_written(self) -> bool:
        """Whether the file was written to since, such as a log, whose offset has to move."""
        status = self._status()
        return status is not None and (status.st_size, status.st_mtime_ns) != (self.size, self.changed)

    def offset(self) -> int:
        """The offset of its file description; -1 once it is closed."""
        return -1 if self._status() is None else os.lseek(self.descriptor, 0, os.SEEK_CUR)

    def seek(self, offset: int) -> None:
        """Set the offset for every process that shares the file description."""
        if self._status() is not None:
            os.lseek(self.descriptor, offset, os.SEEK_SET)

    def _status(self) -> os.stat_result | None:
        """None once the file is closed."""
        try:
            status = os.fstat(self.descriptor)
        except OSError:
            return None
        return status if (status.st_dev, status.st_ino) == self.identity else None

    def seek_far(self) -> int:
        """Set the offset to one that no reader reaches, and return it."""
        self.seek(_FAR + self.descriptor)
        return self.offset()


def held_files(loader: Loader, folder: Path) -> list[OpenFile]:
    """The files that are open for reading, outside of this folder, with what of a loader holds them."""
    files = open_files(folder)
    return list(with_holders(files, worker_roots(loader))) if files else []


def open_files(excluded: Path) -> list[OpenFile]:
    """Every regular file that is open for reading in this process, except in the folder `excluded`.

    Raises NotApplicable where the system does not list descriptors.
    """
    if not _DESCRIPTORS.is_dir():
        raise NotTested("open files can only be listed on Linux")
    opened = (_opened(int(entry.name), excluded) for entry in list(_DESCRIPTORS.iterdir()))
    return sorted((file for file in opened if file), key=lambda file: file.descriptor)


def _opened(descriptor: int, excluded: Path) -> OpenFile | None:
    try:
        status = os.fstat(descriptor)
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        file = str((_DESCRIPTORS / str(descriptor)).readlink())
    except OSError:  # the descriptor of the listing itself
        return None
    # A file opened for appending is a log: its offset does not matter.
    if descriptor < 3 or not stat.S_ISREG(status.st_mode) or flags & (os.O_APPEND | os.O_PATH):
        return None
    if flags & os.O_ACCMODE == os.O_WRONLY or Path(file).is_relative_to(excluded):
        return None
    return OpenFile(descriptor, file, (status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns)


def _users_line(node: Node) -> tuple[str, int] | None:
    """The line that assigns the attribute of the user's object around a node; else where its class is defined."""
    holder = node.holder.value if node.holder else None
    at = assigned_at(holder, node.step.removeprefix("."))
    if at:
        return at[:2]
    location = made_at(holder)
    return location if location and location[0] and not is_library(location[0]) else None


def with_holders(files: list[OpenFile], roots: Mapping[str, Any]) -> list[OpenFile]:
    """The files with the objects that hold them, if those can be reached from the roots."""
    holders: dict[int, tuple[str, tuple[str, int] | None]] = {}
    for node in reachable(roots, _descriptor_of):
        users_location = next(filter(None, map(_users_line, node.line)), None)
        holders.setdefault(_descriptor_of(node.value) or -1, (_readable(node.path), users_location))
    return [
        replace(file, path=holders[file.descriptor][0], at=holders[file.descriptor][1])
        if file.descriptor in holders
        else file
        for file in files
    ]


def opening_line(again: Callable[[], Loader], folder: Path, path: str) -> Place | None:
    """The line that opens the file that the object at this path holds, in one more call of the factory.

    Only for a disposable process: audit hooks cannot be removed. What native code opens raises no audit event.
    """
    watch = _OpenWatch()
    sys.addaudithook(watch.noted)
    loader = again()
    watch.settle()
    watch.ended = True
    file = next((file for file in held_files(loader, folder) if file.path == path), None)
    return watch.places.get(file.descriptor) if file else None


class _OpenWatch:
    """Notes which line of the user's code opens each descriptor: the event comes before it is known."""

    def __init__(self) -> None:
        self.places: dict[int, Place] = {}
        self.ended = False
        self._opening: tuple[str, Place] | None = None
        self._before = _descriptors()

    def noted(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an event of Python's own."""
        if event != "open" or self.ended or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        name, place = os.fsdecode(arguments[0]), caller()
        if place is not None:
            self.settle()
            self._opening = os.path.abspath(name), place

    def settle(self) -> None:
        """Give the descriptor that is new since the last event to the line of that event, if it has its file."""
        now = _descriptors()
        for descriptor, file in now.items() if self._opening else ():
            if self._opening and self._before.get(descriptor) != file and file.startswith(self._opening[0]):
                self.places[descriptor] = self._opening[1]
        self._before = now


def _descriptors() -> dict[int, str]:
    """The descriptors of this process, and what each is open for."""
    opened: dict[int, str] = {}
    for name in os.listdir(_DESCRIPTORS):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            opened[int(name)] = os.readlink(_DESCRIPTORS / name)
    return opened


_FILES = (io.FileIO, io.BufferedReader, io.BufferedRandom, io.TextIOWrapper, gzip.GzipFile)


def _descriptor_of(value: Any) -> int | None:
    """The descriptor of a file object or archive; None for anything else."""
    kinds = type(value).__mro__  # isinstance reads __class__, which may run the user's code
    if zipfile.ZipFile in kinds:
        return _descriptor_of(value.fp)
    if tarfile.TarFile in kinds:
        return _descriptor_of(value.fileobj)
    if not any(kind in kinds for kind in _FILES):
        return None
    try:
        descriptor: int = value.fileno()
    except (OSError, ValueError, AttributeError):  # closed, or in memory
        return None
    return descriptor


def _readable(path: str) -> str:
    """A path without the classes and functions that lead to a module global."""
    _, global_part, name = path.rpartition(".<global ")
    return name.replace(">", "", 1) if global_part else path
