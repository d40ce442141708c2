"""Where one sample comes from, in words, for `dataguard show` and for findings."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.provenance.reads_seen import ReadLog, leaf_reads, merged
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.origins import LeafReads, LeafRows, Read, SampleRows
from dataguard.lab.rows.row_axes import find_axes
from dataguard.lab.rows.rows_changed import RowTracer
from dataguard.lab.rows.stores import held_stores
from dataguard.machine.units import counted
from dataguard.process.originals import os, time

MOST_SECONDS = 2.0
"""How long the reads may take that find the sources of a sample: a user waits for them."""
TRACING_READS, ROW_READS = 30, 150
"""About how many reads find the file, and the row in memory, of each position."""
COMPARED = 3
"""Other samples that are read to see along which axis the rows of an array are."""
MOST_LISTED = 4
"""Rows and sources that are listed: more do not fit on a line."""

_TIMED = ("audio", "video")
"""Kinds of files that are read by frame, or by time."""

Sources = tuple[tuple[str, str], ...]
"""Pairs of a leaf, and where it comes from; of what could be seen only as a whole, the leaf is empty."""


def find_sources(reader: Reader, index: Any) -> Sources:
    """The sources of a sample, in this disposable process. It is read again, as often as `MOST_SECONDS` allow."""
    log = ReadLog()
    log.install()
    with log.recorded():
        reader.read(index)
    reads = merged(log.reads)
    started = time.monotonic()
    reader.read(index)  # the first read may import modules, or wait for memory that this process shares
    seconds = time.monotonic() - started
    found: list[tuple[str, str]] = []
    named: set[str] = set()
    if seconds * TRACING_READS <= MOST_SECONDS:
        for leaf in leaf_reads(reader, log, index):
            found.append((f"sample{leaf.path}", _of_reads(leaf)))
            named |= {read.source for read in leaf.reads if read is not None}
    if seconds * ROW_READS <= MOST_SECONDS:
        others = evenly(range(length_of(reader.dataset) or 0), COMPARED) if isinstance(index, int) else []
        axes = find_axes(reader.read, reader.dataset, [index, *others])
        rows = RowTracer(reader.read, held_stores(reader.dataset, axes)).trace(index).leaves
        found += [(f"sample{leaf.path}", _of_rows(leaf)) for leaf in rows]
    return (*found, *(("", words) for words in _of_all([read for read in reads if read.source not in named])))


def words_of_reads(reads: Sequence[Read]) -> str:
    """What a sample is read from, on one line."""
    return "; ".join(_of_all(reads))


def words_of_rows(sample: SampleRows) -> str:
    """The rows in memory on which the leaves of a sample depend, on one line."""
    rows: dict[str, list[int]] = {}
    for leaf in sample.leaves:
        rows.setdefault(leaf.source, []).extend(leaf.known)
    return "; ".join(_few([f"{source}{listed(source, sorted(known))}" for source, known in rows.items() if known]))


def _of_all(reads: Sequence[Read]) -> list[str]:
    return _few(list(dict.fromkeys(map(_of_read, reads))))


def _of_reads(leaf: LeafReads) -> str:
    sources: dict[str, list[int | str]] = {}
    for read in leaf.reads:
        if read is not None:
            sources.setdefault(read.name, []).extend(read.rows)
    words = [f"{_short(source)}{listed(source, rows)}" for source, rows in sources.items()]
    return "; ".join(_few(words)) + (" and others" if None in leaf.reads else "")


def _of_rows(leaf: LeafRows) -> str:
    return f"{leaf.source}{listed(leaf.source, leaf.known) or ', several rows'}"


def _of_read(read: Read) -> str:
    return f"{_short(read.name)}{listed(read.source, read.rows)}"


def _few(words: Sequence[str]) -> list[str]:
    rest = len(words) - MOST_LISTED
    return [*words[:MOST_LISTED], *([f"and {counted(rest, 'others')}"] if rest > 0 else [])]


def _short(source: str) -> str:
    """A source whose path is relative to the working directory, if the file is inside."""
    path, separator, member = source.partition("::")
    inside = path.startswith("/") and Path(path).is_relative_to(os.getcwd())
    return f"{os.path.relpath(path) if inside else path}{separator}{member}"


def listed(source: str, rows: Sequence[int | str]) -> str:
    """`, rows 3 to 17`, `, frame 3` or `, rows 1, 4, 9, ... (12)`; empty without rows."""
    kept = list(dict.fromkeys(rows))
    if not kept:
        return ""
    kind = (mimetypes.guess_type(source)[0] or "").partition("/")[0]
    if kind in _TIMED and isinstance(kept[0], str):
        return f", at {kept[0]}"
    if kind == "audio":  # of a piece of sound, only the first frame is known
        return f", from frame {kept[0]} on"
    unit = "frame" if kind == "video" else "row"
    if len(kept) == 1:
        return f", {unit} {kept[0]}"
    numbers = [row for row in kept if isinstance(row, int)]
    step = numbers[1] - numbers[0] if len(numbers) == len(kept) else 0
    if len(kept) > 2 and step and numbers == list(range(numbers[0], numbers[-1] + (1 if step > 0 else -1), step)):
        return f", {unit}s {numbers[0]} to {numbers[-1]}" + (f" in steps of {step}" if step not in (1, -1) else "")
    words = ", ".join(map(str, kept[:MOST_LISTED]))
    return f", {unit}s {words}" + (f", ... ({len(kept)})" if len(kept) > MOST_LISTED else "")
