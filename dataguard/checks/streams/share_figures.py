"""Figures of which index, or which sample, an epoch, worker or rank gets. Standard library only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.core.figures import Line, Matrix, Plot
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.core.model import Finding
    from dataguard.lab.core.records import Index
    from dataguard.lab.lab import Lab
    from dataguard.lab.ranks.shares import Share


MOST_POINTS = 500
"""Points of each epoch that are drawn: more take longer, and the summary says that some are left out."""


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
    points = [(float(position), float(index)) for position, index in enumerate(order) if isinstance(index, int)]
    return Line(f"epoch {number}", tuple(points[:: _step(len(order))]))


def _step(count: int) -> int:
    return -(-count // MOST_POINTS) or 1


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
    counts = tuple(tuple(_common(share, other) for other in ranks) for share in ranks)
    most = max((counts[row][column] for row in range(len(ranks)) for column in range(row)), default=0)
    summary = f"Two ranks have up to {most} samples in common; the diagonal counts the samples of each rank."
    yield Matrix("Samples that ranks have in common", summary, names, names, counts)


def _common(share: Share, other: Share) -> int:
    """The samples of one rank that another one reads as well, estimated where only some identities are kept."""
    kept = share.counts.total()
    twice = sum(count for identity, count in share.counts.items() if identity in other.counts)
    return round(twice * share.total / kept) if kept else 0
