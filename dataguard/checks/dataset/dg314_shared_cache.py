"""DG314: a loader yields samples of another one, from a cache that both datasets share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG314", "shared-cache", Severity.ERROR, since="2026.4")
def dg314_shared_cache(lab: Lab) -> Judgement:
    """After another loader was read, this one yields its samples: a cache that both datasets share is keyed by index.

    Symptom: validation is as good as training, because it evaluates training samples; or it is bad from the second
        epoch on.
    Cause: a cache is an attribute of the class, a variable of the module or `functools.lru_cache` of a function that
        takes the index alone, so that index 7 of both datasets is one entry. Loaders without workers read in one
        process, and workers that are forked later inherit what is cached there.
    Fix: make the cache in `__init__` (`self.cache = {}`), or use a key that names the sample, such as its path.
    Links: https://docs.python.org/3/tutorial/classes.html#class-and-instance-variables
    """
    lab.need_map("a stream has no indices")
    lab.facts.need_role(*EVALUATION, otherwise="a loader for evaluation is read after one for training")
    earlier = [one for one in lab.splits.earlier if one.facts.kind == "map" and one.target is lab.target]
    in_process = [one for one in earlier if not one.facts.num_workers]
    if not earlier:
        raise NotApplicable("no other loader to compare with")
    if lab.facts.spawns or not in_process:
        raise NotApplicable("each loader has separate worker processes")
    samples = 0
    for other in in_process:
        crossed = lab.dataset.crossed_with(other)
        samples += len(crossed.indices)
        if crossed.served:
            index, name = crossed.served[0], other.facts.name
            yield Finding(
                message=f"after {name} was read, sample{crossed.leaf} of index {index} is that of {name}",
                evidence=without_empty(
                    {
                        "fix here": "make the cache in __init__, for each dataset, or use a key that names the sample",
                        "indices": list(crossed.served),
                        "grows when the other is read": [cache.what for cache in crossed.caches],
                    }
                ),
                at=next(iter(crossed.caches), None) or lab.dataset.location,
                sample=index,
            )
    return Coverage({"samples": samples, "loaders": 1 + len(in_process)})
