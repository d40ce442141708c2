"""Instruments of the spy: each defines a few hooks that are called in the processes where samples are read.

An `Instrument` is plain data that is sent to each process, and `start` returns its `Hooks` there. A hook gets the
`Fetch` that is under way, and writes its records to the spool of its `Process`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataguard.core.incident import Incident
from dataguard.lab.process.incidents import FlightRecorder, Spool

_NOTHING: AbstractContextManager[None] = contextlib.nullcontext()


class Process:
    """The process in which an instrument works: a worker or, if `worker` is None, the main process.

    It starts in this `epoch`. Records go to the `spool`, other files to the `folder`.
    """

    def __init__(self, folder: Path, worker: int | None, epoch: int = 0) -> None:
        self.folder = folder
        self.worker = worker
        self.epoch = epoch
        self.spool = Spool(folder, worker)
        self.recorder = FlightRecorder(folder)


@dataclass(slots=True)
class Fetch:
    """One fetch: the samples of a batch are read and collated. `number` counts the fetches of a process in an epoch.

    `roots` are the user's objects that take part in it, by name. `indices` come from the sampler (None in a stream).
    `seconds` is the time that each sample took to read, without the time that its worker waited for a core (if the
    sample before took more than a millisecond); those of `__getitems__` share its time. `began` is when the
    fetch started, by a clock that all processes share. The others are set once collate_fn has run: `incident` is why
    there is no batch or why it cannot be sent, and `refuses_each` whether collate_fn fails on each of the samples
    alone.
    """

    epoch: int
    number: int
    roots: Mapping[str, Any]
    indices: list[Any]
    seconds: list[float] = field(default_factory=list)
    began: float = 0.0
    fetch_seconds: float = 0.0
    collate_seconds: float = 0.0
    size: int = 0
    incident: Incident | None = None
    refuses_each: bool = False


class Hooks:
    """What the spy calls in one process. A subclass defines the hooks that it needs; the others are never called."""

    def around_init(self) -> AbstractContextManager[None]:
        """The context of `worker_init_fn` in a worker; it is entered even if the user has no such function."""
        return _NOTHING

    def begin(self) -> None:
        """Called when `worker_init_fn` has run and this process is about to read samples."""

    def around_start(self, epoch: int, dataset: Any) -> AbstractContextManager[None]:
        """The context in which the fetcher of an epoch is made; the `__iter__` of a stream runs there."""
        return _NOTHING

    def wrap(self, dataset: Any) -> Any:
        """The object that replaces a map-style dataset for an epoch."""
        return dataset

    def around_fetch(self, fetch: Fetch) -> AbstractContextManager[None]:
        """The context of a fetch, collate_fn included."""
        return _NOTHING

    def around_sample(self) -> AbstractContextManager[None]:
        """The context of one read: of a sample or, with `__getitems__`, of several."""
        return _NOTHING

    def keeps(self, sample: Any) -> bool:
        """Whether a sample stays in its batch."""
        return True

    def at_samples(self, fetch: Fetch, samples: Sequence[Any]) -> None:
        """Called with the samples of a batch before they are collated."""

    def at_batch(self, fetch: Fetch, batch: Any) -> None:
        """Called with a batch; None if `fetch.incident` says why there is none."""


class Instrument(Hooks):
    """One thing that the spy does or observes: a frozen dataclass of plain values, which is sent to spawned workers.

    To observe something new inside workers, derive a class from this one in the room of its subject, and pass an
    instance to `Plan`. Nothing else has to know it.
    """

    def start(self, process: Process) -> Hooks:
        """The hooks for a process: the instrument itself, or an object with the state that it needs there."""
        return self


class HookLists:
    """The hooks of several instruments, in their order, without those that nobody defines."""

    def __init__(self, several: Iterable[Hooks]) -> None:
        kept = list(several)
        self.around_init = [hooks.around_init for hooks in kept if _defines(hooks, "around_init")]
        self.begin = [hooks.begin for hooks in kept if _defines(hooks, "begin")]
        self.around_start = [hooks.around_start for hooks in kept if _defines(hooks, "around_start")]
        self.wrap = [hooks.wrap for hooks in kept if _defines(hooks, "wrap")]
        self.around_fetch = [hooks.around_fetch for hooks in kept if _defines(hooks, "around_fetch")]
        self.around_sample = [hooks.around_sample for hooks in kept if _defines(hooks, "around_sample")]
        self.keeps = [hooks.keeps for hooks in kept if _defines(hooks, "keeps")]
        self.at_samples = [hooks.at_samples for hooks in kept if _defines(hooks, "at_samples")]
        self.at_batch = [hooks.at_batch for hooks in kept if _defines(hooks, "at_batch")]


def _defines(hooks: Hooks, hook: str) -> bool:
    return getattr(type(hooks), hook) is not getattr(Hooks, hook)


def nested(contexts: Sequence[AbstractContextManager[None]]) -> AbstractContextManager[None]:
    """Several contexts as one: the first is the outermost."""
    if len(contexts) < 2:
        return contexts[0] if contexts else _NOTHING
    return _one_in_another(contexts)


@contextlib.contextmanager
def _one_in_another(contexts: Sequence[AbstractContextManager[None]]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
