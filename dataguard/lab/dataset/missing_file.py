"""What a dataset returns if a sample cannot be read: its file is missing or damaged, or reading it raises at times.

What only one sample is read from is made to be missing, or replaced by content that cannot be decoded. How often
reading raises is counted for a dataset that raised in some observation and not in the ordinary epoch.
"""

from __future__ import annotations

import contextlib
import logging
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.core.incident import Incident, LoaderRaised, observed_or_none, shown_index
from dataguard.core.model import NotApplicable, NotTested, Undecided
from dataguard.lab.core.leaves import iter_leaves, leaves_of
from dataguard.lab.core.records import Index
from dataguard.lab.core.source_location import Place
from dataguard.lab.culprit.line_trace import line_only_in
from dataguard.lab.dataset.skipped_pauses import skip_pauses
from dataguard.lab.decoding.file_substitution import Opened, decoded, digest_of, opens_of, watched
from dataguard.lab.process.write_protection import forbid_writes
from dataguard.lab.reading.sample_reader import Answer, Reader
from dataguard.lab.subject import Subject
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

REPEATED_SECONDS, MOST_REPEATED_READS = 3.0, 4000
"""Reads in which a dataset that raises once in a thousand does so, and how long they may take."""
FIRST_READS = 20
"""How often the sample that raised is read before the others."""
REPEATED_INDICES = 256
"""How many different samples are read in turn."""


@dataclass(frozen=True, slots=True)
class OccasionalFailure:
    """The first exception among so many reads under the loader's own settings, and how many raised."""

    incident: Incident
    failures: int
    reads: int


def find_occasional_failure(subject: Subject) -> OccasionalFailure | None:
    """Repeat reads of a dataset that raised when a sample was read; None if it never did, or does not again.

    What raises only under other settings does not raise here.
    """
    met = [incident for incident in subject.raised if incident.stage == "sample" and incident.index is not None]
    if not met or subject.facts.kind != "map":
        return None
    requested = subject.epoch.asked(REPEATED_INDICES)
    at = [index for index in requested if shown_index(index) == met[0].index]
    order = [*at * FIRST_READS, *requested]
    return observed_or_none(
        lambda: subject.observe("occasional failure", lambda folder: _repeated(subject.build(), folder, order))
    )


def _repeated(loader: Loader, folder: Path, order: Sequence[Index]) -> OccasionalFailure | None:
    reader, first, failures, end = Reader(loader, folder), None, 0, time.monotonic() + REPEATED_SECONDS
    recovered = False
    for index in islice(cycle(order), MOST_REPEATED_READS):
        if time.monotonic() > end:
            break
        try:
            reader.read_as_is(index)
            recovered = first is not None
        except LoaderRaised as failure:
            failures += 1
            first = first or replace(failure.incident, index=shown_index(index))
    # Otherwise it may be used up: a dataset in front of a generator, say.
    return OccasionalFailure(first, failures, reader.reads) if first and recovered else None


SOURCE_READS, LOSS_READS = 4, 8
"""How many reads it takes to find the sources of a sample, and about how many to read it without each of them."""
ENDLESS_ATTEMPTS = 256
"""After so many attempts to open the missing file, the code that reads a sample never gives up."""
LONGEST_PAUSES, MOST_ATTEMPTS = 3600.0, 4096
"""One that pauses between its attempts gives up in an hour, or after so many, or never."""
READ_PATIENCE = 5.0
"""Seconds after which a read is not waited for."""
MOST_SOURCES = 3
"""How many files of a sample are lost in turn."""
ARRAY_METADATA = ("zarr.json", ".zarray")
"""Metadata files of zarr arrays: by specification, a chunk without a file consists of fill values."""
GARBAGE_CONTENTS = (bytes(64), bytes(range(64)))
"""Repeated content that cannot be decoded. A dataset whose samples depend on it reads the file as raw data."""
MOST_GARBAGE_BYTES = 1 << 26
"""The most bytes of such a file; otherwise it is as long as the original, for reads at any offset."""


@dataclass(frozen=True, slots=True)
class Source:
    """What only one sample is read from: a file at a path, or encoded content of a digest, as of an archive.

    `first` is the largest file, or the content of a sample without files. Any other is one that a decoder reads.
    """

    name: str
    is_file: bool
    first: bool

    @property
    def shown(self) -> str:
        """The name of a file, without its folders."""
        return Path(self.name).name if self.is_file else "content that can be decoded"


@dataclass(frozen=True, slots=True)
class SampleSources:
    """A sample, two reads of it, what only it is read from, and the files that the first read `opened`."""

    sources: tuple[Source, ...]
    whole: Answer
    again: Answer
    opened: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Substitute:
    """What the dataset returned without a source, or with this `content`; None if it tries `endlessly` to read it.

    Also whether its largest leaf is constant, which files were read instead, and the first warning, if any. `opened`
    means that the file itself was opened nevertheless, past Python.
    """

    source: Source
    content: bytes | None
    answer: Answer
    constant: bool = False
    instead: tuple[str, ...] = ()
    warning: str = ""
    opened: bool = False
    endlessly: bool = False


class _EndlessAttempts(BaseException):
    """Ends a read that never gives up. No `Exception`: the loop of the user's code catches those."""


def find_sample_sources(loader: Loader, folder: Path, first: Index, index: Index, other: Index) -> SampleSources:
    """Read a sample and another one, and find what is read for the first only.

    Raises NotApplicable if there is nothing.
    """
    reader = Reader(loader, folder)
    reader.ask(first)
    (whole, opened, decoded_), (_, *others) = (_watched_read(reader, asked) for asked in (index, other))
    files = [path for path in opened if path not in others[0] and Path(path).is_file()]
    if files and all(map(_is_chunk, files)):
        raise NotApplicable("samples are read from chunks of an array, where a missing chunk means fill values")
    files = sorted((path for path in files if not _is_chunk(path)), key=lambda path: -Path(path).stat().st_size)
    digests = {
        digest_of(Path(path).read_bytes()).hex() for path in files if Path(path).stat().st_size <= MOST_GARBAGE_BYTES
    }
    contents = [name for name in decoded_ if name not in {*others[1], *digests} and not Path(name).is_absolute()]
    if not files and not contents:
        raise NotApplicable("samples have no files of their own")
    if whole.incident:
        raise NotTested(f"the sample cannot be read: {whole.incident.headline}")
    reads_content = {path for path in files if digest_of(Path(path).read_bytes()).hex() in decoded_}
    roles = {_role(path): path for path in reversed(files) if path in decoded_ or path in reads_content}
    names = dict.fromkeys(
        [*files[:1], *contents[:1], *(path for path in roles.values() if _role(path) != _role(files[0]))]
    )
    sources = (Source(name, name in files, name == next(iter(names))) for name in names)
    return SampleSources(tuple(islice(sources, MOST_SOURCES)), whole, reader.ask(index), frozenset(opened))


def _watched_read(reader: Reader, index: Index) -> tuple[Answer, dict[str, None], dict[str, None]]:
    """A sample, the files that were opened for it, and what was decoded."""
    opened: dict[str, None] = {}
    names: dict[str, None] = {}
    with (
        watched(lambda path: opened.setdefault(path) is not None),
        decoded(lambda name: names.setdefault(name) is not None),
    ):
        return reader.ask(index), opened, names


def _role(path: str) -> tuple[str, str]:
    """What a file is for, by its folder and suffix: the frames of a sample have one."""
    return str(Path(path).parent), Path(path).suffix


def _is_chunk(path: str) -> bool:
    """Whether a file is a chunk of an array, whose metadata is above the folders that are mere coordinates."""
    root = next(folder for folder in Path(path).parents if folder.name != "c" and not folder.name.isdigit())
    return any((root / name).is_file() for name in ARRAY_METADATA)


def read_without(
    loader: Loader, folder: Path, first: Index, index: Index, source: Source, content: bytes | None
) -> Substitute:
    """Read the sample while its source cannot be opened, or has this content. Pauses take no time."""
    reader = Reader(loader, folder)
    reader.ask(first)
    with _loss(source, content, folder) as loss:
        try:
            sample = reader.read(index)
        except LoaderRaised as failure:  # as it should
            if loss.endless:
                return Substitute(source, content, Answer(index), endlessly=True)
            return Substitute(source, content, Answer(index, incident=failure.incident))
    warning = next(iter(loss.warnings), "")
    answer = Answer(index, leaves_of(sample))
    constant, instead = _is_constant(sample), tuple(loss.instead)
    return Substitute(source, content, answer, constant, instead, warning, loss.opened.seen)


def find_substituting_line(
    loader: Loader, folder: Path, first: Index, index: Index, source: Source, content: bytes | None
) -> Place | None:
    """The line of the user's code that runs only without the source: a branch, or where an error is caught."""
    reader = Reader(loader, folder)
    reader.ask(first)

    def read_without_source() -> None:
        with _loss(source, content, folder):
            reader.read(index)

    return line_only_in(read_without_source, lambda: reader.read(index))


@dataclass(slots=True)
class _Loss:
    """What is seen while a source is lost: warnings, whether native code opened it, and which files are read instead.

    Also whether the user's code tries to read it without end.
    """

    warnings: Sequence[str] = ()
    opened: Opened = field(default_factory=Opened)
    instead: dict[str, None] = field(default_factory=dict)
    endless: bool = False


@contextlib.contextmanager
def _loss(source: Source, content: bytes | None, folder: Path) -> Iterator[_Loss]:
    """Let a source be missing, or have this content."""
    forbid_writes()
    garbage = None
    if content is not None and source.is_file:
        garbage = folder / "garbage"
        length = min(Path(source.name).stat().st_size, MOST_GARBAGE_BYTES)
        garbage.write_bytes(content * max(-(-length // len(content)), 1))
    loss = _Loss()
    attempts, started = 0, time.monotonic()
    paused = skip_pauses()

    def fails(name: str) -> bool:
        nonlocal attempts
        attempts += name == source.name
        if attempts >= ENDLESS_ATTEMPTS and (not 0 < paused.seconds < LONGEST_PAUSES or attempts >= MOST_ATTEMPTS):
            loss.endless = True
            raise _EndlessAttempts
        if attempts and time.monotonic() - started > READ_PATIENCE:
            raise Undecided(f"reading a sample without its file takes more than {READ_PATIENCE:.0f} s")
        if name != source.name and Path(name).suffix == Path(source.name).suffix:
            loss.instead.setdefault(name)
        return name == source.name

    with contextlib.ExitStack() as stack:
        loss.warnings = stack.enter_context(warnings_seen())
        if source.is_file:
            stack.enter_context(watched(fails, garbage))
            loss.opened = stack.enter_context(opens_of(source.name))
        else:
            stack.enter_context(decoded(fails, content))
        yield loss


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
