"""How fast a loader is: alone, under other settings, and with a training step: `lab.throughput`.

These are measurements without a verdict. The loader is built once, and each run is a fork of that process that starts
from the loader as built, so that no setting profits from what another one read into a cache of the dataset. After a
first run that does not count, files are in the page cache for all of them.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.utils.data import IterableDataset

from dataguard.core.incident import EmptyEpoch, LoaderFailed
from dataguard.core.model import NotApplicable, NotTested, Undecided
from dataguard.core.statements import with_arguments
from dataguard.lab.process.accelerators import initialized, lost, shown_kind
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.process.isolation import OutOfTime, isolated
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.spy.drive import shut
from dataguard.lab.subject import Subject
from dataguard.lab.throughput.batch_stages import run_profile
from dataguard.lab.throughput.device_copies import DeliveredBatch, copy_delivered, unavailable_reason
from dataguard.lab.throughput.timed_run import (
    EndlessOrder,
    LoopTimer,
    LoopTimes,
    TimedRun,
    TrainingStep,
    batches_of,
    import_step,
    run_from_memory,
    run_timed,
    run_training_loop,
    sleeping,
    step_of,
    width_of,
)
from dataguard.machine.machine import Machine
from dataguard.measured import Advice, BenchOptions, LoaderTimes, Setting, Timed, Waits
from dataguard.process.originals import os, time
from dataguard.stats.timing_comparison import race
from dataguard.targets.loading import Target
from dataguard.targets.script import Begin, Script
from dataguard.targets.variants import Loader

T = TypeVar("T")

LOOP_SECONDS = 1.5
"""Seconds of a training loop in which waiting is measured: longer ones see slower changes."""
RACE_SECONDS = 20.0
"""Seconds that a check may take to compare worker counts: a third of the default budget."""
_WORKER_COUNTS = (0, 1, 2, 4, 8, 16, 32)
"""Worker counts of a bench, as far as twice the cores."""
_MANY_WORKERS = 16
"""What a check tries as many workers, or twice the cores if these are fewer."""
_LOOP_ROUNDS = 3
"""How often each training loop is run, alternately: a burst of other load decides no more than one."""
_EPOCH_STARTS = 3
"""How many epochs are started to measure the startup time: the best of them is compared with the worst of the
others."""


@dataclass(frozen=True, slots=True)
class EpochStarts:
    """Seconds to the first batch of an epoch: of each of several, and of later ones if workers persist."""

    own: tuple[float, ...]
    persistent: tuple[float, ...]


class Throughput:
    """Measurements of one loader; each is made when accessed, as in `Lab`."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def step(self) -> float:
        """The duration of a training step, in seconds. Raises NotApplicable if the user declares none."""
        declared = self._subject.settings.contract.get("step_ms")
        if declared is None:
            raise NotTested(
                "no step time is declared ([tool.dataguard.contract] step_ms): `dataguard bench` measures without one"
            )
        return float(declared) / 1e3

    @property
    def waits(self) -> Waits:
        """How long a training loop of the declared step waits for batches."""
        return _waits(self._own, [self.loop])

    @property
    def loop(self) -> LoopTimes:
        """A training loop of the declared step."""
        step = self.step
        self._subject.afford("waits", 2 * LOOP_SECONDS)
        return self._subject.observe(
            "waits", lambda folder: _run_loop_once(self._subject.build, folder, sleeping(step)), exclusive=True
        )

    @property
    def sweep(self) -> LoaderTimes:
        """A race of the loader's own worker count with some that may suit the machine better."""
        seconds = min(self._subject.cache.left / 3, RACE_SECONDS)
        return self._subject.observe("sweep", lambda folder: self._run_sweep(folder, seconds), exclusive=True)

    @property
    def starts(self) -> EpochStarts:
        """The time to start an epoch, and the time if workers persist."""
        return self._subject.observe("starts", lambda folder: _run_starts(self._subject.build, folder), exclusive=True)

    @property
    def copies(self) -> DeliveredBatch:
        """The time to copy a batch, as the loader yields it, to the device. Raises NotTested without one."""
        if self._subject.facts.accelerator is None:
            raise NotTested("no accelerator")
        return self._subject.observe(
            "copies", lambda folder: _run_copies(self._subject.build(), folder), exclusive=True
        )

    def bench(self, wanted: BenchOptions) -> LoaderTimes:
        """All measurements of one loader, within the budget. Raises LoaderFailed if it does not run unchanged."""
        seconds = self._subject.settings.budget
        run = functools.partial(self._run_bench, wanted=wanted, seconds=seconds)
        return self._subject.cache.observe(wanted, run, unbounded=True)

    @property
    def _own(self) -> Setting:
        facts = self._subject.facts
        return Setting(facts.num_workers, facts.prefetch, facts.persistent, facts.pin_memory)

    def _sweep(self, folder: Path, seconds: float) -> Sweep:
        loader, recorder = self._subject.build(), FlightRecorder(folder)
        # Timed runs are forks of this process.
        if kind := initialized():
            raise Undecided(f"building the loader initializes {shown_kind(kind)}, which no forked process can use then")
        return Sweep(loader, folder, recorder, self._subject.settings.timeout, time.monotonic() + seconds)

    def _run_sweep(self, folder: Path, seconds: float) -> LoaderTimes:
        sweep, facts = self._sweep(folder, seconds), self._subject.facts
        sweep.timed_run(sweep.own)  # brings files into the system's cache
        settings = _counts(sweep.own, _likely(sweep.own.workers, self._subject.machine.cores), self._subject.machine, 0)
        timed = sweep.run(settings, facts.batches, seconds)
        return LoaderTimes(facts.name, facts.batch_size, facts.batches, sweep.own, timed)

    def _run_bench(self, folder: Path, wanted: BenchOptions, seconds: float) -> LoaderTimes:
        sweep, facts = self._sweep(folder, seconds), self._subject.facts
        own = sweep.own
        sweep.timed_run(own)  # what it raises is the user's; it also brings files into the system's cache
        profile = sweep.measure(own, lambda loader, recorder: run_profile(loader, recorder, 1.0))
        if wanted.step is not None:
            sweep.measure(own, lambda _, __: import_step(wanted.step or ""))
        counted = _counts(own, wanted.workers, self._subject.machine, profile.batch_bytes)
        has_step = wanted.step is not None or wanted.step_ms is not None
        script = self._script
        share = 0.5 if has_step or script else 0.7
        workers = sweep.run(counted, facts.batches, share * seconds)
        times = LoaderTimes(facts.name, facts.batch_size, facts.batches, own, workers, stages=profile.stages)
        first = _first(times)
        others = sweep.run(
            _others(first, facts.kind, pins=facts.pins),
            facts.batches,
            sweep.left * (0.5 if has_step or script else 1.0),
        )
        why = "pinning is not supported on MPS" if facts.accelerator else "there is no accelerator"
        notes = [] if facts.pins or not own.pin else [f"pin_memory=True has no effect here: {why}"]
        waits: list[Waits] = []
        ideal: float | None = None
        if has_step:
            try:
                waits, ideal = self._measure_waits(sweep, wanted, list(dict.fromkeys([own, first])))
            except Undecided as why:
                notes.append(str(why))
        name = wanted.step or (f"{wanted.step_ms:g} ms" if wanted.step_ms is not None else None)
        times = replace(times, others=others, waits=tuple(waits), ideal=ideal, step=name)
        best = times.ranking(others).best
        fastest = next((timed.setting for timed in others if str(timed.setting) == best), first)
        advice = self._advice(sweep, fastest, script) if fastest != own else None
        return replace(times, device=profile.device, notes=tuple(notes), advice=advice)

    @property
    def _script(self) -> Script | None:
        """The script that trains with the loader, if it can resume."""
        source = self._subject.target.source
        return source if isinstance(source, Script) and source.can_resume else None

    def _advice(self, sweep: Sweep, fastest: Setting, script: Script | None) -> Advice:
        """What to write for the fastest setting, and how fast the user's training is with it."""
        at = self._subject.facts.made_at
        written = sweep.own.changes_to(fastest).items()
        changes = {name: None if value is None else repr(value) for name, value in written}
        place, diff = None, None
        if at is not None and at.file and at.line:
            place, diff = f"{at.file}:{at.line}", with_arguments(at.file, at.line, "DataLoader", changes)
        advice = Advice(fastest, place, tuple(diff or ()), script.path if script else None)
        if script is None:
            return advice
        if kind := lost():
            return replace(advice, untried=f"{script.path} uses {shown_kind(kind)}, which a fork of its process cannot")
        run = functools.partial(sweep.trained, script, self._subject.facts.name, self._subject.machine.usable_cores)
        return replace(advice, tried=sweep.run([sweep.own, fastest], self._subject.facts.batches, sweep.left, run))

    def _measure_waits(self, sweep: Sweep, wanted: BenchOptions, settings: list[Setting]) -> tuple[list[Waits], float]:
        """Training loops under each setting, alternately, and the same loop with batches from memory."""
        feeds: dict[Setting, list[LoopTimes]] = {setting: [] for setting in settings}
        each = max(min(LOOP_SECONDS, sweep.left / (_LOOP_ROUNDS * (len(settings) + 1))), 0.2)
        ideals: list[LoopTimes] = []
        for number in range(_LOOP_ROUNDS):
            if number and sweep.left < 0:
                break
            for setting in settings:
                feeds[setting].append(
                    sweep.measure(
                        setting, lambda loader, recorder: run_training_loop(loader, recorder, step_of(wanted), each)
                    )
                )
            ideals.append(
                sweep.measure(
                    sweep.own, lambda loader, recorder: run_from_memory(loader, recorder, step_of(wanted), each)
                )
            )
        ideal = _waits(sweep.own, ideals)
        return [_waits(setting, made) for setting, made in feeds.items() if made], ideal.each


def _waits(setting: Setting, feeds: list[LoopTimes]) -> Waits:
    waiting = tuple(seconds for feed in feeds for seconds in feed.waiting)
    stepping = tuple(seconds for feed in feeds for seconds in feed.stepping)
    return Waits(setting, sum(feed.batches for feed in feeds), waiting, stepping)


def _counts(own: Setting, asked: tuple[int, ...], machine: Machine, batch_bytes: int) -> list[Setting]:
    """The settings of a race of worker counts: those requested, or what suits the machine; the user's own first."""
    counts = asked or tuple(count for count in _WORKER_COUNTS if count <= 2 * machine.cores)
    settings = {own: None}
    for count in counts:
        prefetch = (own.prefetch or 2) if count else None
        flying = (count * (prefetch or 0) + 2) * batch_bytes
        fits = not count or machine.shm_free is None or flying < machine.shm_free / 2
        if count != own.workers and (fits or asked):
            settings[replace(own, workers=count, prefetch=prefetch, persistent=own.persistent and count > 0)] = None
    return list(settings)


def _likely(workers: int, cores: int) -> tuple[int, ...]:
    """Worker counts worth comparing with the user's own: twice as many, many, and no more than cores."""
    most = 2 * cores
    fewer = {cores} if workers > cores else set()
    return tuple(sorted({min(max(2 * workers, 2), most), min(_MANY_WORKERS, most), *fewer} - {workers}))


def _first(times: LoaderTimes) -> Setting:
    """The fastest worker count; of those without a clear difference, the user's own, else the smallest."""
    ranking = times.ranking(times.workers)
    if not ranking.order:
        return times.own
    names = {ranking.order[0], *ranking.tied}
    among = [timed.setting for timed in times.workers if str(timed.setting) in names]
    return times.own if times.own in among else min(among, key=lambda setting: setting.workers)


def _others(first: Setting, kind: str, *, pins: bool) -> list[Setting]:
    """The settings of a race of the other arguments, starting from the best worker count."""
    others = [first]
    if first.workers:
        others.append(replace(first, prefetch=2 * (first.prefetch or 2)))
        if kind == "map" and not first.persistent:
            others.append(replace(first, persistent=True))
    if pins:
        others.append(replace(first, pin=not first.pin))
    return others if len(others) > 1 else []


def _run_loop_once(build: Callable[..., Loader], folder: Path, step: TrainingStep) -> LoopTimes:
    loader = build(schedule=lambda inner, _: EndlessOrder(inner))
    return run_training_loop(loader, FlightRecorder(folder), step, LOOP_SECONDS)


def _run_starts(build: Callable[..., Loader], folder: Path) -> EpochStarts:
    """Start epochs of the loader unchanged, and with persistent workers; each ends after its first batch."""
    recorder = FlightRecorder(folder)
    return EpochStarts(*(_started(build, recorder, persistent) for persistent in (False, True)))


def _started(build: Callable[..., Loader], recorder: FlightRecorder, persistent: bool) -> tuple[float, ...]:
    loader = build(persistent_workers=persistent, reuse=True)
    seconds = []
    iterator: Any = None
    with gate("iterate"):
        for _ in range(_EPOCH_STARTS + persistent):
            started = time.perf_counter()
            iterator = iter(loader)
            next(iterator)
            seconds.append(time.perf_counter() - started)
            recorder.mark(None, "iterate")
            if not persistent:
                shut(iterator)
    shut(iterator)
    return tuple(seconds[persistent:])


def _run_copies(loader: Loader, folder: Path) -> DeliveredBatch:
    recorder = FlightRecorder(folder)
    iterator = iter(loader)
    with gate("iterate"):
        batch = next(iterator)
    recorder.mark(None, "iterate")
    reason = unavailable_reason()
    if reason is not None:
        raise NotApplicable(reason)
    delivered = copy_delivered(batch)
    shut(iterator)
    return delivered


RUN_SECONDS = 0.3
"""Seconds of a run after its first batches: a race has four rounds or more of them for each setting."""
TRAINED_SECONDS = 0.6
"""The same of a script that trains: steps vary more than batches do."""


def setting_of(loader: Loader) -> Setting:
    """The user's own setting."""
    prefetch = (loader.prefetch_factor or 2) if loader.num_workers else None
    return Setting(loader.num_workers, prefetch, loader.persistent_workers, loader.pin_memory)


@dataclass(slots=True)
class Sweep:
    """A loader that was built, and the time left to measure it."""

    loader: Loader
    folder: Path
    recorder: FlightRecorder
    timeout: float
    until: float

    @property
    def own(self) -> Setting:
        """The user's own setting."""
        return setting_of(self.loader)

    @property
    def left(self) -> float:
        """Seconds."""
        return self.until - time.monotonic()

    def measure(self, setting: Setting, work: Callable[[Loader, FlightRecorder], T], *, warm_start: bool = False) -> T:
        """Let a fork of this process work on the loader under a setting. Raises LoaderFailed, or Undecided in time."""
        return self._forked(lambda recorder: work(self._variant(self.loader, setting, warm_start), recorder))

    def _forked(self, work: Callable[[FlightRecorder], T]) -> T:
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            # Half the timeout, or this process itself would count as one that hangs.
            allowed = max(self.left, 0.0) + self.timeout
            return isolated(lambda: work(FlightRecorder(folder)), folder, timeout=self.timeout / 2, allowed=allowed)
        except OutOfTime as cut:
            raise Undecided(f"one measurement took more than {allowed:.0f} s: raise --budget") from cut
        finally:
            self.recorder.mark(None, "iterate")
            shutil.rmtree(folder, ignore_errors=True)

    def timed_run(self, setting: Setting) -> TimedRun:
        """One run; the start of workers is left out if they persist."""
        warm_start = setting.persistent and not self._stream
        run = self.measure(
            setting,
            lambda loader, recorder: run_timed(loader, recorder, RUN_SECONDS, warm_start=warm_start),
            warm_start=warm_start,
        )
        return replace(run, start=0.0) if setting.persistent and self._stream else run

    def trained(self, script: Script, name: str, threads: int, setting: Setting) -> TimedRun:
        """One run of the script with a loader from its first batch on, in which a batch includes its training step.

        Nothing was computed here with more than one thread, so that the fork may use as many as a training does.
        """
        warm_start = setting.persistent and not self._stream

        def run(recorder: FlightRecorder) -> TimedRun:
            timers: list[LoopTimer] = []

            def feed(loader: Loader, begin: Begin) -> Iterator[Any]:
                variant = self._variant(loader, setting, warm_start)
                begin = begin if isinstance(variant, type(loader)) else iter  # of a wrapper, what it wraps
                if warm_start:
                    for _ in batches_of(variant, recorder, begin):
                        pass
                timers.append(LoopTimer(width_of(variant), TRAINED_SECONDS))
                return timers[0].batches(batches_of(variant, recorder, begin))

            if torch.get_num_threads() == 1:
                torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or threads))
            with gate("script"):
                script.resume(name, feed)
            if not timers:
                raise Undecided(f"{script.path} ended without a batch of {name}")
            times = timers[0].times
            start = 0.0 if setting.persistent and self._stream else timers[0].start or 0.0
            return TimedRun(start, (sum(times.waiting) + sum(times.stepping)) / times.batches)

        return self._forked(run)

    def run(
        self,
        settings: Sequence[Setting],
        batches: int | None,
        seconds: float,
        timed_run: Callable[[Setting], TimedRun] | None = None,
    ) -> tuple[Timed, ...]:
        """Alternate between settings for so many seconds at most; a failure is recorded, and ends only its setting."""
        timed_run = timed_run or self.timed_run
        until = min(time.monotonic() + seconds, self.until)
        by_name = {str(setting): setting for setting in settings}
        runs: dict[str, list[TimedRun]] = {name: [] for name in by_name}
        failed: dict[str, str] = {}

        def measure(name: str) -> float | None:
            try:
                runs[name].append(timed_run(by_name[name]))
            except LoaderFailed as failure:
                failed[name] = failure.incident.headline
            except EmptyEpoch:
                failed[name] = "the epoch has no batches"
            except Undecided as cut:
                failed[name] = str(cut)
            if name in failed:
                return None
            return runs[name][-1].per_batch

        def timed(name: str, count: int) -> Timed:
            rounds = runs[name][:count]
            per_batch = tuple(timed_run.per_batch for timed_run in rounds)
            starts = tuple(timed_run.start for timed_run in rounds)
            return Timed(by_name[name], per_batch, starts, failed.get(name))

        times = race(
            list(by_name),
            measure,
            may_continue=lambda: time.monotonic() < until,
            costs=lambda name, seconds: timed(name, len(seconds)).costs(batches),
        )
        return tuple(timed(name, len(times.get(name, ()))) for name in by_name)

    @property
    def _stream(self) -> bool:
        return isinstance(self.loader.dataset, IterableDataset)

    def _variant(self, loader: Loader, setting: Setting, warm_start: bool) -> Loader:
        """A loader under a setting; its order never ends, unless it is a stream."""
        own_arguments = self.own.arguments
        overrides: dict[str, Any] = {
            name: value
            for name, value in setting.arguments.items()
            if own_arguments.get(name) != value or name == "num_workers"
        }
        lead = max(setting.workers, 1) if warm_start else 0
        overrides["schedule"] = lambda inner, _: EndlessOrder(inner, lead)
        return Target("own", "own", loader).build(**overrides)
