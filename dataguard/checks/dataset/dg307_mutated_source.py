"""DG307: reading a sample changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import Cause, drifts, item_of, mutations
from dataguard.model import Finding, Judgement, Location, Looked, Severity

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG307", "mutated-source", Severity.ERROR)
def dg307_mutated_source(lab: Lab) -> Judgement:
    """Reading a sample changes what the dataset holds of it, so that the next reader gets something else.

    Symptom: no error at all; the data fade, saturate or lose what augmentation erased, from epoch to epoch, while a
        first look at them shows nothing. Without workers, or with persistent ones, it goes on for the whole training.
    Cause: a transform works in place (`image /= 255`, `tensor.sub_()`, `boxes[:, 0] *= scale`, `inplace=True`) on an
        array that the dataset, a cache or a list holds; `torch.from_numpy` and slices share memory with what they were
        made of.
    Fix: copy what comes out of the store before changing it (`image = self.images[index].clone()`), or use operations
        that make a new array.
    Links: https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html
    """
    readings = lab.dataset.readings
    found = mutations(lab)
    for leaf, (drift, changes) in list(found.items())[:1]:
        index, change = item_of(readings, drift), changes[0]
        times = len(set(drift.series))
        yield Finding(
            message=f"sample{leaf} of index {index} takes {times} values in {len(drift.series)} reads with the same "
            f"random numbers: reading it changes {change.path}",
            evidence={
                "leaves": [f"sample{path}" for path in found],
                "changed by reading": [one.path for one in changes[:8]],
                "generators": "all that were found were held still",
            },
            at=Location(*change.at, change.path) if change.at else Location(what=change.path),
            repro=lab.repro.reads([index] * 3),
        )
    return Looked(readings.exercised, None if found else _latent(lab))


def _latent(lab: Lab) -> str | None:
    """What a pass should still tell: a sample that settles after its first read, or one that hangs on others."""
    moved = drifts(lab.dataset.readings, lab.epoch.samples)
    own = [leaf for leaf, drift in moved.items() if drift.cause is Cause.OWN]
    if own:
        return f"sample{own[0]} is another one at a later read, yet nothing that the dataset holds was seen to change"
    others = [leaf for leaf, drift in moved.items() if drift.cause is Cause.OTHERS]
    return f"sample{others[0]} depends on {Cause.OTHERS.value}" if others else None
