"""What comes out of a dataset when the file of one sample is missing, or holds nothing that can be decoded."""

from __future__ import annotations

import contextlib
import logging
import math
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
from dataguard.lab.decoding.file_opens import watched
from dataguard.lab.reading.sample_reader import Answer, Reader
from dataguard.model import NotApplicable
from dataguard.target.variants import Loader

READS = 12
ARRAYS = ("zarr.json", ".zarray")
"""What describes an array in zarr's format, which specifies that a chunk without a file is made of fill values."""
GARBAGE = (bytes(64), bytes(range(64)))
"""What a file holds over and over that cannot be decoded. A dataset whose samples follow it reads it as data."""
MOST_BYTES = 1 << 26
"""How long such a file is at most; else as long as the one whose place it takes, to be read at any offset."""


@dataclass(frozen=True, slots=True)
class Source:
    """A sample, two readings of it, and the file that only it is made of."""

    path: str
    whole: Answer
    again: Answer


@dataclass(frozen=True, slots=True)
class Substitute:
    """What came out without that file.

    Whether its largest leaf is one constant, which files were read instead, and the first warning meanwhile, if any.
    """

    answer: Answer
    constant: bool = False
    instead: tuple[str, ...] = ()
    warning: str = ""


def find_source(loader: Loader, folder: Path, first: Index, index: Index, other: Index) -> Source:
    """Read a sample and another one, and see which files are opened for the first alone.

    Raises NotApplicable where there is none.
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
    return Source(max(files, key=lambda path: Path(path).stat().st_size), whole, reader.ask(index))


def _is_chunk(path: str) -> bool:
    """Whether a file is a chunk of an array, whose description lies above the folders that are mere coordinates."""
    root = next(folder for folder in Path(path).parents if folder.name != "c" and not folder.name.isdigit())
    return any((root / name).is_file() for name in ARRAYS)


def read_without(
    loader: Loader, folder: Path, first: Index, index: Index, path: str, content: bytes | None
) -> Substitute:
    """Read the sample while its file cannot be opened, or holds this content."""
    reader = Reader(loader, folder)
    reader.ask(first)
    garbage = None
    if content is not None:
        garbage = folder / "garbage"
        length = min(Path(path).stat().st_size, MOST_BYTES)
        garbage.write_bytes(content * max(-(-length // len(content)), 1))
    instead: dict[str, None] = {}

    def fails(opened: str) -> bool:
        if opened != path and Path(opened).suffix == Path(path).suffix:
            instead.setdefault(opened)
        return opened == path

    with watched(fails, garbage), heard() as said:
        try:
            sample = reader.read(index)
        except LoaderRaised as failure:  # which is right
            return Substitute(Answer(index, incident=failure.incident))
    return Substitute(Answer(index, leaves_of(sample)), _is_constant(sample), tuple(instead), next(iter(said), ""))


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """Collect the warnings that are logged, by whatever logger that is not turned off, or issued by `warnings`."""
    said: list[str] = []
    handle, show = logging.Logger.handle, warnings.showwarning

    def handled(logger: logging.Logger, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING and not logger.disabled:
            said.append(record.getMessage())
        handle(logger, record)

    def shown(message: Warning | str, *rest: Any, **named: Any) -> None:
        said.append(str(message))
        show(message, *rest, **named)

    logging.Logger.handle = handled  # type: ignore[assignment, method-assign]
    warnings.showwarning = shown
    try:
        yield said
    finally:
        logging.Logger.handle = handle  # type: ignore[method-assign]
        warnings.showwarning = show


def _is_constant(sample: Any) -> bool:
    """Whether the largest array of a sample has one value throughout."""
    arrays = [leaf for _, leaf in iter_leaves(sample) if isinstance(leaf, torch.Tensor | np.ndarray)]
    if not arrays:
        return False
    largest = np.asarray(max(arrays, key=lambda array: math.prod(array.shape)))
    return largest.size > 1 and bool((largest == largest.flat[0]).all())
