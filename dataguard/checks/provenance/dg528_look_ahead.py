"""DG528: inputs that depend on what is to be predicted."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.labels import samples_of
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, NotTested, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.core.records import Index
    from dataguard.lab.lab import Lab
    from dataguard.lab.rows.origins import EarlyColumn, TargetCells
    from dataguard.lab.rows.window_rows import InputRows, Window

FEWEST_INPUT_ROWS = 2
"""Rows of an input below which it is no window: then the target may be another column of the same row."""
MOST_OVERLAP, OVERLAP_PART = 2, 4
"""An overlap of input and target of one or two rows, and of at most a quarter of the target, is a mistake in counting;
longer ones are made on purpose, to start a decoder or to predict the next value at each position."""


@check("DG528", "look-ahead", Severity.WARNING, since="2026.4")
def dg528_look_ahead(lab: Lab) -> Judgement:
    """An input holds what is to be predicted, or depends on later rows of a window in time order.

    Symptom: the error is far smaller in validation than in use, since the model reads the answer from its input.
    Cause: the input ends one row too late; or it is filled backwards, smoothed over a centred window, or normalized
        with the rows of the target before these are cut off; or the column of the target is not dropped from the
        table, as by `table.drop(columns="y")`, which returns another one.
    Fix: cut the input off before the first row of the target, and compute features of it alone. If columns are known
        beforehand, as holidays are, declare `known_future = ["holiday"]` in the contract; if another leaf is to be
        predicted, `target = "y"`.
    Links: https://scikit-learn.org/stable/common_pitfalls.html#data-leakage
    """
    seen = lab.provenance.windows
    if seen.target is None:
        raise NotTested("no leaf is named as a target, and a sample is no pair: set `target` in the contract")
    copied = _copied(lab, seen.target)
    if copied is not None:
        yield copied
        return Coverage({"samples": len(lab.epoch.samples)}, f"sample{seen.target} was taken for the target")
    may_load = lab.dataset.may_load
    of_cells = may_load and not seen.windows
    cells = observed_or_none(lambda: lab.provenance.target_cells(seen.target or "")) if of_cells else None
    if cells is not None and cells.paths:
        yield _dependent(lab, seen.target, cells)
        return Coverage({"samples": cells.of}, f"sample{seen.target} was taken for the target")
    is_planned = bool(lab.settings.contract.get("known_future"))
    of_columns = may_load and not is_planned
    early = observed_or_none(lambda: lab.provenance.early_column(seen.target or "")) if of_columns else None
    if early is not None:
        yield _early(lab, seen.target, early)
        return Coverage({"samples": len(lab.epoch.samples)}, f"sample{seen.target} was taken for the target")
    if cells is not None:
        return Coverage({"samples": cells.of}, f"sample{seen.target} was taken for the target")
    if not seen.windows:
        raise NotApplicable("input and target come from no rows of one table or series in memory")
    for source in dict.fromkeys(window.source for window in seen.windows):
        windows = [window for window in seen.windows if window.source == source]
        inputs = [(window, one) for window in windows for one in window.inputs]
        held = [(window, one.path, fact) for window, one in inputs if (fact := held_by(window, one))]
        late = [(window, one.path, fact) for window, one in inputs if (fact := computed_late(window, one))]
        if len({window.index for window, *_ in held}) == len(windows) or late:
            window, path, leak = (late or held)[0]
            yield Finding(
                message=f"dataset[{window.index!r}]: {leak}",
                evidence=without_empty(
                    {
                        "target": f"sample{window.target}: {_shown(window.first, window.last)} of {window.source}",
                        "columns of the target": list(window.columns[:8]),
                        **{
                            f"sample{one.path}": f"{_shown(one.first, one.last)}, of which {one.copies + one.early} of "
                            f"{one.size} values depend on those of the target"
                            for one in window.inputs
                        },
                    }
                ),
                at=lab.places.value(window.index, path) or lab.dataset.location,
                repro=lab.repro.samples(window.index),
            )
            break
    return Coverage({"windows": len(seen.windows)}, f"sample{seen.target} was taken for the target")


def _dependent(lab: Lab, target: str, cells: TargetCells) -> Finding:
    """The finding of an input that was computed from its own target."""
    path, file = cells.paths[0], Path(cells.source).name
    return Finding(
        message=f"dataset[{cells.index!r}]: sample{path} changes with its target, sample{target}: {cells.column} in "
        f"row {cells.row} of {file}",
        evidence={
            "fix here": "compute inputs from rows before that of the target",
            "changed": "three targets, before the factory runs",
            "samples compared": cells.of,
            "leaves": [f"sample{one}" for one in cells.paths],
        },
        at=lab.places.column(cells.index, path, cells.place)
        or lab.places.value(cells.index, path)
        or lab.dataset.location,
        repro=lab.repro.samples(cells.index),
    )


def _early(lab: Lab, target: str, early: EarlyColumn) -> Finding:
    """The finding of a column of an input that was computed from rows after its target."""
    path, file = early.path, Path(early.source).name
    return Finding(
        message=f"dataset[{early.index!r}]: column {early.column} of sample{path} changes with rows of {file} on which "
        f"sample{target} depends only from dataset[{early.later!r}] on",
        evidence={
            "fix here": "compute this column from earlier rows alone, as rolling() without center=True does",
            "changed": "the order of 16 rows, before the factory runs",
        },
        at=lab.places.column(early.index, path, early.column)
        or lab.places.value(early.index, path)
        or lab.dataset.location,
        repro=lab.repro.samples(early.index),
    )


def _copied(lab: Lab, target: str) -> Finding | None:
    """The finding of a row of numbers, one of which is the target in all samples."""
    rows: dict[str, dict[Index, tuple[Sequence[float], float]]] = defaultdict(dict)
    is_close = partial(math.isclose, rel_tol=SINGLE)
    for summary in samples_of(lab.epoch.value_summaries):
        own = next((one.low for one in summary.numbers if one.path == target and one.size == 1), None)
        for one in summary.numbers:
            if own is not None and one.is_float and len(one.shape) == 1 and 1 < one.size == len(one.values):
                rows[one.path][summary.index] = one.values, own
    for path, pairs in rows.items():
        times = Counter(own for _, own in pairs.values())
        if path == target or sum(times.values()) - max(times.values()) < FEWEST_COPIED:
            continue
        size = min(len(values) for values, _ in pairs.values())
        places = [at for at in range(size) if all(is_close(values[at], own) for values, own in pairs.values())]
        if 0 < len(places) < size:
            index = next(iter(pairs))
            return Finding(
                message=f"sample{path}[{places[0]}] is the target, sample{target}, in all of {len(pairs):,} samples",
                evidence={"fix here": "drop the column of the target", "columns": places[:8]},
                at=lab.places.column(index, path, places[0], beside=target)
                or lab.places.value(index, path)
                or lab.dataset.location,
                repro=lab.repro.samples(index),
            )
    return None


SINGLE = 1e-6
"""The relative difference up to which numbers are equal in single precision."""
FEWEST_COPIED = 32
"""Samples with another target than the most frequent one: a column of bits equals all of them by odds of 1 in 2^32."""


def held_by(window: Window, given: InputRows) -> str | None:
    """Which rows of its target an input holds by a mistake in counting; None if it holds none, or many on purpose."""
    overlap = given.last - window.first + 1
    gaps = given.last - given.first >= 2 * given.rows  # rows that were chosen, such as a partner to be mixed in
    if given.rows < FEWEST_INPUT_ROWS or gaps or not given.copies or not window.exact or overlap < 1:
        return None
    if window.rows == 1 and overlap <= MOST_OVERLAP:
        return f"sample{given.path} holds row {window.first} of {window.source}, the only one of sample{window.target}"
    if overlap <= min(MOST_OVERLAP, window.rows // OVERLAP_PART):
        rows = f"row {window.first}" if overlap == 1 else f"{overlap} rows from {window.first} on"
        return f"sample{given.path} holds {rows} of {window.source}, where sample{window.target} begins"
    return None


def computed_late(window: Window, given: InputRows) -> str | None:
    """How many values of an input come from rows before its target, which mostly follows it, and change with that."""
    following = window.last - max(given.last, window.first - 1)
    if given.rows < FEWEST_INPUT_ROWS or not given.early or 2 * following < window.rows:
        return None
    return (
        f"{given.early} of {given.size} values of sample{given.path} from rows before {window.first} of "
        f"{window.source} change with the rows of sample{window.target}"
    )


def _shown(first: int, last: int) -> str:
    return f"row {first}" if first == last else f"rows {first} to {last}"
