"""DG521: a scaler that has seen the evaluation data.

Training samples change if rows that only evaluation uses are changed before the factory runs. Where that cannot be
tried, such columns have mean 0 and deviation 1, or a range of 0 to 1, over several splits together and not over the
training split alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, Location, NotApplicable, Severity
from dataguard.machine.units import counted
from dataguard.settings.parsers import EVALUATION
from dataguard.stats.coincidence import CERTAIN

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.rows.origins import Refit
    from dataguard.lab.splits.tables import Column, Table
    from dataguard.lab.subject import Subject

EXACT = 1e-5
"""How far a mean, a deviation or an end of the range is from that of a fitted scaler at most: what float32 rounds."""
CLEAR = 1e-3
"""How far it is at least where the scaler was fitted on other rows too."""


@check("DG521", "fitted-on-evaluation", Severity.WARNING, since="2026.3")
def dg521_fitted_on_evaluation(lab: Lab) -> Judgement:
    """Columns are scaled, coded, or their gaps filled, by statistics of training and evaluation data together.

    Symptom: evaluation looks a little better than production: the model has seen statistics of what it is tested on.
    Cause: a scaler is fitted before the split (`StandardScaler().fit_transform(table)`, then `train_test_split`), or
        gaps are filled before it (`table.fillna(table.median())`), or categories are replaced by the mean of the target
        in all rows (`table.groupby("city")["target"].transform("mean")`).
    Fix: split first, fit scaler and imputer on the training rows alone, and apply them to the others.
    Links: https://scikit-learn.org/stable/common_pitfalls.html#data-leakage
    """
    lab.need_map("a stream has no table")
    lab.facts.need_role(*EVALUATION, otherwise="scalers are to be fitted on the training data")
    earlier = [one for one in lab.splits.earlier if one.facts.kind == "map"]
    training = next((one for one in earlier if one.facts.role == "train"), None)
    if training is None:
        raise NotApplicable("no loader for training to compare with")
    refit = observed_or_none(lambda: lab.provenance.refitted(training)) if lab.dataset.may_load else None
    if refit is not None and refit.of:
        if refit.changed:
            yield _refitted(lab, training, refit)
        return Coverage({"rows changed": refit.rows, "training samples": refit.of})
    own = {table.name: table for table in lab.splits.tables}
    others = [{table.name: table for table in lab.splits.tables_of(one)} for one in earlier]
    fitted = others[earlier.index(training)]
    names = [name for name in own if name in fitted and _fits(own[name], fitted[name])]
    if not names:
        why = f", and {refit.reason}" if refit is not None and refit.reason else ""
        raise NotApplicable(f"samples of both splits are not known to be rows or windows of one table of floats{why}")
    for name in names:
        apart = [each[name] for each in others if name in each and _fits(own[name], each[name])]
        for before in (apart[:1], apart):
            found = _together([*before, own[name]])
            if found:
                break
        if found:
            columns, words = found
            column, splits = fitted[name].columns[columns[0]], [one.facts.name for one in earlier[: len(before)]]
            yield Finding(
                message=f"{len(columns)} columns of {name} have {words} over {' and '.join([*splits, lab.facts.name])} "
                f"together, but not over {training.facts.name} alone",
                evidence={
                    "fix here": f"fit on the rows of {training.facts.name} alone, after the split",
                    "columns": columns[:8],
                    f"column {columns[0]} of {training.facts.name}": f"mean {column.mean:.4f}, deviation "
                    f"{math.sqrt(column.variance):.4f}, range {column.low:.4g} to {column.high:.4g}",
                },
                at=_place(lab, training),
                repro=lab.repro.scan("DG521", ""),
            )
            break
    return Coverage({"columns": sum(len(own[name].columns) for name in names), "loaders": 1 + len(earlier)})


def _refitted(lab: Lab, training: Subject, refit: Refit) -> Finding:
    one, two, name = training.facts.name, lab.facts.name, Path(refit.source).name
    what = (
        f"{counted(refit.files, 'files')} such as {name}" if refit.files else f"{counted(refit.rows, 'rows')} of {name}"
    )
    return Finding(
        message=f"{refit.changed} of {refit.of} samples of {one} change if {what} change, which only {two} uses",
        evidence={
            "fix here": f"fit on the rows of {one} alone, after the split",
            "source": refit.source,
            "changed": "before the factory runs",
            "leaves": [f"sample{path}" for path in refit.leaves],
            "how they change": refit.how,
        },
        at=_place(lab, training),
        repro=lab.repro.scan("DG521", ""),
    )


def scaled_together(fitted: Sequence[Column], splits: Sequence[Sequence[Column]]) -> tuple[list[int], str] | None:
    """The columns that are standardized, or have a range of 0 to 1, over all splits and clearly not in the `fitted`.

    None if others are not scaled so, or coincidence is not excluded.
    """
    both = [(number, column, each) for number, (column, *each) in enumerate(zip(fitted, *splits, strict=True))]
    varied = [(number, column, each) for number, column, each in both if any(one.low < one.high for one in each)]
    for odds, words in ((_standardized, "mean 0 and deviation 1"), (_in_range, "a range of 0 to 1")):
        known = [(number, odds(column, each)) for number, column, each in varied]
        exact = [(number, value) for number, value in known if value is not None]
        clear = [number for number, value in exact if value]
        if 2 * len(exact) > len(varied) and sum(value for _, value in exact) < CERTAIN:
            return clear, words
    return None


def _standardized(own: Column, splits: Sequence[Column]) -> float | None:
    """log10 of the odds that a column is standardized over all splits by chance; None if it is not."""
    count = sum(one.count for one in splits)
    mean = sum(one.count * one.mean for one in splits) / count
    squares = sum(one.count * (one.variance + (one.mean - mean) ** 2) for one in splits)
    deviations = [math.sqrt(squares / (count - less)) for less in (0, 1)]
    if abs(mean) > EXACT or min(abs(one - 1) for one in deviations) > EXACT:
        return None
    return _odds(abs(own.mean)) + _odds(abs(math.sqrt(own.variance) - 1))


def _in_range(own: Column, splits: Sequence[Column]) -> float | None:
    """The same of a range from 0 to 1, each end of which is one value: bytes and fractions reach them often."""
    low, high = min(one.low for one in splits), max(one.high for one in splits)
    ends = (
        sum(one.lows for one in splits if one.low == low),
        sum(one.highs for one in splits if one.high == high),
    )
    if abs(low) > EXACT or abs(high - 1) > EXACT or ends != (1, 1):
        return None
    return _odds(own.low) + _odds(1 - own.high)


def _odds(distance: float) -> float:
    """log10 of the odds that what is so far off in a part is exact in the whole; 0 if it is exact there as well."""
    return math.log10(EXACT / distance) if distance > CLEAR else 0.0


def _together(splits: Sequence[Table]) -> tuple[list[int], str] | None:
    """See `scaled_together`; splits of a series may begin with the last window of the split before."""
    first, *others = splits
    found = scaled_together(first.columns, [one.columns for one in splits])
    if found or not all(one.later for one in others):
        return found
    return scaled_together(first.columns, [first.columns, *(one.later for one in others)])


def _fits(one: Table, other: Table) -> bool:
    return len(one.columns) == len(other.columns) > 0


def _place(lab: Lab, training: Subject) -> Location | None:
    """Where training rows are scaled, or else where the dataset that scales them is given what it is fitted on."""
    return lab.places.fitted(training) or lab.places.dataset or lab.dataset.location
