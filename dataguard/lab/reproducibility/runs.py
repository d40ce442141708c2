"""Runs of a loader from the same seeds, where they differ first, and why: `lab.reproducibility`.

Two runs are compared stage by stage (`first_difference`). What makes them differ is the source without which they
agree. A fingerprint holds the digests of the dataset and of the first batches, to be compared on other machines.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataguard.core.model import NotApplicable, NotTested, Undecided
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.records import Index
from dataguard.lab.core.source_location import Place
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.reproducibility.entropy import CLOCK, SEEDED, UNSEEDED, finishing, fixed
from dataguard.lab.reproducibility.other_seeds import OtherSeeds
from dataguard.lab.reproducibility.seeded_run import (
    Digests,
    FollowedSample,
    Run,
    RunBatch,
    Runs,
    StageDifference,
    StageTrace,
    UseLog,
    difference_of,
    followed_in,
    run_again,
    run_as_it_is,
    used_in,
)
from dataguard.lab.subject import Subject
from dataguard.measured import Fingerprint, Part
from dataguard.settings.target_spelling import is_held
from dataguard.targets.variants import Loader

_READS, _FEW_READS = 12, 4
"""About how many samples a run reads, and how many of those that are slow: by these a run is afforded."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What one process observed: its runs, the way of a `sample` if asked, and where functions were `used`."""

    runs: Runs
    sample: FollowedSample
    used: Mapping[str, Place]


@dataclass(frozen=True, slots=True)
class Cause:
    """A source of other values in every run, and where the user's code uses its functions, by name."""

    source: str
    used: Mapping[str, Place]

    @property
    def is_random(self) -> bool:
        """Whether random numbers are asked for, and not the time."""
        return self.source == UNSEEDED


class Reproducibility:
    """Runs of a loader, each in a new process that builds it again."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.seeds = OtherSeeds(subject)

    @property
    def pair(self) -> tuple[Observed, Observed]:
        """Two runs from the same seeds; threads and processes of the user's code finish in the order of submission.

        The first is one of the loader that the factory has made already, unless they differ: that may be because
        nobody watched that call.
        """
        two = self._run("two")
        if self._subject.has_checkpoint:
            made = self._run("made before", build=self._subject.build)
            if all(map(_agree, made.runs.each, two.runs.each)):
                return made, two
        return self._run("one"), two

    @property
    def divergence(self) -> Divergence | None:
        """The first difference between them."""
        first, second = self.pair
        return _difference(first, second)

    @property
    def differs_alone(self) -> bool:
        """Whether they differ without workers as well."""
        first, second = ({run.workers: run for run in observed.runs.each}.get(0) for observed in self.pair)
        return first is not None and second is not None and first_difference(first, second) is not None

    @property
    def depends_on_workers(self) -> bool:
        """Whether a run without workers reads other batches than one with the loader's own."""
        with_workers, *without_workers = self.pair[0].runs.each
        return any(first_difference(with_workers, run) for run in without_workers)

    @property
    def overtaken(self) -> Divergence | None:
        """The first difference if threads or processes of the user's code finish in another order."""
        return _difference(self._run("two"), self._run("overtaken", backward=True))

    def stage(self, where: Divergence) -> StageDifference | None:
        """The first stage of the sample or batch that differs in other runs: two or, by chance, three."""
        if where.stage == ORDER:
            return None
        workers = max(where.workers, 1)
        worker = where.batch % workers if where.workers else None
        trace = StageTrace(worker, where.epoch, where.batch // workers, where.position or 0)
        earlier: list[FollowedSample] = []
        for name in ("one", "two", "three"):
            sample = self._run(f"{name} traced", trace=trace).sample
            sample = sample.alone if where.stage == SAMPLE else sample
            difference = next(filter(None, (difference_of(other, sample) for other in earlier)), None)
            if difference:
                return difference
            earlier.append(sample)
        return None

    @property
    def cause(self) -> Cause | None:
        """What makes the runs differ: with that fixed, they agree."""
        for source in (UNSEEDED, CLOCK):
            used = self._used_if_same(source)
            if used:
                return Cause(source, used)
        return None

    @property
    def is_drawn(self) -> bool:
        """Whether they agree if each generator gets a fixed seed, whatever seed it is given."""
        return self._used_if_same(SEEDED) is not None

    def _used_if_same(self, source: str) -> Mapping[str, Place] | None:
        """The functions that are used, if runs agree with this source fixed; None if they differ."""
        try:
            first, second = (self._run(f"{name} without {source}", fixed_source=source) for name in ("one", "two"))
        except (NotApplicable, Undecided):
            return None
        return None if _difference(first, second) else first.used

    def fingerprint(self, batches: int) -> Fingerprint:
        """The digests of the dataset and of the first batches, as the loader is."""
        subject = self._subject
        facts, build = subject.facts, subject.build
        parts: tuple[Part, ...] = ()
        if facts.kind == "map":
            parts = subject.observe("dataset digests", lambda folder: dataset_parts(build, folder))
        run = subject.observe(("batch digests", batches), lambda folder: run_as_it_is(build, folder, batches))
        conditions = {
            "seed": subject.settings.seed,
            "num_workers": facts.num_workers,
            "start_method": facts.start_method if facts.num_workers else None,
        }
        return Fingerprint(subject.target.spelling, facts.name, (*parts, *run_parts(run)), conditions)

    def _run(
        self,
        name: str,
        *,
        build: Callable[..., Loader] | None = None,
        backward: bool = False,
        fixed_source: str | None = None,
        trace: StageTrace | None = None,
    ) -> Observed:
        """A run of a loader from newly imported modules, or of one that `build` makes."""
        subject = self._subject
        if is_held(subject.target.spelling) or subject.target.runs_once:
            raise NotTested("a loader in hand or of a script cannot be built again: give its name, 'pkg.mod:factory'")
        reads = subject.affordable_reads(_READS, _FEW_READS)
        subject.afford_reads(("run", name), reads)

        def run(folder: Path) -> Runs:
            log = UseLog(folder)
            with ExitStack() as stack:
                stack.enter_context(finishing(UseLog(folder / "aside") if fixed_source else log, backward=backward))
                if fixed_source:
                    stack.enter_context(fixed(fixed_source, log))
                return run_again(build or subject.rebuild, folder, (trace,) if trace else (), few=reads < _READS)

        def read(folder: Path, runs: Runs | None) -> Any:
            return runs and Observed(runs, followed_in(folder), used_in(folder))  # without runs, the budget ran out

        observed: Observed = subject.observe(("run", name, trace), run, read)
        return observed


ORDER, SAMPLE, BATCH = "order of indices", "sample", "collate_fn"
_DESCRIPTIVE = re.compile(r"time|stamp|seconds|date|uuid|\bid\b|_id\\b|path|file|host|pid|index", re.IGNORECASE)
"""Names of leaves that describe a sample or its reading, and on which a model is not trained."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two runs with so many workers differ first: a stage, an epoch, a batch, and for a sample its position.

    `leaves` are the paths that differ. `later_only`: nothing differs in epoch 0.
    """

    workers: int
    stage: str
    epoch: int
    batch: int
    position: int | None = None
    index: Index = None
    leaves: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """The place in words."""
        return f"batch {self.batch} of epoch {self.epoch}"


def first_difference(run: Run, other: Run) -> Divergence | None:
    """The first difference in the order of a run: of an epoch, batch by batch the indices, samples and batches."""
    for epoch, (batches, other_batches) in enumerate(zip(run.orders, other.orders, strict=False)):
        number = next(
            (batch for batch, pair in enumerate(zip(batches, other_batches, strict=False)) if pair[0] != pair[1]), None
        )
        if number is not None or len(batches) != len(other_batches):
            batch = min(len(batches), len(other_batches)) if number is None else number
            return Divergence(run.workers, ORDER, epoch, batch)
    pairs = zip(run.batches, other.batches, strict=False)
    return next((divergence for pair in pairs for divergence in _of_batch(run.workers, *pair)), None)


def _of_batch(workers: int, batch: RunBatch, other: RunBatch) -> Iterator[Divergence]:
    for position, (sample, other_sample) in enumerate(zip(batch.samples, other.samples, strict=False)):
        leaves = _unlike(sample, other_sample)
        if leaves:
            index = batch.indices[position] if position < len(batch.indices) else None
            yield Divergence(workers, SAMPLE, batch.epoch, batch.number, position, index, leaves)
    leaves = _unlike(batch.leaves, other.leaves)
    if leaves:
        yield Divergence(workers, BATCH, batch.epoch, batch.number, leaves=leaves)


def _unlike(digests: Digests, others: Digests) -> tuple[str, ...]:
    """The leaves that differ, without those that only describe a sample."""
    paths = (path for path in {**digests, **others} if digests.get(path) != others.get(path))
    return tuple(path for path in paths if not _DESCRIPTIVE.search(path))


FINGERPRINT_SAMPLES = 16
"""Samples of the dataset that are read by index: more find a change of fewer samples, and take longer."""


def dataset_parts(build: Callable[..., Loader], folder: Path) -> tuple[Part, ...]:
    """Some samples of a map-style dataset, evenly spaced, each read with the same seeds."""
    loader = build(num_workers=0)
    reader = Reader(loader, folder)
    length = length_of(loader.dataset) or 0
    answers = (reader.ask(index) for index in evenly(range(length), FINGERPRINT_SAMPLES))
    samples = [
        Part("dataset", f"sample {answer.index}", _hex(answer.digests)) for answer in answers if not answer.incident
    ]
    return (Part("dataset", "length", {"": str(length)}), *samples)


def run_parts(run: Run) -> Iterator[Part]:
    """The order of indices of each epoch, then of each batch its samples and what collate_fn made of them."""
    for epoch, order in enumerate(run.orders):
        yield Part("order of indices", f"epoch {epoch}", {"": _digest_of(order)})
    for batch in run.batches:
        where = f"batch {batch.number} of epoch {batch.epoch}"
        for position, sample in enumerate(batch.samples):
            yield Part("samples", f"row {position} of {where}", _hex(sample))
        yield Part("collate_fn", where, _hex(batch.leaves))


def _digest_of(order: object) -> str:
    return hashlib.blake2b(repr(order).encode(), digest_size=8).hexdigest()


def _hex(digests: Digests) -> dict[str, str]:
    return {path: digest.hex() for path, digest in digests.items()}


def _agree(run: Run, other: Run) -> bool:
    return first_difference(run, other) is None


def _difference(first: Observed, second: Observed) -> Divergence | None:
    """The first difference between two processes with the loader's own workers; without any if those are spawned."""
    return first_difference(first.runs.each[0], second.runs.each[0])
