"""DG423: rows without any label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG423", "empty-target", Severity.WARNING, since="2026.3")
def dg423_empty_target(lab: Lab) -> Judgement:
    """A row has no label in any draw, so that nothing is learned from it.

    Symptom: a loss of NaN when a whole batch has none; a smaller effective batch size otherwise.
    Cause: the prompt is longer than the maximum length, so that truncation leaves no token of the answer; the template
        that finds the answer does not match the text.
    Fix: drop such rows when the data are prepared, truncate the prompt instead of the answer, or raise the maximum
        length.
    Links: https://huggingface.co/docs/trl/main/en/sft_trainer
    """
    if lab.facts.role == "predict":
        raise NotApplicable("rows to predict need no labels")
    read = lab.tokens.read
    seen = read.empty
    if seen is None:
        raise NotApplicable("no labels in rows beside the tokens that can be read twice")
    if seen.random:
        return Coverage(read.exercised, "labels are drawn at random: a row without one may get one in another draw")
    if seen.empty and seen.place:
        batch, row = place = seen.place
        cut = f"; {seen.cut} of them fill all {seen.width} columns: truncation leaves nothing of their answers"
        yield Finding(
            message=f"{seen.empty} of {seen.rows} rows have no label at all in batch{read.names['labels']}: the first "
            f"is row {row} of batch {batch}" + (cut if seen.cut else ""),
            evidence=without_empty(
                {
                    "fix here": f"cut the prompt, and keep labels in batch{read.names['labels']}",
                    "rows without a label": seen.empty,
                    "share of rows": f"{seen.empty / seen.rows:.1%}",
                    "share of tokens without a label": f"{1 - read.labelled / read.tokens:.1%}",
                    "cut rows": seen.cut,
                    "the row begins": seen.shown,
                }
            ),
            at=line_at(lab.tokens.line_of_empty, place),
        )
    return Coverage(read.exercised)
