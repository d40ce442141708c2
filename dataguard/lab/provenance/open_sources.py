"""What the objects of a dataset read from, and which source the bytes have that something decodes.

A decoder gets a path, an open file, or bytes. Bytes are looked for in what known functions returned while this sample
was made, and then in the files that were opened meanwhile. If they are found nowhere, their source is unknown.
"""

from __future__ import annotations

import io
import mmap
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.object_graph import reachable
from dataguard.lab.rows.origins import Read
from dataguard.process.originals import os

MOST_PASSED, MOST_PASSED_BYTES = 4096, 1 << 28
"""Objects that are remembered of one sample, and their bytes: they are kept alive, so that no other gets their `id`."""
FEWEST_BYTES = 32
"""Bytes that are looked for in a file: fewer may stand in another one by chance."""
MOST_FILE_BYTES = 1 << 28
"""Larger files are not searched."""
LONGEST_PATH = 4096
"""Bytes of a path in Linux."""
_PLAIN = (int, float, str, type(None))
MOST_SEARCHES = 4
"""How many objects are searched in the dataset: a search may take a second."""


@dataclass(frozen=True, slots=True)
class Passed:
    """What a known function returned: the read, and the units of the log that it may be changed by."""

    value: Any
    read: Read
    units: range = range(0)


class OpenSources:
    """The sources of open objects and of content, in this disposable process."""

    def __init__(self, dataset: Any = None) -> None:
        self._dataset = dataset
        self._opened: dict[int, tuple[Any, Read]] = {}
        self._held: dict[int, tuple[Any, str | None]] = {}
        self._passed: dict[int, Passed] = {}
        self._bytes = 0
        self.files: dict[str, None] = {}
        """The files that were opened while this sample was made."""

    def begin(self) -> None:
        """Forget what the sample before was made from."""
        self._passed.clear()
        self.files.clear()
        self._bytes = 0

    def opened(self, value: Any, read: Read | None, *, always: bool = False) -> None:
        """Remember what an object reads from; of None, that it is unknown.

        `always`: every object of this class is opened by a function that is known. So one that has no weak references
        can be recognized by its `id`, which is given to another object once it is gone.
        """
        self._opened.pop(id(value), None)
        if read is not None:
            try:
                self._opened[id(value)] = weakref.ref(value), read
            except TypeError:
                if always:
                    self._opened[id(value)] = type(value), read

    def pass_on(self, passed: Passed) -> None:
        """Remember what was returned, as something may decode it."""
        parts = passed.value if isinstance(passed.value, tuple | list) else (passed.value,)
        for part in parts[:MOST_PASSED]:
            if isinstance(part, _PLAIN):  # such an object is one for the whole program
                continue
            self._bytes += _size(part)
            if self._bytes <= MOST_PASSED_BYTES and len(self._passed) < MOST_PASSED:
                self._passed[id(part)] = replace(passed, value=part)

    def read_of_object(self, value: Any) -> Read | None:
        """What an object reads from: what it was opened from, or its own name if the dataset holds it."""
        reference, read = self._opened.get(id(value), (None, None))
        if read is not None and (reference is type(value) or (reference is not None and reference() is value)):
            return read
        name = self._name(value)
        return None if name is None else Read(name)

    def _name(self, value: Any) -> str | None:
        if id(value) in self._held:
            return self._held[id(value)][1]
        if self._dataset is None or len(self._held) >= MOST_SEARCHES:
            return None
        found = next(iter(reachable({"dataset": self._dataset}, lambda other: other is value)), None)
        name = found.path if found is not None else None
        self._held[id(value)] = value, name
        return name

    def read_of_file(self, given: Any) -> Passed | None:
        """The source of a path, an open file, or content."""
        if isinstance(given, str | os.PathLike):
            path = path_of(given)
            return None if path is None else Passed(given, Read(path))
        known = self.passed(given)
        if known is not None:
            return known
        path = path_of(given)
        if path is not None:
            return Passed(given, Read(path))
        content = _content(given)
        return None if content is None or len(content) < FEWEST_BYTES else self._in_files(content)

    def passed(self, given: Any) -> Passed | None:
        """What a known function returned, if this is it, a view of it, or as many equal bytes."""
        for part in _parts(given):
            known = self._passed.get(id(part))
            if known is not None and known.value is part:
                return known
        content = _content(given)
        if content is None or len(content) < FEWEST_BYTES:
            return None
        for known in reversed(self._passed.values()):
            other = _content(known.value)
            if other is not None and len(other) == len(content) and other == content:
                return known
        return None

    def _in_files(self, content: memoryview) -> Passed | None:
        for path in reversed(self.files):
            position = _position(path, content)
            if position is not None:
                whole = os.path.getsize(path) == len(content)
                return Passed(None, Read(path, () if whole else (position,)))
        return None


def path_of(given: Any) -> str | None:
    """The real path of a file or folder that is given by path or as an open file."""
    given = given if isinstance(given, str | bytes | os.PathLike) else getattr(given, "name", None)
    if not isinstance(given, str | bytes | os.PathLike):
        return None
    try:
        if isinstance(given, bytes) and len(given) > LONGEST_PATH:  # content
            return None
        path = os.path.realpath(os.fsdecode(given))
        return path if os.path.exists(path) else None
    except ValueError:  # bytes that are no path
        return None


def _parts(given: Any) -> Iterator[Any]:
    """An object, and what it is a view of."""
    for _ in range(8):  # deep enough for a reader of a view of bytes
        yield given
        if isinstance(given, io.BytesIO):
            given = given.getvalue()  # the bytes themselves, unless it was written to
        elif isinstance(given, memoryview):
            given = given.obj
        elif isinstance(given, np.ndarray):
            given = given.base
        elif isinstance(given, io.BufferedReader):
            given = given.raw
        elif isinstance(given, io.TextIOWrapper):
            given = given.buffer
        else:
            return


def _content(given: Any) -> memoryview | None:
    """Bytes, however they are held."""
    if isinstance(given, io.BytesIO):
        return given.getbuffer()
    if isinstance(given, torch.Tensor):
        if given.dtype is not torch.uint8 or given.device.type != "cpu" or given.layout is not torch.strided:
            return None
        given = given.detach().numpy()
    try:
        view = memoryview(given)
        return view.cast("B") if view.c_contiguous and view.nbytes else None
    except (TypeError, ValueError, BufferError):
        return None


def _size(value: Any) -> int:
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    width, height = getattr(value, "width", None), getattr(value, "height", None)  # of a frame of a video
    return 3 * width * height if isinstance(width, int) and isinstance(height, int) else 0


def _position(path: str, content: memoryview) -> int | None:
    """Where a file contains these bytes."""
    try:
        if not len(content) <= os.path.getsize(path) <= MOST_FILE_BYTES:
            return None
        descriptor = os.open(path, os.O_RDONLY)
        try:
            with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as file:
                position = file.find(content)
                return position if position >= 0 else None
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return None


def database_of(dataset: Any, path: str) -> Any:
    """The open LMDB at a path: that of the dataset, as a process can open one only once, or a new one.

    None if it is no such database, or if the library was not imported.
    """
    lmdb = sys.modules.get("lmdb")
    if lmdb is None or not os.path.isfile(f"{path}/data.mdb" if os.path.isdir(path) else path):
        return None

    def is_held(value: Any) -> bool:
        return isinstance(value, lmdb.Environment) and os.path.realpath(value.path()) == path

    held = next((node.value for node in reachable({"dataset": dataset}, is_held)), None)
    try:
        return held or lmdb.open(path, subdir=os.path.isdir(path), readonly=True, lock=False)
    except lmdb.Error:  # another kind of file, or open, and nothing that the dataset holds
        return None


def keys_of(dataset: Any, path: str, most: int) -> tuple[str, ...]:
    """The keys of a database as text; none if there are more, or if it is none."""
    database = database_of(dataset, path)
    if database is None:
        return ()
    with database.begin() as transaction:
        keys = [str(key_text(key)) for key in islice(transaction.cursor().iternext(values=False), most + 1)]
    return tuple(keys) if len(keys) <= most else ()


def key_text(value: Any) -> int | str:
    """A key as plain data."""
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        return raw.decode() if raw.isascii() else raw.hex()
    if isinstance(value, bool | int | np.integer):
        return int(value)
    return value if isinstance(value, str) else repr(value)
