"""DG605: threads of libraries that workers start each on their own, and that get in each other's way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

FAR = 2
"""How many threads for each core are far over what it can do."""
CLEAR, ROUNDS = 1.5, 3
"""How many times faster one thread each is in every one of so many rounds."""


@check("DG605", "oversubscribed-threads", Severity.WARNING)
def dg605_oversubscribed_threads(lab: Lab) -> Judgement:
    """Every worker starts threads for all cores, and all of them together are slower than one thread each.

    Symptom: more workers make loading slower; all cores are busy, much of it in the kernel or spinning.
    Cause: OpenCV, OpenMP and BLAS start a thread for each core in every worker. torch limits its own to one in a
        worker, and knows nothing of the others, nor of a `torch.set_num_threads` that comes later.
    Fix: in `worker_init_fn`, `cv2.setNumThreads(0)` and `threadpoolctl.threadpool_limits(1)`; or
        `OMP_NUM_THREADS=1` and `OPENBLAS_NUM_THREADS=1` before Python starts; no `torch.set_num_threads` in workers.
    Links: https://docs.opencv.org/4.x/db/de0/group__core__utils.html
        https://github.com/joblib/threadpoolctl
    """
    facts, cores = lab.facts, lab.machine.usable_cores
    if facts.num_workers < 2:
        raise NotApplicable(f"num_workers={facts.num_workers}: nobody competes with its threads")
    epoch = lab.epoch
    threads = max((batch.threads for batch in epoch.batches), default=1)
    if threads < 2 or facts.num_workers * threads < FAR * cores:
        return Looked(epoch.exercised)
    crowding = lab.resources.crowding
    ratios = crowding.ratios
    exercised = {"workers": crowding.workers, "rounds": len(ratios)}
    if len(ratios) < ROUNDS or min(ratios) < CLEAR:
        return Looked(exercised, f"{facts.num_workers} workers have {threads} threads each, and lose nothing by that")
    yield Finding(
        message=f"one thread for each of {crowding.workers} workers is {min(ratios):.1f} times as fast as {threads}",
        evidence=known(
            {
                "cores": cores,
                "as it is": _shown(crowding.as_is),
                "one thread each": _shown(crowding.alone),
                "threads": list(crowding.pools),
            }
        ),
    )
    return Looked(exercised)


def _shown(rates: tuple[float, ...]) -> str:
    return f"{', '.join(f'{rate:,.3g}' for rate in rates)} samples/s"
