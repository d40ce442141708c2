"""DG430: masked tokens that teach nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

FEWEST_PLACES = 8
"""Masked ends or padding that are needed: fewer may be words that happen to have the id of a special token."""


@check("DG430", "wasted-mask", Severity.WARNING, since="2026.4")
def dg430_wasted_mask(lab: Lab) -> Judgement:
    """Masked tokens are labelled with the mask itself, or they are padding and special tokens.

    Symptom: the loss falls to almost 0 within a few steps, or is lower than that of others with the same recipe; a
        model that restores little.
    Cause: `labels = input_ids.clone()` after tokens are masked; places that are drawn from whole rows, without the
        `special_tokens_mask` of the tokenizer; an attention mask that is taken from masked rows.
    Fix: clone the labels before masking, and set the probability of special tokens and padding to 0, as
        `DataCollatorForLanguageModeling` does.
    Links: https://huggingface.co/docs/transformers/main/en/main_classes/data_collator
    """
    read = lab.tokens.read
    seen = read.masking
    if seen is None:
        raise NotApplicable("no token masks others that labels restore")
    tokens = f"batch{read.names['tokens']}"
    message = fix = None
    if seen.unrestored:
        labels = f"batch{read.names['labels']}"
        known = f"have the mask as their label in {labels}: token {seen.name}"
        message = f"{seen.unrestored:,} of {seen.masked:,} masked tokens {known}"
        fix = "clone the labels before tokens are masked"
    elif max(seen.ends, seen.padding) >= FEWEST_PLACES:
        kinds = ((seen.ends, "tokens that begin or end every row"), (seen.padding, "tokens of padding"))
        hidden = " and ".join(f"{count:,} {what}" for count, what in kinds if count)
        message = f"token {seen.name} masks {hidden} in {tokens}, of {seen.masked:,} masked ones"
        fix = "mask neither special tokens nor padding"
    if message is not None:
        yield Finding(
            message=message,
            evidence=without_empty({"fix here": fix, "masked tokens": seen.masked, "a row": seen.shown}),
            at=line_at(lab.tokens.line, seen.spot),
        )
    fixed = "rows are masked in the same places in both epochs: masking them when they are read varies what is learned"
    note = fixed if seen.fixed and lab.facts.role == "train" and message is None else read.note
    return Coverage(read.exercised | {"masked tokens": seen.masked}, note)
