"""DG605: workers whose library threads compete for the same cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

MEASURED_FROM = 2
"""Threads per core from which on workers are measured: what decides is the measurement, which takes time."""
CLEAR_FACTOR, ROUNDS = 1.5, 3
"""How many times as fast one thread each must be, in each of how many rounds."""


@check("DG605", "oversubscribed-threads", Severity.WARNING)
def dg605_oversubscribed_threads(lab: Lab) -> Judgement:
    """Every worker starts threads for all cores, and together they are slower than one thread each.

    Symptom: more workers make loading slower; all cores are busy, much of the time in the kernel or spinning.
    Cause: OpenCV, OpenMP and BLAS start one thread per core in every worker. torch limits its own threads to one per
        worker, but neither those of other libraries nor a later `torch.set_num_threads`.
    Fix: in `worker_init_fn`, call `cv2.setNumThreads(0)` and `threadpoolctl.threadpool_limits(1)`; or set
        `OMP_NUM_THREADS=1` and `OPENBLAS_NUM_THREADS=1` before Python starts; no `torch.set_num_threads` in workers.
    Links: https://docs.opencv.org/4.x/db/de0/group__core__utils.html
        https://github.com/joblib/threadpoolctl
    """
    facts, cores = lab.facts, lab.machine.usable_cores
    if facts.num_workers < 2:
        raise NotApplicable(f"num_workers={facts.num_workers}: no other worker competes for the cores")
    epoch = lab.epoch
    threads = max((batch.threads for batch in epoch.batches), default=1)
    if threads < 2 or facts.num_workers * threads < MEASURED_FROM * cores:
        return Coverage(epoch.exercised)
    contention = lab.resources.thread_contention
    ratios = contention.ratios
    exercised = {"workers": contention.workers, "rounds": len(ratios)}
    if len(ratios) < ROUNDS or min(ratios) < CLEAR_FACTOR:
        return Coverage(exercised, f"{facts.num_workers} workers with {threads} threads each are no slower for it")
    yield Finding(
        message=f"{contention.workers} workers load {min(ratios):.1f} times as fast with one thread each "
        f"as with {threads} each",
        evidence=without_empty(
            {
                "cores": cores,
                "as configured": _shown(contention.as_is),
                "one thread each": _shown(contention.alone),
                "threads": list(contention.pools),
            }
        ),
    )
    return Coverage(exercised)


def _shown(rates: tuple[float, ...]) -> str:
    return f"{', '.join(f'{rate:,.3g}' for rate in rates)} samples/s"
