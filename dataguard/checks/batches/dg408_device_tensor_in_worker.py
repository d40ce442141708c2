"""DG408: device tensors created in a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, NotTested, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG408", "device-tensor-in-worker", Severity.ERROR)
def dg408_device_tensor_in_worker(lab: Lab) -> Judgement:
    """Workers create tensors that are not on the CPU.

    Symptom: "Cannot re-initialize CUDA in forked subprocess"; device memory that fills up with one context per worker;
        tensors without data if the device is `meta`.
    Cause: the dataset or collate_fn moves tensors to the device, or workers inherit a default device.
    Fix: keep tensors on the CPU in workers; pin them, and move whole batches in the training loop.
    Links: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
    """
    if not lab.facts.num_workers:
        raise NotApplicable("num_workers=0: samples are created in the main process")
    epoch = lab.epoch
    samples = ((f"sample{leaf.path}", leaf.device, sample.worker) for sample in epoch.samples for leaf in sample.leaves)
    batches = ((f"batch{leaf.path}", leaf.device, batch.worker) for batch in epoch.batches for leaf in batch.leaves)
    on_device = {
        path: (device, worker) for path, device, worker in (*samples, *batches) if device and worker is not None
    }
    if on_device:
        path, (device, worker) = next(iter(on_device.items()))
        yield Finding(
            message=f"{path} is on {device} in worker {worker}",
            evidence={"leaves": list(on_device)[:16], "start method": lab.facts.start_method},
            at=lab.dataset.location if path.startswith("sample") else None,
        )
    elif lab.facts.accelerator is None:
        raise NotTested("no accelerator")
    return Coverage(epoch.exercised)
