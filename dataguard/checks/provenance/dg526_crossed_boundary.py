"""DG526: samples with rows of two episodes, recordings or files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.provenance.boundaries import CrossingSample, GroupSearch

MOST_SHARE = 1 / 3
"""The share of samples from which on to hold rows of two groups is how samples are made, as blocks of text are."""
_NO_GROUPS = (
    "nothing that the dataset holds, or the files of its rows, names episodes, recordings or other groups of rows"
)


@check("DG526", "crossed-boundary", Severity.WARNING, since="2026.4")
def dg526_crossed_boundary(lab: Lab) -> Judgement:
    """A sample holds rows of two episodes, recordings or files, where others hold rows of one.

    Symptom: a few sequences jump from the end of one recording to the beginning of another: the model learns
        transitions that never happened. Or a padding mask hides the first or last rows of each.
    Cause: windows are cut from all rows, one after the other, whatever they belong to; or the mask is computed from
        another length than the padding.
    Fix: list the windows of each group and not of all rows; or pad at its end, and mask what is padded. If groups have
        a name that is not recognized, set `group = "case_id"` in the contract.
    Links: https://minari.farama.org/main/content/dataset_standards/
    """
    searches = lab.provenance.group_ends
    if not searches:
        raise NotApplicable(_NO_GROUPS)
    notes = []
    for one in searches:
        if one.spread_crossing > MOST_SHARE * one.spread:
            notes.append(f"{one.spread_crossing} of {one.spread} samples hold rows of two groups by {one.named}")
            continue
        crossing = next((sample for sample in one.crossing if not sample.marks), None)
        if crossing is not None:
            yield _crossed(lab, one, crossing)
            return Coverage({"samples": one.searched})
        notes += [f"{sample.marks[0]} shows where a group of {one.named} ends" for sample in one.crossing[:1]]
        for hidden in one.hidden[:1]:
            rows = _shown_rows(hidden.rows)
            yield Finding(
                message=f"dataset[{hidden.index!r}]: sample{hidden.mask} hides {rows} of {hidden.source}, which are in "
                f"sample{hidden.path} and no padding",
                evidence={
                    "fix here": f"let {hidden.mask} hide padding alone",
                    "groups": one.named,
                    "hidden rows": list(hidden.rows[:8]),
                },
                at=lab.places.value(hidden.index, hidden.mask) or lab.dataset.location,
                repro=lab.repro.samples(hidden.index),
            )
            return Coverage({"samples": one.searched})
    return Coverage({"samples": sum(one.searched for one in searches)}, notes[0] if notes else None)


def _crossed(lab: Lab, search: GroupSearch, sample: CrossingSample) -> Finding:
    """The finding of a sample with rows of two groups."""
    leaf, before, after = f"sample{sample.path}", sample.before, sample.after
    if sample.positions is None:
        fact = f"{leaf} comes from row {after} of {search.source}, where a group begins, and the rest from {before}"
    elif isinstance(before, str):
        first, second = sample.positions
        fact = f"{leaf} holds {first} rows of {_short(before)} and then {second} of {_short(after)}"
    else:
        fact = (
            f"{leaf} holds {sample.positions[0]} rows up to {before} of {search.source}, where a group ends, and "
            f"{sample.positions[1]} of the next"
        )
    return Finding(
        message=f"dataset[{sample.index!r}] crosses a boundary: {fact}",
        evidence=without_empty(
            {
                "fix here": "count windows for each group alone, and none from one group into the next",
                "boundaries": f"{search.count - 1} by {search.named}" if search.length else None,
                "median rows of a group": search.length or None,
                "of samples spread over all": f"{search.spread_crossing} of {search.spread} cross one",
                "also": [f"dataset[{one.index!r}]" for one in search.crossing if one is not sample and not one.marks],
            }
        ),
        at=lab.places.value(sample.index, sample.path) or lab.dataset.location,
        repro=lab.repro.samples(sample.index),
    )


def _short(source: object) -> str:
    """The name of a file, with that of a member, or of an object."""
    file, _, member = str(source).partition("::")
    return f"{file.rpartition('/')[2]}::{member}" if member else file.rpartition("/")[2]


def _shown_rows(rows: tuple[int, ...]) -> str:
    return f"row {rows[0]}" if len(rows) == 1 else f"{len(rows)} rows from {rows[0]} on"
