"""What a dataset returns if the file of one sample is missing or cannot be decoded."""

from __future__ import annotations

import contextlib
import logging
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.incident import LoaderRaised
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import iter_leaves, leaves_of
from dataguard.lab.core.source_location import Place, caller
from dataguard.lab.decoding.file_opens import watched
from dataguard.lab.decoding.kernel_opens import opens_of
from dataguard.lab.reading.sample_reader import Answer, Reader
from dataguard.model import NotApplicable, Undecided
from dataguard.target.variants import Loader

READS = 12
ENDLESS = 256
"""After so many attempts to open the missing file, the code that reads a sample never gives up."""
PATIENCE = 5.0
"""Seconds after which one that pauses between its attempts is not waited for."""
ARRAYS = ("zarr.json", ".zarray")
"""Metadata files of zarr arrays: by specification, a chunk without a file consists of fill values."""
GARBAGE = (bytes(64), bytes(range(64)))
"""Repeated content that cannot be decoded. A dataset whose samples depend on it reads the file as raw data."""
MOST_BYTES = 1 << 26
"""The most bytes of such a file; otherwise it is as long as the original, for reads at any offset."""


@dataclass(frozen=True, slots=True)
class SampleFile:
    """A sample, two reads of it, and the file that only it uses."""

    path: str
    whole: Answer
    again: Answer


@dataclass(frozen=True, slots=True)
class Substitute:
    """What the dataset returned without that file; None if it tries `endlessly` to open it, at this line.

    Also whether its largest leaf is constant, which files were read instead, and the first warning, if any. `opened`
    means that the file itself was opened nevertheless, past Python.
    """

    answer: Answer
    constant: bool = False
    instead: tuple[str, ...] = ()
    warning: str = ""
    opened: bool = False
    endlessly: Place | None = None


class _EndlessAttempts(BaseException):
    """Ends a read that never gives up. No `Exception`: the loop of the user's code catches those."""


def find_sample_file(loader: Loader, folder: Path, first: Index, index: Index, other: Index) -> SampleFile:
    """Read a sample and another one, and find the files that are opened for the first only.

    Raises NotApplicable if there are none.
    """
    reader = Reader(loader, folder)
    reader.ask(first)
    own: dict[str, None] = {}
    others: dict[str, None] = {}
    with watched(lambda path: own.setdefault(path) is not None):
        whole = reader.ask(index)
    with watched(lambda path: others.setdefault(path) is not None):
        reader.ask(other)
    files = [path for path in own if path not in others and Path(path).is_file()]
    if not files:
        raise NotApplicable("samples have no files of their own")
    if all(map(_is_chunk, files)):
        raise NotApplicable("samples are read from chunks of an array, where a missing chunk means fill values")
    if whole.incident:
        raise NotApplicable(f"the sample cannot be read: {whole.incident.headline}")
    files = [path for path in files if not _is_chunk(path)]
    return SampleFile(max(files, key=lambda path: Path(path).stat().st_size), whole, reader.ask(index))


def _is_chunk(path: str) -> bool:
    """Whether a file is a chunk of an array, whose metadata is above the folders that are mere coordinates."""
    root = next(folder for folder in Path(path).parents if folder.name != "c" and not folder.name.isdigit())
    return any((root / name).is_file() for name in ARRAYS)


def read_without(
    loader: Loader, folder: Path, first: Index, index: Index, path: str, content: bytes | None
) -> Substitute:
    """Read the sample while its file cannot be opened, or has this content."""
    reader = Reader(loader, folder)
    reader.ask(first)
    garbage = None
    if content is not None:
        garbage = folder / "garbage"
        length = min(Path(path).stat().st_size, MOST_BYTES)
        garbage.write_bytes(content * max(-(-length // len(content)), 1))
    instead: dict[str, None] = {}
    attempts, started = 0, time.monotonic()
    line: Place | None = None

    def fails(opened: str) -> bool:
        nonlocal attempts, line
        attempts += opened == path
        if attempts >= ENDLESS:
            line = line or caller(qualified=True)
            raise _EndlessAttempts
        if attempts and time.monotonic() - started > PATIENCE:
            raise Undecided(f"reading a sample without its file takes more than {PATIENCE:.0f} s")
        if opened != path and Path(opened).suffix == Path(path).suffix:
            instead.setdefault(opened)
        return opened == path

    with watched(fails, garbage), warnings_seen() as messages, opens_of(path) as opened:
        try:
            sample = reader.read(index)
        except LoaderRaised as failure:  # as it should
            if line is not None:
                return Substitute(Answer(index), endlessly=line)
            return Substitute(Answer(index, incident=failure.incident))
    warning = next(iter(messages), "")
    return Substitute(Answer(index, leaves_of(sample)), _is_constant(sample), tuple(instead), warning, opened.seen)


@contextlib.contextmanager
def warnings_seen() -> Iterator[list[str]]:
    """Collect the warnings that are logged, by any logger that is not disabled, or issued by `warnings`."""
    messages: list[str] = []
    handle, show = logging.Logger.handle, warnings.showwarning

    def handled(logger: logging.Logger, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING and not logger.disabled:
            messages.append(record.getMessage())
        handle(logger, record)

    def shown(message: Warning | str, *rest: Any, **named: Any) -> None:
        messages.append(str(message))
        show(message, *rest, **named)

    logging.Logger.handle = handled  # type: ignore[assignment, method-assign]
    warnings.showwarning = shown
    try:
        yield messages
    finally:
        logging.Logger.handle = handle  # type: ignore[method-assign]
        warnings.showwarning = show


def _is_constant(sample: Any) -> bool:
    """Whether the largest array of a sample holds a single value."""
    arrays = [leaf for _, leaf in iter_leaves(sample) if isinstance(leaf, torch.Tensor | np.ndarray)]
    if not arrays:
        return False
    largest = np.asarray(max(arrays, key=lambda array: math.prod(array.shape)))
    return largest.size > 1 and bool((largest == largest.flat[0]).all())
