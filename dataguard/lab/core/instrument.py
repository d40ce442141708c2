"""What an instrument of the spy is: a few hooks that are called in the processes where samples are read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataguard.incident import Incident
from dataguard.lab.core.records import Spool
from dataguard.lab.process.flight_recorder import FlightRecorder

_NOTHING: AbstractContextManager[None] = contextlib.nullcontext()


class Process:
    """The process in which an instrument works: a worker, or the main process, where `worker` is None.

    `epoch` is the one in which it starts. Records go to the `spool`, files of other kinds to the `folder`.
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

    `roots` name the user's objects that take part in it. `indices` are what the sampler gave (None in a stream), and
    `seconds` what each read took, of one sample or, through `__getitems__`, of several. All that follows is known once
    there is a batch: `incident` is why there is none, or why it cannot be sent, and `refuses_each` whether collate_fn
    fails on each of the samples alone.
    """

    epoch: int
    number: int
    roots: Mapping[str, Any]
    indices: list[Any]
    seconds: list[float] = field(default_factory=list)
    fetch_seconds: float = 0.0
    collate_seconds: float = 0.0
    size: int = 0
    incident: Incident | None = None
    refuses_each: bool = False


class Hooks:
    """What the spy calls in one process. A subclass defines the hooks that it needs; others are never called."""

    def around_init(self) -> AbstractContextManager[None]:
        """Enter around the user's `worker_init_fn`, in a worker, whether there is one or not."""
        return _NOTHING

    def begin(self) -> None:
        """Get ready: `worker_init_fn` has run, and this process is about to read samples."""

    def around_start(self, epoch: int, dataset: Any) -> AbstractContextManager[None]:
        """Enter around the making of a fetcher, which begins an epoch: the `__iter__` of a stream runs there."""
        return _NOTHING

    def wrap(self, dataset: Any) -> Any:
        """Give what stands in for a map-style dataset during an epoch."""
        return dataset

    def around_fetch(self, fetch: Fetch) -> AbstractContextManager[None]:
        """Enter around a fetch, collate_fn included."""
        return _NOTHING

    def around_sample(self) -> AbstractContextManager[None]:
        """Enter around one read: of a sample or, through `__getitems__`, of several."""
        return _NOTHING

    def keeps(self, sample: Any) -> bool:
        """Whether a sample stays in its batch."""
        return True

    def at_samples(self, fetch: Fetch, samples: Sequence[Any]) -> None:
        """Look at the samples of a batch before they are collated."""

    def at_batch(self, fetch: Fetch, batch: Any) -> None:
        """Look at a batch; it is None where `fetch.incident` says why there is none."""


class Instrument(Hooks):
    """One thing that the spy does or notes: a frozen dataclass of plain values, because it is sent to spawned workers.

    To add one, derive from this class and name it in a `Plan`.
    """

    def start(self, process: Process) -> Hooks:
        """Begin in a process; what needs a state of its own there returns other hooks than its own."""
        return self


class HookLists:
    """For each hook those of several instruments that define it, in their order: the spy calls nothing else."""

    def __init__(self, several: Iterable[Hooks]) -> None:
        kept = list(several)
        self.around_init = [one.around_init for one in kept if _defines(one, "around_init")]
        self.begin = [one.begin for one in kept if _defines(one, "begin")]
        self.around_start = [one.around_start for one in kept if _defines(one, "around_start")]
        self.wrap = [one.wrap for one in kept if _defines(one, "wrap")]
        self.around_fetch = [one.around_fetch for one in kept if _defines(one, "around_fetch")]
        self.around_sample = [one.around_sample for one in kept if _defines(one, "around_sample")]
        self.keeps = [one.keeps for one in kept if _defines(one, "keeps")]
        self.at_samples = [one.at_samples for one in kept if _defines(one, "at_samples")]
        self.at_batch = [one.at_batch for one in kept if _defines(one, "at_batch")]


def _defines(one: Hooks, hook: str) -> bool:
    return getattr(type(one), hook) is not getattr(Hooks, hook)


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
