"""DG404: an epoch without batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.incident import EmptyEpoch
from dataguard.core.model import Coverage, Finding, Judgement, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG404", "empty-epoch", Severity.ERROR)
def dg404_empty_epoch(lab: Lab) -> Judgement:
    """An epoch yields no batch.

    Symptom: training ends at once and leaves the model unchanged; a mean over no batches is NaN or raises.
    Cause: `drop_last` with fewer samples than one batch, per rank or per worker of a stream; an empty dataset; a
        sampler or stream that can be iterated only once, such as a generator or an open file.
    Fix: lower the batch size or the number of workers, or turn off `drop_last`; pass an object that starts over
        whenever it is iterated.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """
    exercised: dict[str, int] = {}
    empty = _empty(lab, exercised)
    if empty:
        facts = lab.facts
        yield Finding(
            message=empty,
            evidence=without_empty(
                {
                    "len(dataset)": "0" if facts.length == 0 else facts.length,
                    "len(loader)": facts.batches,
                    "batch_size": facts.batch_size,
                    "drop_last": "yes" if facts.drop_last else None,
                    "workers": facts.num_workers,
                    "sampler": facts.sampler if facts.kind == "map" else None,
                }
            ),
            at=lab.places.used_up if empty.startswith(SECOND) else None,
        )
    return Coverage(exercised)


SECOND = "the second epoch yields no batch"


def _empty(lab: Lab, exercised: dict[str, int]) -> str | None:
    """Which epoch yields no batch, as a message."""
    try:
        exercised |= lab.epoch.exercised
    except EmptyEpoch as empty:
        if empty.stops:
            raise
        return "the loader yields no batch"
    first, second = _first_batches(lab)
    if first and second == 0:
        return f"{SECOND}, after {first} in the first"
    if lab.ranks.declared:
        ranks = lab.ranks.shards().ranks
        exercised["ranks"] = len(ranks)
        if not any(share.batches for share in ranks):
            return f"none of {len(ranks)} ranks yields a batch"
    return None


def _first_batches(lab: Lab) -> tuple[int, int | None]:
    """The number of batches in each of two epochs; None if it was not seen."""
    if lab.facts.kind == "map":
        drawn = lab.streams.orders.batches
        return drawn[0], None if lab.facts.own_iter or len(drawn) < 2 else drawn[1]
    trace = lab.streams.stream(lab.facts.num_workers, seeded=False)
    return (trace.batches[0], trace.batches[1]) if trace.ended and len(trace.batches) > 1 else (0, None)
