"""Run a loader under the spy for some epochs in this disposable process, and shut it down.

`drive` iterates it as a training loop would. What escapes from the user's code becomes an incident: an exception of a
worker, the death of a worker, or an exception of the main process.
"""

from __future__ import annotations

import contextlib
import math
import re
import statistics
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from dataguard.core.incident import Incident, LoaderDied, LoaderFailed, LoaderHung, LoaderRaised
from dataguard.core.model import Undecided
from dataguard.lab.core.loader_facts import attribute, overrides_iter, start_method
from dataguard.lab.core.records import Failure, SampleRecord
from dataguard.lab.process import incidents
from dataguard.lab.process.incidents import FlightRecorder, end_of_output, incident_of, raised_by_dataguard, read_spools
from dataguard.lab.spy.worker_spy import Plan, SpyInit, Watcher, install, receive_in, uninstall
from dataguard.process.originals import time
from dataguard.process.process_tree import descendants, has_only, how_it_ended, is_cleanup_process, signal_name
from dataguard.targets.discovery import held_by_training, iterated
from dataguard.targets.variants import Loader


@dataclass(frozen=True, slots=True)
class EpochRun:
    """One epoch as the main process saw it: batches that arrived, whether it ended, and how long it took.

    `start_seconds` is the time to the first batch, worker start included. `own_processes` counts the processes that a
    loader without workers of torch had started by then.
    """

    batches: int
    ended: bool
    seconds: float
    start_seconds: float
    own_processes: int = 0


def drive(
    loader: Loader,
    plan: Plan,
    *,
    batches: Sequence[int | None] = (None,),
    seconds: float = math.inf,
    hurried: bool = False,
) -> list[EpochRun]:
    """Iterate one epoch for each entry of `batches`, of at most so many batches and about `seconds` seconds.

    Seconds count from the first batch: spawned workers take long to start. If `hurried`, they count from the start for
    forked ones, and the epoch ends before a batch that would come too late, but not before each worker has made one;
    it is the last one then, and its workers are left to whoever ends this process. What the first read of a worker took
    longer than others is not expected of later ones.

    Raises LoaderFailed with the incident when the user's code fails; an exception of dataguard's own passes through.
    """
    plan = replace(plan, carry=overrides_iter(loader) or iterated(loader) is not loader)
    if not plan.announce:
        _ignore_epochs(loader)
    watcher, spy = watch(loader, plan)
    epoch_runs = []
    iterator: Any = None
    try:
        for epoch, most in enumerate(batches):
            if plan.announce:
                announce_epoch(loader, epoch)
            spy.epoch = epoch
            watcher.process.recorder.mark(None, "iterate")
            iterator = iter(iterated(loader))
            pace = _Pace(seconds)
            if hurried:
                start = partial(_starting_seconds, plan.folder, epoch)
                pace = _Pace(seconds, loader.num_workers, forked=start_method(loader) == "fork", starting=start)
            epoch_runs.append(_run_epoch(iterator, watcher, most, pace, counts=not loader.num_workers))
            if hurried and pace.late:
                _abandoned.append(iterator)
                return epoch_runs
            if not loader.persistent_workers:
                shut(iterator)
    except LoaderFailed:  # of the sampler
        raise
    except Undecided as error:  # torch adds the traceback of the worker that raised it
        raise Undecided(str(error).strip().rpartition(f"{Undecided.__name__}: ")[2]) from None
    # Whatever escapes from the user's loader, SystemExit included, ends here as an incident.
    except BaseException as error:
        watcher.process.spool.make_room()
        failures = [record.incident for record in read_spools(plan.folder) if isinstance(record, Failure)]
        if not failures and raised_by_dataguard(error, __file__):
            raise
        raise _failure(error, iterator, plan, failures) from error
    finally:
        uninstall()
    shut(iterator)
    return epoch_runs


def watch(loader: Loader, plan: Plan) -> tuple[Watcher, SpyInit]:
    """Let the spy watch the workers of a loader, or this process if it has none."""
    watcher = Watcher(plan, None)
    receive_in(watcher.process)
    spy = SpyInit(plan, loader.worker_init_fn)
    if loader.num_workers:
        loader.worker_init_fn = spy
    else:
        install(watcher, loader.dataset)
    return watcher, spy


_abandoned: list[Any] = []
"""Iterators that must not be deleted, as that waits until their workers have made the batches that they began."""


@dataclass(slots=True)
class _Pace:
    """When an epoch is `late`, after so many `seconds`; with `workers`, before a batch that would come too late.

    `starting` says how many of the elapsed seconds no later batch takes.

    Workers make batches side by side, one each, in rounds: the first batch of a round takes as long as a round, and the
    others are there soon after it. So only before a round is it asked whether there is time for one as long as the
    average so far, and within a round only whether time is up. What starting took is subtracted from that average if it
    decides; it is read from the records, which takes a while.
    """

    seconds: float
    workers: int | None = None
    forked: bool = False
    late: bool = False
    starting: Callable[[], float] = float

    def allows(self, count: int, first: float, elapsed: float) -> bool:
        """Whether to wait for another batch, `elapsed` seconds from the start; the first one came after `first`."""
        if self.workers is None:
            self.late = elapsed - first > self.seconds
        elif count >= self.workers:  # each worker has made one batch
            per_round = max(self.workers, 1)
            rounds, is_complete = count / per_round, count % per_round == 0
            uncounted = 0.0 if self.forked or not self.workers else first
            left = self.seconds - (elapsed - uncounted)
            self.late = left < (elapsed / rounds if is_complete else 0.0)
            if self.late and left > 0:
                self.late = left < (elapsed - self.starting()) / rounds
        return not self.late


def _starting_seconds(folder: Path, epoch: int) -> float:
    """How much longer the slowest first read of a worker took than later reads; all of it, if there are none yet."""
    samples = (record for record in read_spools(folder) if isinstance(record, SampleRecord))
    first, later = read_seconds(sample for sample in samples if sample.epoch == epoch)
    return max(0.0, max(first, default=0.0) - (statistics.median(later) if later else 0.0))


def read_seconds(samples: Iterable[SampleRecord]) -> tuple[list[float], list[float]]:
    """The seconds of the first read of each worker, which may import and open what later ones use, and of the others.

    Samples that were read at once have the same share of the time.
    """
    timed = [sample for sample in samples if sample.seconds]
    first = {(sample.worker, sample.epoch): sample.seconds for sample in reversed(timed)}
    later = [sample.seconds for sample in timed if sample.seconds != first[sample.worker, sample.epoch]]
    return [*first.values()], later


def _run_epoch(
    iterator: Iterator[Any], watcher: Watcher, batches: int | None, pace: _Pace, *, counts: bool
) -> EpochRun:
    """`counts`: the processes that the iterator starts."""
    started = time.monotonic()
    count, first, ended, own_processes = 0, 0.0, False, 0
    while batches is None or count < batches:
        try:
            next(iterator)
        except StopIteration:
            ended = True
            break
        count += 1
        watcher.process.recorder.mark(None, "iterate")
        elapsed = time.monotonic() - started
        first = first or elapsed
        if counts and count == 1 and not has_only(()):
            own_processes = sum(not is_cleanup_process(process) for process in descendants())
        if not pace.allows(count, first, elapsed):
            break
    return EpochRun(count, ended, time.monotonic() - started, first, own_processes)


def announce_epoch(loader: Loader, epoch: int) -> None:
    """Call `set_epoch` of sampler, dataset and collate_fn, as trainers do.

    A method that refuses this number, or needs more arguments, is skipped: only the user's trainer can call it.
    """
    for _, announce in _epoch_methods(loader):
        with contextlib.suppress(Exception):
            announce(epoch)


_EPOCH_HOOK = re.compile(r"(?:on_)?(?:train_)?epoch_(?:begin|start|end)|(?:begin|start|new|next|reset)_epoch")
"""Names of methods that a project's own trainer calls between epochs."""


def begin_epoch(loader: Loader, epoch: int) -> str | None:
    """Call `set_epoch`, or what a project's own trainer calls of a dataset that has none.

    Returns the name of that method, None if there is none; before the first epoch, nothing of it is called.
    """
    announce_epoch(loader, epoch)
    dataset = loader.dataset
    name = next(filter(_EPOCH_HOOK.fullmatch, dir(type(dataset))), None)
    if not epoch or name is None or callable(attribute(dataset, "set_epoch")):
        return None
    for arguments in ((epoch,), ()):
        with contextlib.suppress(Exception):
            getattr(dataset, name)(*arguments)
            return name
    return None


def _ignore_epochs(loader: Loader) -> None:
    """Make `set_epoch` do nothing, as the loader's own `__iter__` may call it."""
    for holder, _ in _epoch_methods(loader):
        with contextlib.suppress(Exception):  # one that allows no other attributes
            holder.set_epoch = _ignored


def _ignored(*_: Any, **__: Any) -> None:
    """In place of `set_epoch`; a function of this module, as it may be sent to a spawned worker."""


def _epoch_methods(loader: Loader) -> Iterator[tuple[Any, Callable[..., Any]]]:
    """What has a `set_epoch`, with that method: the loader, its parts, and what stands for it."""
    inside = getattr(loader.batch_sampler, "sampler", None)
    parts = (loader.sampler, loader.batch_sampler, inside, loader.dataset, loader.collate_fn)
    holders = (loader, *parts, held_by_training(loader))
    for holder in {id(holder): holder for holder in holders}.values():
        announce = attribute(holder, "set_epoch")
        if callable(announce):
            yield holder, announce


def shut(iterator: Any) -> None:
    """Shut workers down now: an abandoned iterator does so later, with warnings."""
    with contextlib.suppress(Exception):  # a loader that cannot be shut down is killed by the isolation
        if hasattr(iterator, "close"):
            iterator.close()
        if hasattr(iterator, "_shutdown_workers"):
            iterator._shutdown_workers()


def _failure(error: BaseException, iterator: Any, plan: Plan, failures: Sequence[Incident]) -> LoaderFailed:
    """Distinguish an exception of a worker, the death of a worker, and an exception of the main process."""
    incident = incident_of(error, "iterate")
    leaving = bool(failures) and failures[0].error_type == "SystemExit"
    workers = _workers_at(error) or getattr(iterator, "_workers", ())
    # A worker that exits runs its exit handlers first.
    dead = _dead_worker(workers, 1.0 if leaving else 0.1, "exited unexpectedly" in incident.message)
    if failures and not (dead and leaving):
        first = failures[0]
        if leaving:
            return LoaderDied(first)
        return LoaderHung(first) if first.stage in ("transfer", "raise") else LoaderRaised(first)
    if dead and isinstance(error, RuntimeError):
        worker, code = dead
        return LoaderDied(_death_of(worker, code, plan))
    if isinstance(error, SystemExit):
        return LoaderDied(incident)
    if isinstance(error, RuntimeError) and "timed out after" in incident.message:
        return LoaderHung(incident)
    return LoaderRaised(incident)


def _workers_at(error: BaseException) -> Sequence[Any]:
    """The workers of the torch iterator that raised this, perhaps in its constructor."""
    owners = (frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__))
    iterators = [owner for owner in owners if isinstance(owner, _MultiProcessingDataLoaderIter)]
    return getattr(iterators[0], "_workers", ()) if iterators else ()  # none yet when drawing the first indices raised


def _dead_worker(workers: Sequence[Any], patience: float, ended_early: bool) -> tuple[int, int] | None:
    """The first worker that ends abnormally within `patience` seconds, with its exit code.

    Exit code 0 is abnormal too if torch says that a worker `ended_early`.
    """
    if workers:
        wait([process.sentinel for process in workers], timeout=patience)
    codes = [(number, process.exitcode) for number, process in enumerate(workers)]
    failed = [(number, code) for number, code in codes if code]
    return next(iter(failed or [(number, code) for number, code in codes if code == 0 and ended_early]), None)


def _death_of(worker: int, code: int, plan: Plan) -> Incident:
    recorder = FlightRecorder(plan.folder)
    mark = next((mark for mark in recorder.last() if mark.worker == worker), None)
    name = signal_name(-code) if code < 0 else None
    left = incidents.stacks_left_by(mark.pid, plan.folder) if mark else ""
    return Incident(
        stage=mark.stage if mark else "init",
        message=f"worker {worker} {how_it_ended(code)}",
        frames=incidents.frames_of_stacks(left),
        index=mark.index if mark else None,
        worker=worker,
        signal=name,
        exit_code=None if name else code,
        stacks=left,
        output=end_of_output(plan.folder),
    )
