"""DG425: packed documents see each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, NotTested, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

FEWEST_STARTS = 8
"""Starts of documents that are needed: what holds by chance for half of them holds for eight with odds of 1 in 256."""


@check("DG425", "leaking-packs", Severity.ERROR, since="2026.3")
def dg425_leaking_packs(lab: Lab) -> Judgement:
    """Documents that are packed into one row see or predict each other.

    Symptom: none in the loss; the model learns to use a text that has nothing to do with the one it continues.
    Cause: `position_ids` restart for each document, but the batch has an attention mask of shape (rows, width) too:
        models of transformers then take the row for one text. Or a mask of shape (rows, 1, width, width) is open
        across documents; or the first token of a document is the label of the one before.
    Fix: leave `attention_mask` out of packed batches, as `DataCollatorWithFlattening` does; or pass `cu_seq_lens_q`
        and `cu_seq_lens_k`. Set the label of the first token of each document to -100. If packed documents may see
        each other, declare it: `[tool.dataguard.contract] packing = "joined"`.
    Links: https://huggingface.co/docs/transformers/main/en/main_classes/data_collator
    """
    packing = lab.settings.contract.get("packing")
    if packing == "joined":
        raise NotApplicable("the contract says that packed documents see each other")
    read = lab.tokens.read
    seen = read.packs
    if seen is None:
        raise NotApplicable(
            "no row is known to hold several documents: by positions, offsets or tokens that start or end them"
        )
    if seen.by_stop and packing is None:
        raise NotTested(
            f"{seen.rows} rows hold several documents, which only tokens separate: whether they may see each other is "
            'unknown: declare packing = "separate" or "joined"'
        )
    if seen.open >= FEWEST_STARTS and seen.open == seen.restarts:
        split = "only tokens separate them" if seen.by_stop else "the mask is open between them"
        yield Finding(
            message=f"all {seen.open} later documents in {seen.rows} packed rows of batch{read.names['tokens']} see "
            f"those before them: {split}",
            evidence=without_empty(
                {
                    "fix here": f"leave batch{read.names['mask']} out" if "mask" in read.names else None,
                    "packed rows": seen.rows,
                    "later documents": seen.restarts,
                    "a start": seen.shown,
                }
            ),
            at=line_at(lab.tokens.line, seen.spot),
            ambiguous=seen.alone,
        )
    elif seen.labelled >= FEWEST_STARTS and seen.labelled == seen.restarts and not seen.same:
        yield Finding(
            message=f"the first token of all {seen.labelled} later documents in packed rows is the label of the token "
            "before it, in another document",
            evidence=without_empty(
                {
                    "fix here": f"batch{read.names['labels']}[batch{read.names['positions']} == 0] = -100"
                    if "positions" in read.names
                    else None,
                    "packed rows": seen.rows,
                    "later documents": seen.restarts,
                    "a start": seen.shown_label,
                }
            ),
            at=line_at(lab.tokens.line, seen.label_spot),
            ambiguous=True,
        )
    return Coverage(read.exercised | {"packed documents": seen.restarts + seen.rows})
