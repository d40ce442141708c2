"""DG201: every worker of a stream reads everything."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, Undecided, check

if TYPE_CHECKING:
    from dataguard.lab import Lab
    from dataguard.lab.streams import StreamTrace

_KEY = re.compile(r"(^|['\"._])(__key__|key|u?id|index|path|file_?(name)?|url)['\"\]]*$", re.IGNORECASE)


@check("DG201", "unsharded-workers", Severity.ERROR)
def dg201_unsharded_workers(lab: Lab) -> Judgement:
    """An IterableDataset yields each sample once for every worker.

    Symptom: epochs are as many times longer as there are workers, and each sample is seen that often.
    Cause: torch copies an IterableDataset into every worker; unless its `__iter__` asks `get_worker_info()`, all
        copies read everything.
    Fix: in `__iter__`, take every n-th sample or shard: `islice(source, info.id, None, info.num_workers)`.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset
    """
    if lab.facts.kind != "stream":
        raise NotApplicable("the dataset is map-style: its sampler deals the indices out")
    asked = lab.facts.num_workers
    workers = max(asked, 2)
    shared, alone = _recognisable(lab, workers)
    doubled = _doubled(shared, alone) if shared.ended and alone.ended else _overlap(shared, alone)
    if asked < 2:
        latent = (
            "; two workers would each read everything: shard by get_worker_info() before raising it" if doubled else ""
        )
        raise NotApplicable(f"num_workers={asked}: nothing is read twice{latent}")
    if doubled:
        yield Finding(
            message=f"{doubled} samples came out of more than one of {workers} workers",
            evidence={
                "samples by worker": {f"worker {number}": len(ids) for number, ids in enumerate(shared.by_worker)},
                "samples in one process": alone.total if alone.ended else f"{alone.total} and more",
                "samples came out": shared.total if shared.ended else f"{shared.total} and more",
            },
        )
    return Looked({"samples": shared.total + alone.total, "workers": len(shared.by_worker)})


def _recognisable(lab: Lab, workers: int) -> tuple[StreamTrace, StreamTrace]:
    """What several workers and what one process yield, with samples recognised by the first means that works.

    That is their whole content; else that under pinned generators, which stills augmentation; else a key or path.
    """
    for pin, leaf in ((False, None), (True, None), (False, _KEY)):
        shared, alone = lab.stream(workers, pin=pin), lab.stream(0, pin=pin)
        if leaf:
            shared, alone = shared.by_leaf(leaf), alone.by_leaf(leaf)
        yielded = {identity for ids in shared.by_worker for identity in ids}
        reference = {identity for ids in alone.by_worker for identity in ids}
        if len(reference) > 1 and len(yielded & reference) > 0.5 * min(len(yielded), len(reference)):
            return shared, alone
    raise Undecided("nothing tells which samples are the same: they are random, or all alike, and carry no key")


def _doubled(shared: StreamTrace, alone: StreamTrace) -> int:
    """How many samples came from several workers, given everything that they and one process yield.

    Either two workers yield all that one process does, however often that repeats itself; or samples that one process
    yields once come out more often. As many repeats as there are workers, less one, may pad the shards to one length.
    """
    reference = Counter(identity for ids in alone.by_worker for identity in ids)
    copies = [ids for ids in shared.by_worker if Counter(ids) == reference]
    if len(copies) > 1:
        return alone.total
    yielded = Counter(identity for ids in shared.by_worker for identity in ids)
    excess = sum((yielded - reference).values())
    distinct = max(reference.values()) == 1 and not yielded.keys() - reference.keys()
    return excess if distinct and excess >= len(shared.by_worker) else 0


def _overlap(shared: StreamTrace, alone: StreamTrace) -> int:
    """The same for streams not read to their end: how far two prefixes overlap, against one process with itself."""
    if len(shared.by_worker) < 2:
        return 0
    first, second = (set(ids) for ids in shared.by_worker[:2])
    one_process = [identity for ids in alone.by_worker for identity in ids]
    middle = len(one_process) // 2
    by_itself = len(set(one_process[:middle]) & set(one_process[middle:]))
    across = len(first & second)
    return across if across > max(4 * by_itself, 0.1 * min(len(first), len(second)), 1) else 0
