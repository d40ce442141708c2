"""DG303: a dataset that repeats inside its own range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.drift import unsteady
from dataguard.core.model import Coverage, Finding, Judgement, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.dataset.index_semantics import Period
    from dataguard.lab.lab import Lab


@check("DG303", "wrapped-index", Severity.ERROR)
def dg303_wrapped_index(lab: Lab) -> Judgement:
    """Samples repeat periodically inside range(len(dataset)).

    Symptom: no error; an epoch contains some samples several times, and metrics count them as often. A split by index
        puts the same sample on both sides.
    Cause: `__len__` is larger than the number of samples, and `items[index % len(items)]` hides it: the length of
        another table, of all splits together, or a hard-coded one.
    Fix: return the number of distinct samples from `__len__`. To repeat samples on purpose, use a sampler or
        `torch.utils.data.ConcatDataset([dataset] * 3)`, or declare it: `repeat = 3` in `[tool.dataguard.contract]`.
    Links: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.WeightedRandomSampler
    """
    semantics = lab.dataset.semantics
    note = None
    for period in semantics.repeats:
        times = period.length / period.period
        intended = _intended(period, lab.settings.contract.get("repeat", 1))
        if intended:
            note = f"{period.where} repeats its {period.period} samples {times:g} times: {intended}"
            continue
        if set(period.leaves) <= unsteady(lab):
            continue
        yield Finding(
            message=f"{period.where}[i] and {period.where}[i + {period.period}] {_alike(period)}: "
            f"len is {period.length}, but there are only {period.period} distinct "
            f"{'inputs' if period.unequal else 'samples'}",
            evidence=without_empty(
                {
                    "fix here": f"return {period.period} from {period.where}.__len__, the number of samples",
                    "period": period.period,
                    "len(dataset)": period.length,
                    "each sample occurs": f"{times:.3g} times",
                    "leaves": [f"sample{leaf}" for leaf in period.leaves],
                    "leaves that differ": [f"sample{leaf}" for leaf in period.unequal],
                    "pairs compared": period.pairs,
                }
            ),
            at=lab.places.length(period.where) or lab.dataset.location,
            repro=lab.repro.samples(0, period.period) if period.where == "dataset" else None,
        )
    return Coverage({"reads": semantics.reads}, note)


def _alike(period: Period) -> str:
    if not period.unequal:
        return "are equal"
    return f"have the same sample{period.leaves[0]} but not the same sample{period.unequal[0]}"


def _intended(period: Period, repeat: int) -> str | None:
    """Evidence that the repetition is intended, if any."""
    if period.length <= repeat * period.period:
        return "the contract allows it"
    if period.factor:
        return f"its attribute {period.factor!r} holds this factor"
    if period.listed:
        return "the list that it holds repeats"
    if period.numbered:
        return f"sample{period.numbered} numbers the repetitions"
    if period.partner:
        return f"each is paired with a random sample{period.partner} from a larger set"
    if period.random and period.virtual is not None:  # random patches, crops, episodes
        return f"its attribute {period.virtual!r} sets the length, and every read is random"
    return None
