"""What is true of a generated loader, worked out from its description alone, and what dataguard says of it.

The rules come from how torch seeds its workers (measured, not read off dataguard): it gives the shared generators of
python, numpy and torch a seed for each worker, whenever a worker starts, which is once for persistent workers and in
each epoch for others. Every other generator is copied into the worker: with the whole process under fork, by pickle
under spawn and forkserver, where globals of a module are made again by importing it.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from torch.utils.data import DataLoader

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings
from tests.loaders.generated import FILE, INITS, Description, build
from tests.loaders.sources import Source
from tests.support.descriptions import shown, simpler

CODES = ("DG101", "DG102", "DG103")
WILD = ("entropy", "cached", "counter", "epoch index")
"""Origins of values that differ between workers, or between epochs, whatever state generators are in."""

Verdicts = frozenset[Status]
PASSED: Verdicts = frozenset({Status.PASSED})
FAILED: Verdicts = frozenset({Status.FAILED})
SKIPPED: Verdicts = frozenset({Status.SKIPPED})
OPEN: Verdicts = frozenset({Status.INCONCLUSIVE})


@dataclass(frozen=True)
class Nature:
    """How one source behaves in one loader.

    `varies`: two draws of one index differ, in one worker and epoch. `workers` and `epochs`: two workers, or a worker
    in two epochs, get the same numbers. `tame`: all that varies comes from a generator that lives from draw to draw,
    and so can be found and held still from outside.
    """

    varies: bool
    workers: bool
    epochs: bool
    tame: bool = True


def nature(source: Source, loader: Description) -> Nature:
    """How a source behaves under this loader's workers."""
    return replace(_nature(source, loader), tame=source.origin not in WILD)


def _nature(source: Source, loader: Description) -> Nature:
    starts_over = not loader.persistent
    spawned = loader.method != "fork"
    copied = Nature(True, True, starts_over)
    own = Nature(True, False, False)
    if source.origin in ("constant", "idle", "index", "index kept", "frozen"):
        return Nature(False, True, True)
    if source.origin == "epoch index":  # a persistent worker is never told the epoch
        return Nature(False, True, loader.persistent)
    if source.origin == "counter":
        return Nature(False, True, starts_over)
    if source.origin in ("global", "cached", "lazy", "lazy numpy"):
        library = {"lazy": "torch", "lazy numpy": "numpy"}.get(source.origin, source.generator)
        seeded = shared_nature(library, loader)
        if source.origin == "cached":
            return replace(seeded, varies=False, epochs=seeded.epochs or loader.persistent)
        return seeded
    if source.origin == "held":
        return own if loader.init == "held" else copied
    if source.origin == "module":  # a torch.Generator without a seed begins with a constant one
        return own if spawned and not source.seeded and source.generator != "torch" else copied
    if source.origin == "anew":
        return Nature(True, True, True)
    if source.origin == "anew seeded":  # torch tells a persistent worker the same seed in each epoch
        told = shared_nature("torch", loader)
        return Nature(True, told.workers, told.epochs or loader.persistent)
    return own  # "entropy", "lazy worker"


def shared_nature(library: str, loader: Description) -> Nature:
    """How a generator that the process shares behaves: torch seeds three of them, and `worker_init_fn` comes last."""
    if library == "cv2" and loader.method != "fork":  # not imported yet when worker_init_fn runs
        follows = "constant"
    else:
        follows = INITS[loader.init].get(library, "constant" if library == "cv2" else "seed")
    start_alike = follows in ("constant", "id") and not loader.persistent
    return Nature(True, follows == "constant", start_alike)


def measured(loader: Description) -> Nature:
    """The `nature` of a loader's only source, seen without dataguard: two workers draw side by side, in two epochs."""
    made: Any = build(loader)
    order: Any = {} if loader.stream else {"sampler": [0] * 16}
    pair: Any = DataLoader(
        made.dataset,
        batch_size=None,
        num_workers=2,
        persistent_workers=loader.persistent,
        worker_init_fn=made.worker_init_fn,
        multiprocessing_context=loader.method,
        **order,
    )
    epochs = []
    for epoch in range(2):
        made.dataset.set_epoch(epoch)
        epochs.append([round(float(sample["x"][0] - sample["y"][0]), 2 if loader.stream else 6) for sample in pair])
    first, second, later = epochs[0][0:16:2], epochs[0][1:16:2], epochs[1][0:16:2]
    origin = loader.sources[0].origin
    varies = len(set(first)) > 1 and origin != "counter"
    return Nature(varies, first == second, first == later, origin not in WILD)


@dataclass(frozen=True)
class Truth:
    """What a check may say of a loader: one of `allowed`. `kind` is the class under which it is counted."""

    kind: str
    allowed: Verdicts


def truth(loader: Description, code: str) -> Truth:
    """What is true of a loader in the eyes of one check.

    A repeat has to be found wherever it shows: its values stand alone in a leaf, or beside others that repeat as well
    or can be held still. Beside values that differ from worker to worker (or from epoch to epoch) whatever is held
    still, it is "masked": no two leaves are ever equal, and the verdict may be left open, but the repeat not denied. A
    coin that falls on one side in 95 % of the draws may leave the verdict open, too; and so may a generator that runs
    alike and only fills a cache, beside values that cannot be held still.
    """
    if code == "DG103":
        return frozen_truth(loader)
    if code == "DG101" and loader.workers < 2:
        return Truth("one worker", SKIPPED)
    alike = "workers" if code == "DG101" else "epochs"
    natures = [nature(source, loader) for source in loader.sources]
    repeated = [number for number, one in enumerate(natures) if one.varies and getattr(one, alike)]
    seen = [number for number in repeated if shows(number, natures, loader, alike)]
    rare = [source.value == "rare" for source in loader.sources]
    if seen:
        return Truth("repeat", FAILED | OPEN if all(rare[number] for number in seen) else FAILED)
    if repeated:
        return Truth("masked", FAILED | OPEN)
    wild = sum(not one.tame for one in natures) > 1
    kept = (one for source, one in zip(loader.sources, natures, strict=True) if source.origin == "cached" and wild)
    leaves_open = any(rare) or any(getattr(one, alike) for one in kept)
    leaves_open = leaves_open or any(source.origin == "counter" for source in loader.sources)
    return Truth("healthy", PASSED | OPEN if leaves_open else PASSED)


def shows(number: int, natures: Sequence[Nature], loader: Description, alike: str) -> bool:
    """Whether the repeats of a source can be seen from outside."""
    if loader.stream and loader.mix == "gate" and number:  # asked at other times by workers that get other samples
        return loader.sources[0].origin in ("constant", "idle")
    others = [natures[other] for other in _beside(number, loader)]
    return all(getattr(other, alike) or other.tame for other in others)


def _beside(number: int, loader: Description) -> list[int]:
    """The sources that share a leaf with this one. What collate_fn adds is not there yet in what the dataset gives."""
    if loader.mix == "apart":
        return []
    last = loader.sources[number].place == "collate_fn"
    places = {other: source.place for other, source in enumerate(loader.sources) if other != number}
    return [other for other, place in places.items() if last or place != "collate_fn"]


def frozen_truth(loader: Description) -> Truth:
    """Whether a leaf never varies although random numbers are drawn for it.

    A coin that nearly always falls on one side may do so from other seeds as well, and may hide that it varies. A value
    that is cached may count as one that never varies, or not, as long as its cache lasts; and so may one in a stream,
    where no index comes twice. Behind a gate that the index opens, a constant seed is given for some indices: where
    only one of those that are read is among them, it looks like a seed that follows the index.
    """
    anew = replace(loader, persistent=False, method="fork")
    still = [
        not nature(source, anew).varies and source.origin not in ("counter", "epoch index") for source in loader.sources
    ]
    frozen = [number for number, source in enumerate(loader.sources) if source.origin == "frozen"]
    if any(source.origin == "cached" for source in loader.sources) or (
        frozen and loader.stream and loader.mix != "apart"
    ):
        return Truth("either", FAILED | PASSED | OPEN)
    if frozen and loader.mix == "gate" and loader.sources[0].origin in ("index", "index kept"):
        return Truth("either", FAILED | PASSED)
    seen = [number for number in frozen if all(still[other] for other in _beside(number, loader))]
    if not seen:
        nearly = [one or source.value == "rare" for one, source in zip(still, loader.sources, strict=True)]
        hidden = any(all(nearly[other] for other in _beside(number, loader)) for number in frozen)
        return Truth("either", FAILED | PASSED | OPEN) if hidden else Truth("healthy", PASSED)
    certain = any(loader.sources[number].value != "rare" for number in seen)
    return Truth("repeat", FAILED if certain else FAILED | OPEN | PASSED)


@dataclass(frozen=True)
class Case:
    """One loader in the eyes of one check: what is true of it, and what dataguard said."""

    loader: Description
    code: str
    truth: Truth
    status: Status
    said: str

    @property
    def right(self) -> bool:
        """Whether the verdict is one of those allowed."""
        return self.status in self.truth.allowed

    def __str__(self) -> str:
        allowed = " or ".join(sorted(status.value for status in self.truth.allowed))
        found = f"{self.code} {self.status.value}, not {allowed} ({self.truth.kind})"
        return f"{found}: {shown(self.loader)}\n  {self.said}"


@contextmanager
def written(loaders: Mapping[str, Description]) -> Iterator[None]:
    """Descriptions where the target finds them."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(pickle.dumps(loaders))
        file.flush()
        before = os.environ.get(FILE)
        os.environ[FILE] = file.name
        try:
            yield
        finally:
            os.environ.pop(FILE)
            if before is not None:
                os.environ[FILE] = before


def examined(loaders: Sequence[Description], codes: Sequence[str] = CODES) -> list[Case]:
    """What dataguard says of these loaders, in one scan."""
    named = {f"train_{number}": loader for number, loader in enumerate(loaders)}
    with written(named):
        report = scan("tests.loaders.generated:loaders", Settings(select=tuple(codes)))
    return [
        Case(
            named[result.loader],
            result.code,
            truth(named[result.loader], result.code),
            result.status,
            "; ".join(finding.message for finding in result.findings) or result.reason or "",
        )
        for result in report.results
    ]


def shrunk(case: Case) -> Case:
    """The simplest loader that can be reached by `simpler` and still gets a wrong verdict from the same check."""
    for candidate in simpler(case.loader):
        for again in examined([candidate], [case.code]):
            if not again.right:
                return shrunk(again)
    return case
