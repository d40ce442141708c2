"""DG303: a dataset that begins anew inside its own range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import unsteady
from dataguard.model import Finding, Judgement, Looked, Severity

if TYPE_CHECKING:
    from dataguard.lab.dataset.periodicity import Period
    from dataguard.lab.lab import Lab


@check("DG303", "wrapped-index", Severity.ERROR)
def dg303_wrapped_index(lab: Lab) -> Judgement:
    """Inside range(len(dataset)), content repeats with one period.

    Symptom: no error at all; an epoch holds some samples several times, and metrics count them as often. A split by
        index puts the same sample on both sides.
    Cause: `__len__` says more than there is, and `items[index % len(items)]` hides it: a length of another table, of
        all splits together, or one that was written down once.
    Fix: return the number of distinct samples from `__len__`. If samples are repeated on purpose, say so by a sampler,
        by `torch.utils.data.ConcatDataset([dataset] * 3)`, or to dataguard: `repeat = 3` in its `contract` settings.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.WeightedRandomSampler
    """
    spans = lab.dataset.spans
    note = None
    for period in spans.repeats:
        meant = _meant(period, lab.settings.contract.get("repeat", 1))
        if meant:
            note = (
                f"{period.where} repeats its {period.period} samples {period.length / period.period:g} times; {meant}"
            )
            continue
        if set(period.leaves) <= unsteady(lab):
            continue
        times = period.length / period.period
        yield Finding(
            message=f"{period.where}[i] and {period.where}[i + {period.period}] are the same: len is {period.length}, "
            f"but there are {period.period} samples",
            evidence={
                "period": period.period,
                "len(dataset)": period.length,
                "each sample comes": f"{times:.3g} times",
                "leaves": [f"sample{leaf}" for leaf in period.leaves],
                "pairs compared": period.pairs,
            },
            at=lab.dataset.place,
            repro=lab.repro.reads([0, period.period]) if period.where == "dataset" else None,
        )
    return Looked({"reads": spans.reads}, note)


def _meant(period: Period, repeat: int) -> str | None:
    """What tells that the repetition is meant, if anything."""
    if period.length <= repeat * period.period:
        return "the contract says so"
    if period.factor:
        return f"its {period.factor!r} says so"
    if period.listed:
        return "what it holds repeats by itself"
    if period.partner:
        return f"sample{period.partner} is drawn at random beside it, out of more"
    return f"its {period.virtual!r} says so, and each draws random numbers anew" if _drawn_anew(period) else None


def _drawn_anew(period: Period) -> bool:
    """Whether a number of draws is set, and each gives something else: patches, crops, episodes."""
    return period.random and period.virtual is not None
