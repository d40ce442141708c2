"""DG421: padding is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty

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
        raise NotApplicable("no row is padded where the batch has a mask and labels that are tokens")
    if seen.rows >= FEWEST_ROWS and seen.labelled == seen.rows and not (seen.apart and seen.ignores):
        labels = f"batch{read.names['labels']}"
        where = "end in" if seen.apart else "carry labels where the mask is 0: padding,"
        yield Finding(
            message=f"all {seen.rows} padded rows of {labels} {where} token {seen.token}, which the loss counts",
            evidence=without_empty({"padded rows": seen.rows, "ignored label seen": seen.ignores, "a row": seen.shown}),
            ambiguous=not seen.ignores and seen.token != read.vocabulary.eos,
        )
    return Coverage(read.exercised | {"padded rows": seen.rows})
