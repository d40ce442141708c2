"""The order of indices in two epochs. Standard library only.

Which rank and worker reads how many samples. Standard library only.

What workers and the training loop do, and when; and how fast settings are. Standard library only.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING

from dataguard.core.figures import Line, Matrix, Plot, Span, Timeline
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.core.model import Finding
    from dataguard.lab.core.records import BatchRecord, Index
    from dataguard.lab.lab import Lab
    from dataguard.lab.ranks.shares import Share


MOST = 500
"""Points of each epoch."""


def two_epochs(lab: Lab, findings: Sequence[Finding]) -> Iterator[Plot]:
    """The index at each position of the first two epochs."""
    del findings
    epochs = lab.streams.orders.epochs[:2]
    if len(epochs) < 2:
        return
    lines = tuple(_line(number, order) for number, order in enumerate(epochs))
    count = len(epochs[0])
    order = "in the same order" if epochs[0] == epochs[1] else "in different orders"
    some = f" One in {_step(count)} is shown." if _step(count) > 1 else ""
    summary = f"Epochs 0 and 1 request {counted(count, 'indices')} each, {order}."
    yield Plot("Order of indices in two epochs", summary + some, "position in the epoch", "index", lines, joined=False)


def _line(number: int, order: Sequence[Index]) -> Line:
    points = [(float(place), float(index)) for place, index in enumerate(order) if isinstance(index, int)]
    return Line(f"epoch {number}", tuple(points[:: _step(len(order))]))


def _step(count: int) -> int:
    return -(-count // MOST) or 1


def by_worker(lab: Lab, findings: Sequence[Finding]) -> Iterator[Matrix]:
    """The samples that each worker of a stream yields, and those of them that others yield too."""
    del findings
    workers = max(lab.facts.num_workers, 2)
    shared = lab.streams.shares(workers, seeded=False)
    owners = Counter(identity for ids in shared.by_worker for identity in set(ids))
    common = [shared.scaled(sum(owners[identity] > 1 for identity in ids)) for ids in shared.by_worker]
    counts, names = list(shared.samples), [number for number in range(workers) if number not in shared.idle]
    if len(names) != len(counts):
        names = list(range(len(counts)))
    filled = dict(zip(names, zip(counts, common, strict=True), strict=True))
    table = [filled.get(number, (0, 0)) for number in range(max(workers, len(counts)))]
    yield Matrix(
        "Samples per worker",
        f"{len(table)} workers yield {sum(counts)} samples; {sum(common)} of them come from more than one worker.",
        ("yielded", "yielded by others too"),
        tuple(f"worker {number}" for number in range(len(table))),
        (tuple(yielded for yielded, _ in table), tuple(twice for _, twice in table)),
    )


def by_rank(lab: Lab, findings: Sequence[Finding]) -> Iterator[Matrix]:
    """The samples that each worker of each rank reads."""
    del findings
    ranks = lab.ranks.shards().ranks
    workers = max(len(share.samples) for share in ranks)
    yield Matrix(
        "Samples per rank and worker",
        f"{'; '.join(f'rank {number} reads {share.total} samples' for number, share in enumerate(ranks))}.",
        tuple(f"rank {number}" for number in range(len(ranks))),
        tuple(f"worker {number}" for number in range(workers)),
        tuple((*share.samples, *[0] * (workers - len(share.samples))) for share in ranks),
    )


def overlap(lab: Lab, findings: Sequence[Finding]) -> Iterator[Matrix]:
    """How many samples each two ranks have in common."""
    del findings
    ranks = lab.ranks.shards().ranks
    names = tuple(f"rank {number}" for number in range(len(ranks)))
    counts = tuple(tuple(_common(one, two) for two in ranks) for one in ranks)
    most = max((counts[one][two] for one in range(len(ranks)) for two in range(one)), default=0)
    summary = f"Two ranks have up to {most} samples in common; the diagonal counts the samples of each rank."
    yield Matrix("Samples that ranks have in common", summary, names, names, counts)


def _common(one: Share, two: Share) -> int:
    """The samples of one rank that another one reads as well, estimated where only some identities are kept."""
    kept = one.counts.total()
    twice = sum(count for identity, count in one.counts.items() if identity in two.counts)
    return round(twice * one.total / kept) if kept else 0


MOST_WORKERS, MOST_BATCHES = 16, 40
"""Lanes, and batches in each."""
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
    timed = sorted((one for one in lab.throughput.sweep.workers if one.per_batch), key=lambda one: one.setting.workers)
    points = tuple((float(one.setting.workers), 1e3 * statistics.median(one.per_batch)) for one in timed)
    spread = tuple((1e3 * min(one.per_batch), 1e3 * max(one.per_batch)) for one in timed)
    fastest = min(points, key=lambda point: point[1])
    summary = (
        f"Of {len(points)} numbers of workers, {fastest[0]:g} are the fastest, with {fastest[1]:.3g} ms per batch."
    )
    line = Line("median and range of all rounds", points, spread)
    yield Plot("Time per batch by number of workers", summary, "workers", "ms per batch", (line,))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
