"""DG521: a scaler that has seen the evaluation data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.splits.scaled_columns import scaled_together
from dataguard.model import Coverage, Finding, Judgement, NotApplicable, Severity
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataguard.lab.lab import Lab
    from dataguard.lab.splits.tables import Table


@check("DG521", "fitted-on-evaluation", Severity.WARNING, since="2026.3")
def dg521_fitted_on_evaluation(lab: Lab) -> Judgement:
    """Columns are scaled by statistics of training and evaluation data together.

    Symptom: evaluation looks a little better than production: the model has seen statistics of what it is tested on.
    Cause: a scaler is fitted before the split (`StandardScaler().fit_transform(table)`, then `train_test_split`).
    Fix: split first, fit the scaler on the training rows alone, and apply it to the others.
    Links: https://scikit-learn.org/stable/common_pitfalls.html#data-leakage
    """
    lab.need_map("a stream has no table")
    lab.facts.need_role(*EVALUATION, otherwise="scalers are to be fitted on the training data")
    earlier = [one for one in lab.splits.earlier if one.facts.kind == "map"]
    training = next((one for one in earlier if one.facts.role == "train"), None)
    if training is None:
        raise NotApplicable("no loader for training to compare with")
    own = {table.name: table for table in lab.splits.tables}
    others = [{table.name: table for table in lab.splits.tables_of(one)} for one in earlier]
    fitted = others[earlier.index(training)]
    names = [name for name in own if name in fitted and _fits(own[name], fitted[name])]
    if not names:
        raise NotApplicable("samples of both splits are not known to be rows or windows of one table of floats")
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
                    "columns": columns[:8],
                    f"column {columns[0]} of {training.facts.name}": f"mean {column.mean:.4f}, deviation "
                    f"{math.sqrt(column.variance):.4f}, range {column.low:.4g} to {column.high:.4g}",
                },
                at=lab.dataset.location,
                repro=lab.repro.scan("DG521", ""),
            )
            break
    return Coverage({"columns": sum(len(own[name].columns) for name in names), "loaders": 1 + len(earlier)})


def _together(splits: Sequence[Table]) -> tuple[list[int], str] | None:
    """See `scaled_together`; splits of a series may begin with the last window of the split before."""
    first, *others = splits
    found = scaled_together(first.columns, [one.columns for one in splits])
    if found or not all(one.later for one in others):
        return found
    return scaled_together(first.columns, [first.columns, *(one.later for one in others)])


def _fits(one: Table, other: Table) -> bool:
    return len(one.columns) == len(other.columns) > 0
