"""DG201: every worker of a stream reads everything."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.streams.duplicates import find_doubles, first_double, made_up
from dataguard.model import Finding, Judgement, Looked, NotApplicable, Severity, known

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


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
    asked = 0 if lab.facts.bare else lab.facts.num_workers
    workers = max(asked, 2)
    shared, doubled = find_doubles(partial(lab.streams.shares, workers), partial(lab.streams.shares, 0))
    if asked < 2:
        latent = (
            "; two workers would each read everything: shard by get_worker_info() before raising it" if doubled else ""
        )
        given = "a dataset alone was given" if lab.facts.bare else f"num_workers={asked}"
        raise NotApplicable(f"{given}: nothing is read twice{latent}")
    alone = lab.streams.shares(0, pin=False)
    if doubled and not lab.settings.key and made_up(lab, shared, alone):
        raise NotApplicable("workers make up the same samples from the same random numbers: see DG101")
    if doubled:
        yield Finding(
            message=f"{doubled} samples came out of more than one of {workers} workers",
            evidence=known(
                {
                    "samples by worker": shared.table,
                    "samples in one process": alone.total if alone.ended else f"{alone.total} and more",
                    "samples came out": shared.total if shared.ended else f"{shared.total} and more",
                    "first read twice": first_double(shared, alone),
                }
            ),
        )
    return Looked({"samples": shared.total + alone.total, "workers": len(shared.by_worker)})
