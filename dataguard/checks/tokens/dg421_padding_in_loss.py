"""DG421: padding is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, NotTested, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

FEWEST_ROWS = 8
"""Padded rows that are needed: what holds by chance in half of all rows holds in eight with odds of 1 in 256."""


@check("DG421", "padding-in-loss", Severity.ERROR, since="2026.3")
def dg421_padding_in_loss(lab: Lab) -> Judgement:
    """The labels of padding are tokens, so that the model learns to predict padding.

    Symptom: the loss falls fast and means little, most of all with short documents and `padding="max_length"`;
        generated text ends in padding tokens.
    Cause: `labels = input_ids.clone()` after padding. The attention mask keeps padding out of attention, not out of the
        loss: models of transformers ignore only the label -100.
    Fix: `labels[attention_mask == 0] = -100`, or let the collator pad the labels (`DataCollatorForSeq2Seq`,
        `DataCollatorForLanguageModeling`). If your loss ignores the padding id, declare it:
        `[tool.dataguard.contract] ignore_index = 0`.
    Links: https://huggingface.co/docs/transformers/main/en/main_classes/data_collator
    """
    read = lab.tokens.read
    seen = read.padding
    if seen is None:
        raise NotApplicable("no row is padded beside labels that are tokens")
    if seen.rows >= FEWEST_ROWS and seen.labelled == seen.rows and not (seen.apart and seen.ignores):
        names = seen.names or read.names
        labels = f"batch{names['labels']}"
        if (read.by_content or not seen.masked) and not (
            seen.ignores or read.model_keys or "ignore_index" in lab.settings.contract
        ):
            raise NotTested(
                f"the padding of {labels} is token {seen.token}; whether your loss ignores that is unknown: declare "
                "ignore_index"
            )
        masked = "carry labels where the mask is 0: padding," if seen.masked else "carry labels in their padding:"
        where = "end in" if seen.apart else masked
        count = f"{seen.rows} rows" if seen.drawn else f"all {seen.rows} padded rows"
        yield Finding(
            message=f"{count} of {labels} {where} token {seen.token}, which the loss counts",
            evidence=without_empty(
                {
                    "fix here": f"{labels}[batch{names['mask']} == 0] = {read.unlearned}"
                    if seen.masked and not seen.apart
                    else f"pad {labels} with {read.unlearned}",
                    "padded rows": seen.rows,
                    "ignored label seen": seen.ignores,
                    "a row": seen.shown,
                }
            ),
            at=line_at(lab.tokens.line, seen.spot, seen.names),
            ambiguous=read.implied or (not seen.ignores and seen.token != read.vocabulary.eos),
        )
    return Coverage(read.exercised | {"padded rows": seen.rows}, read.note)
