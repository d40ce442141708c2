"""DG201: every worker of a stream reads everything."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.rewrites import rewritten, shared_among_workers
from dataguard.checks.streams.duplicates import are_generated, find_duplicates
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG201", "unsharded-workers", Severity.ERROR)
def dg201_unsharded_workers(lab: Lab) -> Judgement:
    """An IterableDataset yields each sample once per worker.

    Symptom: an epoch is `num_workers` times as long, and each sample is seen `num_workers` times.
    Cause: torch copies an IterableDataset into every worker; unless its `__iter__` uses `get_worker_info()`, all copies
        read everything.
    Fix: in `__iter__`, take every n-th sample or shard: `islice(source, info.id, None, info.num_workers)`.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset
    """
    if lab.facts.kind != "stream":
        raise NotApplicable("the dataset is map-style: its sampler distributes the indices")
    asked = 0 if lab.facts.bare else lab.facts.num_workers
    workers = max(asked, 2)
    find = partial(find_duplicates, partial(lab.streams.shares, workers), partial(lab.streams.shares, 0))
    if asked < 2:
        trial = observed_or_none(find)
        latent = "; two workers would each read everything: shard with get_worker_info() first"
        latent = latent if trial and trial.samples else ""
        given = "the target is a dataset, not a loader" if lab.facts.bare else f"num_workers={asked}"
        raise NotApplicable(f"{given}: nothing is read twice{latent}")
    found = find()
    shared, single, doubled = found.shared, lab.streams.shares(0, seeded=False), found.samples
    if doubled and not (lab.settings.key or found.read) and are_generated(lab, shared, single):
        raise NotApplicable("workers generate the same samples from the same random numbers: see DG101")
    if doubled:
        at = lab.places.selection() or lab.dataset.location
        yield Finding(
            message=f"{counted(doubled, 'samples are')} yielded by more than one of {workers} workers",
            evidence=without_empty(
                {
                    "fix here": rewritten(lab, at, shared_among_workers) or _FIX,
                    "samples per worker": shared.table,
                    "samples in one process": single.total if single.ended else f"at least {single.total}",
                    "samples yielded": shared.total if shared.ended else f"at least {shared.total}",
                    "first duplicate": found.first,
                }
            ),
            at=at,
        )
    return Coverage({"samples": shared.total + single.total, "workers": len(shared.by_worker)})


_FIX = "take every n-th item in each of n workers, by the id and num_workers of get_worker_info()"
