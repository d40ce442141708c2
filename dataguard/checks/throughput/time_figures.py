"""Figures of what workers and the training loop do when, and of how fast settings are. Standard library only."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING

from dataguard.core.figures import Line, Plot, Span, Timeline
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.core.model import Finding
    from dataguard.lab.core.records import BatchRecord
    from dataguard.lab.lab import Lab


MOST_WORKERS, MOST_BATCHES = 16, 40
"""Lanes, and batches in each, that are drawn: more are too thin to read."""
READ, COLLATE, WAIT, STEP = "read samples", "collate", "wait", "step"


def workers(lab: Lab, findings: Sequence[Finding]) -> Iterator[Timeline]:
    """The first batches of each worker: reading samples, collating them, and the rest of the time."""
    del findings
    by_worker: dict[int, list[BatchRecord]] = defaultdict(list)
    for batch in lab.epoch.batches:
        if batch.epoch == 0 and batch.began:
            by_worker[batch.worker or 0].append(batch)
    if not by_worker:
        return
    chosen = {number: sorted(by_worker[number], key=attrgetter("began"))[:MOST_BATCHES] for number in sorted(by_worker)}
    start = min(batches[0].began for batches in chosen.values())
    lanes = tuple(
        (f"worker {number}" if lab.facts.num_workers else "main process", tuple(_spans(batches, start)))
        for number, batches in list(chosen.items())[:MOST_WORKERS]
    )
    batches = [batch for several in chosen.values() for batch in several]
    read, collate = (
        statistics.median(getattr(batch, name) for batch in batches) for name in ("fetch_seconds", "collate_seconds")
    )
    summary = (
        f"In an ordinary epoch without a training step, reading the samples of a batch takes {_ms(read)}, "
        f"collating them {_ms(collate)} (medians of {counted(len(batches), 'batches')})."
    )
    yield Timeline("Batches by worker", summary, lanes)


def _spans(batches: Sequence[BatchRecord], start: float) -> Iterator[Span]:
    for batch, later in zip_longest(batches, batches[1:]):
        began = batch.began - start
        read = began + batch.fetch_seconds
        done = read + batch.collate_seconds
        yield Span(began, read, READ, f"batch {batch.batch}, {counted(batch.size, 'samples')}")
        yield Span(read, done, COLLATE, f"batch {batch.batch}")
        if later is not None and later.began - start > done:
            yield Span(done, later.began - start, WAIT, f"after batch {batch.batch}")


def training_loop(lab: Lab, findings: Sequence[Finding]) -> Iterator[Timeline]:
    """The first steps of a training loop, and how long each waits for its batch."""
    del findings
    spans: list[Span] = []
    now = 0.0
    for number, (wait, step) in enumerate(lab.throughput.loop.first):
        spans += [Span(now, now + wait, WAIT, f"for batch {number}")]
        spans += [Span(now + wait, now + wait + step, STEP, f"step {number}")]
        now += wait + step
    waits = lab.throughput.waits
    summary = f"A loop with steps of {_ms(waits.step)} waits for its batches for {waits.share:.0%} of the time."
    yield Timeline("Training loop", summary, (("training loop", tuple(spans)),))


def sweep(lab: Lab, findings: Sequence[Finding]) -> Iterator[Plot]:
    """The time per batch by number of workers, with the spread over all rounds."""
    del findings
    timed = sorted(
        (timing for timing in lab.throughput.sweep.workers if timing.per_batch),
        key=lambda timing: timing.setting.workers,
    )
    points = tuple((float(timing.setting.workers), 1e3 * statistics.median(timing.per_batch)) for timing in timed)
    spread = tuple((1e3 * min(timing.per_batch), 1e3 * max(timing.per_batch)) for timing in timed)
    fastest = min(points, key=lambda point: point[1])
    summary = (
        f"Of {len(points)} numbers of workers, {fastest[0]:g} are the fastest, with {fastest[1]:.3g} ms per batch."
    )
    line = Line("median and range of all rounds", points, spread)
    yield Plot("Time per batch by number of workers", summary, "workers", "ms per batch", (line,))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
