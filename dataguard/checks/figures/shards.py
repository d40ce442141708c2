"""Which rank and worker reads how many samples. Standard library only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.figures import Matrix

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.ranks.shares import Share
    from dataguard.model import Finding


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
