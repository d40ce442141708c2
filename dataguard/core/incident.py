"""What the user's code was doing when it raised, died or hung. Standard library only."""

from __future__ import annotations

import ast
import contextlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dataguard.core.model import DataguardError, Location, NotApplicable, Undecided

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a stack, as plain data."""

    file: str
    line: int
    function: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Incident:
    """What the user's code was doing when it raised, died or hung.

    `stage` is one of import, factory, script, init (worker start), sampler, iterate, sample, collate, transfer
    (pickling a batch), receive (unpickling it), raise (pickling an exception), model, loss, step, backward. `changed`
    are the settings of the loader that were not its own: `num_workers=0, persistent_workers=False`. `classes` are those
    of a batch. `threads` are those of the libraries that a hanging worker waits in, where it was forked.
    """

    stage: str
    message: str
    frames: tuple[Frame, ...] = ()
    index: str | None = None
    batch: tuple[str, ...] = ()
    worker: int | None = None
    error_type: str | None = None
    error_bases: tuple[str, ...] = ()
    signal: str | None = None
    exit_code: int | None = None
    stacks: str = ""
    output: str = ""
    changed: str = ""
    classes: str = ""
    threads: str = ""

    @property
    def own_frame(self) -> Frame | None:
        """The innermost frame of the user's own code: not torch, not the standard library, not site-packages."""
        return self.own_frames[-1] if self.own_frames else None

    @property
    def own_frames(self) -> tuple[Frame, ...]:
        """The frames of the user's own code, outermost first."""
        return tuple(frame for frame in self.frames if not is_library(frame.file))

    @property
    def sample(self) -> object:
        """The index at which reading a sample failed, if it is a plain value; None otherwise."""
        if self.stage == "sample" and self.index is not None:
            with contextlib.suppress(ValueError, SyntaxError):
                value: object = ast.literal_eval(self.index)
                return value
        return None

    @property
    def headline(self) -> str:
        """The first line of the message, at most 160 characters."""
        first = self.message.partition("\n")[0]
        return first if len(first) <= 160 else f"{first[:157]}..."

    @property
    def fails_if_changed(self) -> str:
        """That the loader fails only where a check changes something, and what it changes."""
        what = f"with {self.changed}, which this check needs" if self.changed else "when samples are read again"
        return f"{what}, the loader fails: {self.headline}"

    @property
    def under_other_settings(self) -> str:
        """Why nothing was decided, where the loader fails only if a check changes something."""
        return f"not decided: {self.fails_if_changed}"

    @property
    def out_of_shared_memory(self) -> bool:
        """Whether /dev/shm was full: an exception since torch 2.10, a bus error while collating before that."""
        return "unable to allocate shared memory" in self.message or (
            self.signal == "SIGBUS" and self.stage in ("collate", "transfer")
        )

    @property
    def location(self) -> Location | None:
        """The innermost frame of the user's code as a location, else the innermost frame."""
        frame = self.own_frame or (self.frames[-1] if self.frames else None)
        return Location(frame.file, frame.line, frame.function) if frame else None

    @property
    def where(self) -> str:
        """The stage, index, classes and worker in words: `reading a sample (index 17, worker 1)`."""
        kind = "classes" if "," in self.classes else "class"
        named = {"index": self.index, kind: self.classes or None, "worker": self.worker}
        details = ", ".join(f"{name} {value}" for name, value in named.items() if value is not None)
        stage = _STAGES.get(self.stage, self.stage)
        return f"{stage} ({details})" if details else stage


def shown_index(index: object) -> str:
    """An index for the reader, equal in all processes: its repr, at most 80 characters, without a memory address."""
    try:
        return _ADDRESS.sub("", repr(index))[:80]
    except BaseException:  # noqa: BLE001 - the user's own index may raise anything
        return type(index).__name__[:80]


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def is_library(file: str) -> bool:
    """Whether a source file belongs to an installed package, the standard library or dataguard."""
    return file.startswith(OWN) or _LIBRARY.search(file) is not None


OWN = str(Path(__file__).parents[1]) + os.sep
"""The folder of dataguard's own files."""
_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\]|^<")
_STAGES = {
    "import": "importing the module",
    "factory": "calling the factory",
    "script": "running the script",
    "init": "starting a worker",
    "sampler": "drawing indices",
    "iterate": "iterating the loader",
    "sample": "reading a sample",
    "collate": "collating a batch",
    "transfer": "sending a batch to the main process",
    "receive": "unpickling a batch in the main process",
    "raise": "sending an exception to the main process",
    "model": "running the model",
}


class LoaderFailed(DataguardError):
    """The user's code failed during an observation; `incident` says what it was doing."""

    code = "DG001"

    def __init__(self, incident: Incident) -> None:
        super().__init__(incident.message)
        self.incident = incident

    def __reduce__(self) -> tuple[type[LoaderFailed], tuple[Incident]]:
        return type(self), (self.incident,)


class LoaderRaised(LoaderFailed):
    """The user's code raised an exception."""


class LoaderDied(LoaderFailed):
    """A process of the user's loader was killed by a signal or called exit."""

    code = "DG002"


class LoaderHung(LoaderFailed):
    """The user's loader made no progress before the deadline."""

    code = "DG003"


class LoaderUnspawnable(LoaderFailed):
    """The user's loader fails under its start method, spawn or forkserver, but works with forked workers."""

    code = "DG104"


class LoaderInterleaved(LoaderFailed):
    """The user's loader fails because several workers share one file offset, but works with one worker."""

    code = "DG106"


class EmptyEpoch(NotApplicable):
    """An epoch ended without a batch, perhaps because of a StopIteration."""

    def __init__(self, stops: tuple[Incident, ...]) -> None:
        super().__init__("see DG404: the epoch has no batches")
        self.stops = stops

    def __reduce__(self) -> tuple[type[EmptyEpoch], tuple[tuple[Incident, ...]]]:
        return type(self), (self.stops,)


def observed_or_none(get: Callable[[], T]) -> T | None:
    """The observation, or None when the loader fails, the observation does not apply, or time ran out."""
    try:
        return get()
    except (LoaderFailed, NotApplicable, Undecided):
        return None
