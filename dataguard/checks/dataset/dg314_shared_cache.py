"""DG314: a sample of another dataset or folder is returned, from a cache whose key is not unique."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.dataset.shared_names import SharedNames
    from dataguard.lab.lab import Lab


@check("DG314", "shared-cache", Severity.ERROR, since="2026.4")
def dg314_shared_cache(lab: Lab) -> Judgement:
    """A sample is that of another dataset or folder: a cache is keyed by an index or file name that both have.

    Symptom: validation is as good as training, because it evaluates training samples; or it is bad from the second
        epoch on. Or classes are confused that are stored in folders with equal names of files.
    Cause: a cache is an attribute of the class, a variable of the module or `functools.lru_cache` of a function that
        takes the index alone, so that index 7 of both datasets is one entry. Loaders without workers read in one
        process, and workers that are forked later inherit what is cached there. Or a cache, in memory or on disk, knows
        files by their name without the folder, and `cat/001.jpg` and `dog/001.jpg` are one entry.
    Fix: make the cache in `__init__` (`self.cache = {}`), or use a key that names the sample, such as its path.
    Links: https://docs.python.org/3/tutorial/classes.html#class-and-instance-variables
    """
    lab.need_map("a stream has no indices")
    names = observed_or_none(lambda: lab.dataset.shared_names)
    if names and names.leaf:
        yield _by_name(lab, names)
    samples = 2 * len(names.pairs) if names else 0
    if samples and lab.facts.role not in EVALUATION:
        return Coverage({"samples": samples})
    lab.facts.need_role(*EVALUATION, otherwise="a loader for evaluation is read after one for training")
    earlier = [one for one in lab.splits.earlier if one.facts.kind == "map" and one.target is lab.target]
    in_process = [one for one in earlier if not one.facts.num_workers]
    if not earlier:
        raise NotApplicable("no other loader to compare with")
    if lab.facts.spawns or not in_process:
        raise NotApplicable("each loader has separate worker processes")
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


def _by_name(lab: Lab, names: SharedNames) -> Finding:
    (one, other), (first, second) = names.pairs[0], (Path(file) for file in names.files)
    return Finding(
        message=f"sample{names.leaf} of index {other} is that of index {one}, and its own file is not read: "
        f"{second.parent.name}/{second.name} has the same name as {first.parent.name}/{first.name}",
        evidence={
            "fix here": "use the whole path as the key of the cache, or as the name of the cached file",
            "pairs of indices": [list(pair) for pair in names.pairs],
        },
        at=lab.places.kept(other, names.pairs[1][0]) or lab.places.value(other, names.leaf) or lab.dataset.location,
        repro=lab.repro.samples(one, other),
        sample=other,
    )
