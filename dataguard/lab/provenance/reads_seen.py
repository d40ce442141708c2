"""What is read while a sample is made: files, and rows, frames or members of what they hold.

An audit hook of Python sees each file that is opened, whoever opens it in Python. Known functions of libraries
(`readers.py`) say more: which rows of an array or frames of a video they return. Their results can be exchanged for
other values (`ReadLog.changed`), so that `RowTracer` finds which positions of a sample come from which read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from dataguard.core.incident import is_library
from dataguard.lab.core.source_location import caller
from dataguard.lab.decoding.decoders import Patched, redirect, redirect_method
from dataguard.lab.provenance.altered_values import Cell, altered
from dataguard.lab.provenance.open_sources import OpenSources, Passed, path_of
from dataguard.lab.provenance.readers import READERS, Call, KnownFunction, Returns, function_of, piece_of
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.origins import LeafReads, LeafRows, Read
from dataguard.lab.rows.rows_changed import RowTracer, Values, values_of
from dataguard.process.originals import os

MOST_READS = 4096
"""Reads of one sample that are recorded: a limit of memory."""
MOST_POSITIONS = 64
"""Positions of a leaf that are compared with each other."""
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/")
"""Folders whose files are no data."""
_CODE = (".py", ".pyc", ".so", ".pyd")


class ReadLog:
    """Records what is read in this disposable process while a sample is made, and changes some of it, as a `Store`.

    `install` patches the modules that are imported so far; it is called before each sample, as reading may import more.
    """

    path = "reads"
    bytes = 0
    starts: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()

    def __init__(self, dataset: Any = None) -> None:
        self.reads: list[Read] = []
        self.exchange: Callable[[Read, Any], Any] | None = None
        """Returns what the user's code gets in place of values or a table that was read."""
        self.count = 0
        self.units: list[Read] = []
        """What can be changed of what was read last without changes: each row that a known function returned is one."""
        self._sources = OpenSources(dataset)
        self._first: dict[tuple[Read, int], range] = {}
        self._times: Counter[Read] = Counter()
        self._passed_on: set[int] = set()
        self._changing: np.ndarray | None = None
        self._cell: Cell | None = None
        self._inside = threading.local()
        self._recording, self._thread = False, threading.get_ident()
        self._patched: Patched = {}
        self._modules = 0
        sys.addaudithook(self._audit)

    def install(self) -> None:
        """Patch the known functions of the modules that are imported, whoever holds them."""
        if self._modules == len(sys.modules):
            return
        self._modules = len(sys.modules)
        for reader in READERS:
            owner, function = function_of(reader)
            if callable(function) and id(function) not in self._patched:
                self._patched[id(function)] = function
                with contextlib.suppress(TypeError, ValueError):  # of another kind than known: it stays unseen
                    if reader.owner:
                        redirect_method(owner, reader.name, self._around(reader))
                        patched = function_of(reader)[1]
                        self._patched[id(patched)] = patched
                    else:
                        redirect(function, self._around(reader))

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Record from the beginning what is read meanwhile."""
        self.install()
        self.reads.clear()
        self._sources.begin()
        self._times.clear()
        if self._changing is None:
            self.units, self.count = [], 0
            self._first.clear()
            self._passed_on.clear()
        self._recording, self._thread = True, threading.get_ident()
        try:
            yield
        finally:
            self._recording = False

    @contextlib.contextmanager
    def changed(
        self, rows: np.ndarray, columns: Sequence[int] | None = None, cell: Cell | None = None
    ) -> Iterator[None]:
        """Change these units, or a cell of each, while the same sample is read again.

        Those that something decoded, as images, stay.
        """
        del columns
        self._changing, self._cell = np.setdiff1d(rows, list(self._passed_on)), cell
        try:
            yield
        finally:
            self._changing = self._cell = None

    @contextlib.contextmanager
    def files(self) -> Iterator[list[str]]:
        """Collect the files that are read meanwhile, each once, in order."""
        found: list[str] = []
        with self.recorded():
            yield found
        found += dict.fromkeys(read.file for read in self.reads if read.file is not None)

    def note(self, read: Read) -> None:
        """Record a read."""
        if self._recording and len(self.reads) < MOST_READS:
            self.reads.append(read)

    def _around(self, reader: KnownFunction) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        opens = reader.returns is Returns.SOURCE

        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                inside = self._inside
                if getattr(inside, "busy", False) or not (self._recording or opens) or self._is_foreign():
                    return original(*args, **kwargs)
                called = Call(args[0], args[1:], kwargs) if reader.owner and args else Call(None, args, kwargs)
                prior = self._read_of(reader, called) if reader.prior else None
                # A reader may call another one: what it reads is read once. Bytes are only passed on.
                inside.busy = reader.returns in (Returns.VALUES, Returns.RECORD, Returns.TABLE)
                try:
                    result = original(*args, **kwargs)
                finally:
                    inside.busy = False
                called = replace(called, result=result)
                return self._noted(reader, called, prior if reader.prior else self._read_of(reader, called))

            return call

        return around

    def _is_foreign(self) -> bool:
        """Whether a library reads in a thread of its own, for a function whose caller waits for it."""
        return threading.get_ident() != self._thread and caller() is None

    def _read_of(self, reader: KnownFunction, call: Call) -> Read | None:
        """What a call reads. Nothing is recorded of what is done to find it."""
        with self._unseen():
            try:
                return reader.read(self._sources, call)
            except Exception:  # noqa: BLE001 - an object of another version of the library: what it reads is unknown
                return None

    @contextlib.contextmanager
    def _unseen(self) -> Iterator[None]:
        before = getattr(self._inside, "busy", False), getattr(self._inside, "hooked", False)
        self._inside.busy = self._inside.hooked = True
        try:
            yield
        finally:
            self._inside.busy, self._inside.hooked = before

    def _noted(self, reader: KnownFunction, call: Call, read: Read | None) -> Any:
        result = call.result
        if reader.returns is Returns.SOURCE:
            self._sources.opened(call.own if reader.name in ("__init__", "open") else result, read, always=True)
            return result
        if read is None or (result is None and reader.filled is None):
            return result
        if reader.returns is Returns.PIECES:
            return self._pieces(result, read)
        values = result if reader.filled is None else call.given(reader.filled)
        if reader.returns is not Returns.VALUES:
            self.note(read)
            if reader.returns is Returns.CONTENT:
                self._sources.pass_on(Passed(values, read))
            elif reader.returns is Returns.TABLE:
                result = result if self.exchange is None else self.exchange(read, result)
                self._sources.opened(result, read)
            return result
        with self._unseen():
            try:
                other = self._exchanged(reader, values, replace(read, changeable=True), call)
            except Exception:  # noqa: BLE001 - values of a type that cannot be made: they stay as they are
                return result
        if reader.filled is None:
            return other
        if other is not values:
            values[...] = other
        return result

    def _exchanged(self, reader: KnownFunction, values: Any, read: Read, call: Call) -> Any:
        """What a known function returns: its values, or others for those units that are to change."""
        if self._changing is None:
            for part in (call.own, *call.args[:1], *call.kwargs.values()):
                known = self._sources.passed(part)
                if known is not None:
                    self._passed_on.update(known.units)
        count = _count(values, read.axis)
        if reader.rowwise and not read.rows and isinstance(values, np.ndarray | torch.Tensor) and values.ndim:
            read = replace(read, rows=tuple(range(count)) if count <= MOST_READS else ())
        self.note(read)
        key = read, self._times[read]
        self._times[read] += 1
        by_row = len(read.rows) > 1 and count == len(read.rows)
        if self._changing is None:
            first = len(self.units)
            self.units += read.units if by_row else [read]
            self._first[key] = range(first, len(self.units))
            self.count = len(self.units)
        units = self._first.get(key, range(0))
        self._sources.pass_on(Passed(values, read, units))
        if self.exchange is not None:
            return self.exchange(read, values)
        if self._changing is None or not units:  # what was not read before is no unit
            return values
        own = self._changing[(self._changing >= units.start) & (self._changing < units.stop)] - units.start
        if not len(own):
            return values
        return altered(values, own if by_row else None, units.start, self._cell, axis=read.axis)

    def _pieces(self, pieces: Any, read: Read) -> Any:
        """Pass on the frames of a video: those that the user's code takes pixels from are read."""
        if isinstance(pieces, list | tuple):
            for piece in pieces:
                self._sources.pass_on(Passed(piece, piece_of(read, piece)))
            return pieces
        return self._followed(pieces, read)

    def _followed(self, pieces: Iterator[Any], read: Read) -> Iterator[Any]:
        for piece in pieces:
            self._sources.pass_on(Passed(piece, piece_of(read, piece)))
            yield piece

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Record a file that Python opens for reading."""
        if event != "open" or not self._recording or getattr(self._inside, "hooked", False):
            return
        path, _, flags = arguments
        if not isinstance(path, str | bytes | os.PathLike) or flags & os.O_ACCMODE != os.O_RDONLY:
            return
        self._inside.hooked = True
        try:
            real = path_of(path)
            if (
                real
                and os.path.isfile(real)
                and not (real.startswith(_SYSTEM) or real.endswith(_CODE) or is_library(real))
            ):
                self._sources.files.pop(real, None)
                self._sources.files[real] = None
                self.note(Read(real))
        except Exception:  # noqa: BLE001 - the user's `open` must not fail for us
            return
        finally:
            self._inside.hooked = False


def merged(reads: Sequence[Read]) -> list[Read]:
    """Reads without those of whole files, of which parts or decoded values are known."""
    parts = {read.file for read in reads if read.file and ("::" in read.source or read.changeable)}
    sources = {read.source for read in reads if read.changeable or read.rows}
    pieces = {(read.source, read.rows) for read in reads if read.changeable}

    def is_known(read: Read) -> bool:
        whole = not read.rows and (read.source in sources or _is_of(read.source, parts))
        return whole or (read.source, read.rows) in pieces

    kept = [read for read in reads if read.changeable or not is_known(read)]
    return [read for number, read in enumerate(kept) if not number or read != kept[number - 1]]


def _is_of(source: str, files: Collection[str]) -> bool:
    """Whether this is one of these files, or in one that is a folder, as the arrays of zarr are."""
    return source in files or any(source.startswith(f"{file}/") for file in files)


def trace_reads(reader: Reader, log: ReadLog, index: Any) -> tuple[Values, list[Read], tuple[LeafRows, ...]]:
    """The values of a sample, the units that it is read from, and which of them each position of a leaf comes from.

    The rows of leaves are numbers of units.
    """

    def read(wanted: Any) -> Any:
        with log.recorded():
            return reader.read(wanted)

    values = values_of(read(index))
    units = log.units
    return values, units, RowTracer(read, [log]).trace(index).leaves if units else ()


def leaf_reads(reader: Reader, log: ReadLog, index: Any) -> tuple[LeafReads, ...]:
    """Which leaf comes from which of the reads that can be changed."""
    values, units, leaves = trace_reads(reader, log, index)
    return tuple(
        LeafReads(
            leaf.path,
            leaf.axis,
            tuple(units[row] if 0 <= row < len(units) else None for row in leaf.rows),
            () if leaf.axis is None else _distances(values[leaf.path], leaf.axis),
        )
        for leaf in leaves
    )


def _distances(value: np.ndarray, axis: int) -> tuple[tuple[float, ...], ...]:
    """The mean difference of the values of each two positions."""
    if value.shape[axis] > MOST_POSITIONS or value.dtype.kind not in "biuf":
        return ()
    positions = np.moveaxis(value, axis, 0).astype(np.float32)
    return tuple(tuple(float(np.abs(one - other).mean()) for other in positions) for one in positions)


def _count(values: Any, axis: int = 0) -> int:
    """How many rows values have; -1 if they have none."""
    if isinstance(values, np.ndarray | torch.Tensor):
        return values.shape[axis] if values.ndim > axis else -1
    if isinstance(values, Mapping):
        counts = {_count(value) for value in values.values()}
        return counts.pop() if len(counts) == 1 else -1
    if isinstance(values, list | tuple):
        return len(values)
    return _count(values.data) if dataclasses.is_dataclass(values) and hasattr(values, "data") else -1
