"""DG307: reading a sample modifies the stored data."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import Cause, drifts, item_of, mutations
from dataguard.checks.common.rewrites import copied_before, out_of_place, rewritten
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, Location, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


ROUNDING = 1e-6
"""Changes relative to the largest value, over several reads, that arithmetic in float32 explains: its steps are
1.2e-7."""


@check("DG307", "mutated-source", Severity.ERROR)
def dg307_mutated_source(lab: Lab) -> Judgement:
    """Reading a sample modifies the data that the dataset stores, so the next read returns something else.

    Symptom: no error; images fade, saturate or keep erased patches from epoch to epoch, while the first read looks
        right. Without workers, or with persistent ones, the changes accumulate over the whole training. A warning if
        values move by rounding only, or workers are new in each epoch and forget what they changed.
    Cause: a transform works in place (`image /= 255`, `tensor.sub_()`, `boxes[:, 0] *= scale`, `inplace=True`) on an
        array that the dataset, a cache or a list holds; `torch.from_numpy` and slices share memory with their source.
    Fix: copy before modifying (`image = self.images[index].clone()`), or use out-of-place operations.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html
    """
    readings = lab.dataset.readings
    mutated = mutations(lab)
    if mutated:
        leaf, (drift, changes) = next(iter(mutated.items()))
        index, change = item_of(readings, drift), changes[0]
        values = len(set(drift.series))
        moved = observed_or_none(partial(lab.dataset.rounding, index, leaf)) or math.inf
        rounds = f", by at most {moved:.0e} of its largest value" if moved <= ROUNDING else ""
        forgets = "" if any(each.shared for each in changes) else _forgets(lab)
        at = Location(*change.at, change.path) if change.at else Location(what=change.path)
        yield Finding(
            message=f"sample{leaf} of index {index} has {values} different values in {len(drift.series)} reads with "
            f"the same random state: reading it modifies {change.path}{rounds}{forgets}",
            evidence={
                "fix here": rewritten(lab, at, out_of_place, copied_before) or "change a copy of what is stored",
                "leaves": [f"sample{path}" for path in mutated],
                "changed by reading": [each.path for each in changes[:8]],
                "frozen RNGs": "all that were found",
            },
            at=at,
            repro=lab.repro.samples(index, index, index),
            sample=index,
            ambiguous=bool(rounds or forgets),
        )
    return Coverage(readings.exercised, None if mutated else _latent(lab))


def _forgets(lab: Lab) -> str:
    """That changes do not outlive an epoch: its workers are new, and none of them reads a sample twice."""
    if not lab.facts.num_workers or lab.facts.persistent or lab.facts.kind == "stream":
        return ""
    reads = Counter((sample.worker, sample.index) for sample in lab.epoch.samples)
    again = max(reads.values(), default=0) > 1
    return "" if again else ", which workers forget at the end of an epoch: persistent ones, and num_workers=0, do not"


def _latent(lab: Lab) -> str | None:
    """A note behind a pass: a sample that settles after its first read, or one that depends on other reads."""
    moved = drifts(lab.dataset.readings, lab.epoch.samples)
    by_own_reads = [leaf for leaf, drift in moved.items() if drift.cause is Cause.OWN]
    if by_own_reads:
        return f"sample{by_own_reads[0]} changes in a later read, but no stored data were seen to change"
    others = [leaf for leaf, drift in moved.items() if drift.cause is Cause.OTHERS]
    return f"sample{others[0]} depends on {Cause.OTHERS.value}" if others else None
