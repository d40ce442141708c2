"""DG424: two start tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.model import (
    TO_DECLARE,
    Coverage,
    Finding,
    Judgement,
    NotTested,
    Severity,
    Undecided,
    without_empty,
)
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

FEWEST_ROWS = 8
"""Rows that are needed: what holds by chance in half of all rows holds in eight with odds of 1 in 256."""


@check("DG424", "doubled-start", Severity.WARNING, since="2026.3")
def dg424_doubled_start(lab: Lab) -> Judgement:
    """Every row, or every text of packed rows, begins with the start token twice.

    Symptom: quality is slightly worse than it should be, and worse again where generation adds the token once.
    Cause: a chat template writes the start token as text, and the tokenizer adds it once more.
    Fix: pass `add_special_tokens=False` when tokenizing what a chat template has written, or call
        `apply_chat_template(tokenize=True)`.
    Links: https://huggingface.co/docs/transformers/main/en/chat_templating
    """
    read = lab.tokens.read
    seen = read.starts
    if seen is None or (seen.guessed and seen.rows < FEWEST_ROWS):
        raise NotTested("the start token is unknown or pads rows: no tokenizer found, and none in the contract (bos)")
    if seen.guessed:
        raise NotTested(
            f"all {seen.rows} rows begin with token {seen.token} twice{TO_DECLARE}bos = {seen.token} in the contract "
            "if it starts rows"
        )
    if seen.rows and seen.twice == seen.rows:
        if seen.rows < FEWEST_ROWS:
            raise Undecided(f"only {counted(seen.rows, 'rows')} seen")
        yield Finding(
            message=f"all {seen.rows} rows begin with {seen.name} twice",
            evidence=without_empty(
                {"fix here": "add one start token: add_special_tokens=False", "rows": seen.rows, "a row": seen.shown}
            ),
            at=line_at(lab.tokens.line, seen.spot),
        )
    elif seen.within >= FEWEST_ROWS and seen.doubled == seen.within > 4 * (seen.once - seen.twice):
        yield Finding(
            message=f"all {seen.within} documents that begin within rows begin with {seen.name} twice",
            evidence=without_empty(
                {
                    "fix here": "add one start token: add_special_tokens=False",
                    "documents": seen.within,
                    "a row": seen.shown,
                }
            ),
            at=line_at(lab.tokens.line, seen.spot),
        )
    return Coverage(read.exercised | {"rows with a start token": seen.once, "starts within rows": seen.within})
