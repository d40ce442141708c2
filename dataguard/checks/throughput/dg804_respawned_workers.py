"""DG804: workers that are restarted for every epoch, which takes long."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.reading.epoch_trace import EpochTrace

_START_SHARE = 0.3
"""The share of an epoch that starting workers must take to be reported. Chosen, not derived."""
_LEAST_SAVED, _SHORTEST_REST = 0.5, 1.0
"""The fewest seconds to save, and of an epoch beyond its start: a shorter one is a test run."""


@check("DG804", "respawned-workers", Severity.NOTE)
def dg804_respawned_workers(lab: Lab) -> Judgement:
    """Starting workers takes a large part of every epoch, and persistent workers would save it.

    Symptom: training pauses at the start of each epoch.
    Cause: workers are restarted for every epoch: under spawn they import everything again, and `worker_init_fn` and
        the dataset load their data again.
    Fix: `persistent_workers=True`. State that the main process changes between epochs does not reach such workers:
        DG107 checks for that.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
    """
    facts = lab.facts
    if not facts.num_workers:
        raise NotApplicable("num_workers=0: no workers are started")
    if facts.persistent:
        raise NotApplicable("persistent_workers=True: workers are started once")
    epoch = lab.epoch
    if epoch.epoch_run is None:
        raise Undecided("the budget ran out during the first epoch: raise --budget")
    coverage = Coverage(epoch.exercised)
    start = epoch.epoch_run.start_seconds - _making(epoch)
    if start < _LEAST_SAVED:
        return coverage
    rest = _rest(lab, epoch)
    if rest is None:
        raise Undecided("starting an epoch is slow, but the length of the epoch is unknown")
    if rest < _SHORTEST_REST or start < _START_SHARE * (start + rest):
        return coverage
    lab.afford("starts", 5 * epoch.epoch_run.start_seconds)
    starts = lab.throughput.starts
    saved = min(starts.own) - max(starts.persistent)
    if saved < _LEAST_SAVED or saved < _START_SHARE * (saved + rest):
        return coverage
    usual, later = statistics.median(starts.own), statistics.median(starts.persistent)
    yield Finding(
        message=f"starting workers takes {usual - later:.2g} s per epoch, and the other batches take {rest:.2g} s",
        evidence={
            "time to first batch": f"{min(starts.own):.3g} to {max(starts.own):.3g} s in {len(starts.own)} epochs",
            "with persistent workers": f"{min(starts.persistent):.2g} to {max(starts.persistent):.2g} s",
            "workers": facts.num_workers,
            "start method": facts.start_method,
        },
    )
    return coverage


def _making(epoch: EpochTrace) -> float:
    """The seconds that a worker takes to make a batch, which its start does not include; 0 if there is only a first.

    The first batch of each worker is left out: it may include opening a connection, as each start does again.
    """
    firsts = {batch.worker: batch.batch for batch in sorted(epoch.batches, key=lambda batch: -batch.batch)}
    later = [batch for batch in epoch.batches if batch.batch > firsts[batch.worker]]
    return statistics.fmean(batch.fetch_seconds + batch.collate_seconds for batch in later) if later else 0.0


def _rest(lab: Lab, epoch: EpochTrace) -> float | None:
    """An upper estimate of the seconds that an epoch takes beyond its first batch."""
    epoch_run = epoch.epoch_run
    assert epoch_run is not None
    batches = epoch_run.batches if epoch.whole else lab.facts.batches
    if batches is None or not epoch.batches:
        return None
    made = _making(epoch) or statistics.fmean(batch.fetch_seconds + batch.collate_seconds for batch in epoch.batches)
    pace = max(
        made / min(lab.facts.num_workers, lab.machine.cores),
        (epoch_run.seconds - epoch_run.start_seconds) / max(epoch_run.batches - 1, 1),
        float(lab.settings.contract.get("step_ms", 0)) / 1e3,
    )
    return max(batches - 1, 0) * pace
