"""DG801: a training step that waits for its batches."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, Severity, Undecided, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.reading.epoch_trace import EpochTrace


@check("DG801", "starved-step", Severity.WARNING)
def dg801_starved_step(lab: Lab) -> Judgement:
    """The declared training step waits for batches: the loader is too slow for it.

    Symptom: the accelerator is idle for part of every step, and a faster one helps little.
    Cause: all workers together cannot make a batch in the time of a step.
    Fix: the evidence shows what a batch costs; `dataguard bench` shows which part takes the time, and which number of
        workers is faster here. Decode smaller images, move work to the accelerator, or store preprocessed samples.
    Links: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """
    waits = lab.throughput.waits
    coverage = Coverage({"batches": waits.batches, "intervals": len(waits.shares)})
    if waits.starved is None:
        raise Undecided(f"cannot tell whether the step waits for batches: waiting varies from {waits.spread}")
    if not waits.starved:
        return coverage
    yield Finding(
        message=f"a training step of {_ms(waits.step)} spends {waits.share:.0%} of the time waiting for its batch",
        evidence=without_empty(
            {
                "spread": waits.spread,
                "batch and step": _ms(waits.each),
                "in a worker": _parts(lab.epoch) or None,
                "workers": lab.facts.num_workers,
                "cores": lab.machine.cores,
            }
        ),
    )
    return coverage


def _parts(epoch: EpochTrace) -> str:
    """Where a worker spends the time of a batch."""
    if not epoch.batches:
        return ""
    fetch = statistics.median(batch.fetch_seconds for batch in epoch.batches)
    collate = statistics.median(batch.collate_seconds for batch in epoch.batches)
    return f"{_ms(fetch)} to fetch a batch, {_ms(collate)} to collate it"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
