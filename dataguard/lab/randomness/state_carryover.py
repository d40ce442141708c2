"""State that reading a sample changes: whether later samples depend on it, and whether the user's workers lose it.

One worker, restarted for each trial, reads one item repeatedly: alone, and after other items. All RNGs are frozen, so
that no difference is random. Then the user's own workers read the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import groupby

from dataguard.lab.dataset.changed_attributes import find_changed
from dataguard.lab.randomness.same_items import MOST_WORKERS, batch_size
from dataguard.lab.reading.scripted_reads import FORKED, Series, read_trials, run_trials
from dataguard.lab.rng.global_rng import SEED
from dataguard.lab.streams.observations import Streams
from dataguard.lab.subject import Subject
from dataguard.model import Location

OTHERS = 4
"""Items that one of the two scripts reads before the target. Both begin with a warm-up item."""
SHARED = 6
"""Reads of the target after the other items; the script without them makes as many fetches."""
ALONE = (0, *[OTHERS + 1] * (OTHERS + SHARED))
AFTER = (*range(OTHERS + 1), *[OTHERS + 1] * SHARED)
TRIALS = ((ALONE,), (ALONE,), (AFTER,), (ALONE,))
SEEDS = ((SEED,), (SEED,), (SEED,), (SEED + 1,))
READS = len(TRIALS) * len(ALONE)
STAGES = 4
"""Fewest values that a state takes one after the other if it keeps changing."""
NEW_SHARE = 0.5
"""The share of new samples at the start of a second epoch if a stream continues instead of starting over."""


class Effect(Enum):
    """What a leaf depends on in earlier reads."""

    COUNT = "how many samples were read before"
    CONTENT = "which samples were read before"
    ITSELF = "how often it was read before"
    EPOCH = "how often it was iterated before"


@dataclass(frozen=True, slots=True)
class Carryover:
    """Leaves that depend on earlier reads, a dependence that the user's own workers lose.

    `changed` are the attributes of the dataset that reading changes, if there is such a leaf. `reads` were compared.
    """

    lost: Mapping[str, Effect] = field(default_factory=dict)
    changed: tuple[Location, ...] = ()
    reads: int = READS


def find_carryover(subject: Subject) -> Carryover:
    """Read in one process and, if a leaf depends on earlier reads, in the user's own workers."""
    subject.afford_reads("carryover", READS * batch_size(subject.facts))
    lost, reads = _lost_stream(subject) if subject.facts.kind == "stream" else (_lost_leaves(subject), READS)
    if not lost:
        return Carryover(reads=reads)
    return Carryover(lost, find_changed(subject), reads)


def _lost_leaves(subject: Subject) -> Mapping[str, Effect]:
    facts = subject.facts
    size, build_one = batch_size(facts), partial(subject.build, **FORKED)
    readings = subject.vary(
        "carryover",
        lambda folder: run_trials(build_one, folder, TRIALS, SEEDS, size, announce=False),
        partial(read_trials, TRIALS),
    )
    effects = {path: effect for path, series in readings.items() if (effect := _effect(series))}
    if not effects:
        return {}
    workers = min(facts.num_workers, MOST_WORKERS.get(facts.start_method, 2))
    scripts = [[AFTER] * workers, [ALONE] * workers]
    wanted: dict[tuple[int, int], tuple[int, ...]] = {(0, 1): ALONE}
    if facts.persistent:  # they keep their state; but does one know what the others read?
        scripts = [[ALONE, *[AFTER] * (workers - 1)]]
        wanted = {(worker, 0): script for worker, script in enumerate(scripts[0])}
    build_own = partial(subject.build, num_workers=workers)
    own = subject.vary(
        "carryover of workers",
        lambda folder: run_trials(build_own, folder, scripts, SEEDS[:1], size),
        partial(read_trials, scripts),
    )
    return {path: effect for path, effect in effects.items() if _loses(own.get(path, {}), readings[path], wanted)}


def _lost_stream(subject: Subject) -> tuple[Mapping[str, Effect], int]:
    """Whether the second epoch of a stream continues in one process, and starts over in the user's own workers."""
    stream = Streams(subject).stream
    kept = stream(1, seeded=True, frozen=True, persistent=True, method="fork", announce=False)
    if not kept.ended or kept.new_share < NEW_SHARE:
        return {}, kept.total
    own = stream(subject.facts.num_workers, seeded=True, frozen=True)
    over = own.ended and min(map(len, own.again), default=0) > 1 and not own.begins_differently
    return {"the stream": Effect.EPOCH} if over else {}, own.total


def _effect(trials: Mapping[tuple[int, int], Series]) -> Effect | None:
    """What a leaf depends on, by its trials; None if it does not certainly depend on earlier reads.

    Both equal trials have to agree, which excludes clocks, process ids and draws at the start of a worker. For CONTENT,
    the leaf must not depend on random numbers, because samples may be mixed with earlier ones, and the effect must
    last: otherwise only the first samples of an epoch differ.
    """
    if len(trials) < len(TRIALS):
        return None
    one, again, after, reseeded = (trials[0, epoch] for epoch in range(len(TRIALS)))
    alone, behind = one[1:], after[OTHERS + 1 :]
    if one[1:] != again[1:]:
        return None
    if _keeps_changing(alone):
        if behind == alone[OTHERS:]:
            return Effect.COUNT
        if behind == alone[:SHARED]:
            return Effect.ITSELF
    steady = _keeps_changing(alone) or len(set(alone[OTHERS:])) == 1
    lasts = steady and all(one != two for one, two in zip(behind, alone, strict=False))
    return Effect.CONTENT if lasts and alone == reseeded[1:] else None


def _keeps_changing(series: Series) -> bool:
    """Whether a leaf keeps taking new values, without cycling."""
    runs = [value for value, _ in groupby(series)]
    return len(set(runs)) == len(runs) >= STAGES and len(set(series[len(series) // 2 :])) > 1


def _loses(
    own: Mapping[tuple[int, int], Series],
    trials: Mapping[tuple[int, int], Series],
    scripts: Mapping[tuple[int, int], tuple[int, ...]],
) -> bool:
    """Whether each of these workers and epochs reads as if nothing else had been read, before or by other workers."""
    expected = {ALONE: trials[0, 0], AFTER: trials[0, 2]}
    return all(own.get(where, ())[1:] == expected[script][1:] for where, script in scripts.items())
