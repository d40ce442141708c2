"""DG803: another number of workers is faster."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.measured import LoaderTimes

_WORTH_FACTOR = 1.1
"""A setting must be at least this many times as fast to be reported. Chosen: twice the margin of timing
comparisons."""


@check("DG803", "slow-worker-count", Severity.NOTE)
def dg803_slow_worker_count(lab: Lab) -> Judgement:
    """The training step waits for batches, and another number of workers is measurably faster on this machine.

    Symptom: the accelerator waits while cores are idle, or while too many workers compete for them.
    Cause: num_workers was chosen for another machine, or never.
    Fix: use the number of workers that the finding names; `dataguard bench` tries more of them.
    Links: https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading
    """
    waits = lab.throughput.waits
    if waits.starved is None:
        raise Undecided(f"cannot tell whether the step waits for batches: waiting varies from {waits.spread}")
    if not waits.starved:
        return Coverage({"batches": waits.batches})
    times = lab.throughput.sweep
    ranking = times.ranking(times.workers)
    configured = str(times.own)
    if configured not in ranking.order or len(ranking.order) < 2:
        raise Undecided("no other number of workers could be measured: try `dataguard bench`")
    coverage = Coverage(
        {"settings": len(ranking.order), "rounds": max(len(timed.per_batch) for timed in times.workers)}
    )
    best = ranking.order[0]
    if best == configured:
        if ranking.tied:
            raise Undecided(_cannot_tell(configured, *ranking.tied))
        return coverage
    ratio = times.ratio(times.workers, configured, best)
    if ratio is None or not ratio.slower:
        raise Undecided(_cannot_tell(configured, best))
    if ratio.least >= _WORTH_FACTOR:
        yield Finding(
            message=f"{best} would be {ratio.measured:.2f} times as fast as {configured} "
            f"(99.8% confidence interval: {ratio.least:.2f} to {ratio.most:.2f})",
            evidence={"seconds per batch": _measured(times), "waiting": f"{waits.share:.0%} of the time"},
        )
    return coverage


def _cannot_tell(*settings: str) -> str:
    return f"cannot tell which is faster, {' or '.join(settings)}: try `dataguard bench`"


def _measured(times: LoaderTimes) -> dict[str, str]:
    return {
        str(timed.setting): f"{statistics.median(timed.per_batch):.3g} "
        f"({min(timed.per_batch):.3g} to {max(timed.per_batch):.3g} in {len(timed.per_batch)} rounds)"
        for timed in times.workers
        if timed.per_batch
    }
