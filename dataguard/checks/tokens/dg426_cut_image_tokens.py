"""DG426: truncation cuts the tokens of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

FEWEST_ROWS = 8
"""Rows with all placeholders that are needed: one length in so many rows is no coincidence."""


@check("DG426", "cut-image-tokens", Severity.ERROR, since="2026.3")
def dg426_cut_image_tokens(lab: Lab) -> Judgement:
    """Truncation leaves fewer placeholder tokens than the image has features.

    Symptom: "image features and image tokens do not match" after hours of training, or an image whose last rows never
        reach the model.
    Cause: `truncation=True` with a `max_length` that ends within the placeholders of an image in long rows.
    Fix: raise `max_length`, truncate the text before the placeholders are inserted, or drop such rows.
    Links: https://huggingface.co/docs/trl/main/en/sft_trainer
    """
    read = lab.tokens.read
    seen = read.images
    if seen is None or seen.rows < FEWEST_ROWS:
        raise NotApplicable("no rows beside images have the same number of one placeholder token")
    if seen.cut and seen.place:
        batch, row = place = seen.place
        expected = (
            f"fewer tokens {seen.name} than the grids of their images say, as {seen.rows} other images have: "
            f"row {row} of batch {batch} has {seen.fewest} of {seen.count}"
            if seen.by_grid
            else f"fewer than the {seen.count} tokens {seen.name} that an image has in {seen.rows} other rows: "
            f"row {row} of batch {batch} has {seen.fewest}"
        )
        yield Finding(
            message=f"{counted(seen.cut, 'rows')} of full width {'has' if seen.cut == 1 else 'have'} {expected}",
            evidence=without_empty(
                {
                    "fix here": f"cut after the {seen.count} tokens {seen.name}, or drop such rows",
                    "rows": seen.rows,
                    "cut rows": seen.cut,
                    "the row": seen.shown,
                }
            ),
            at=line_at(lab.tokens.line_of_tokens, place),
        )
    return Coverage(read.exercised | {"rows with an image": seen.rows + seen.cut})
