"""DG410: labels of a language model are shifted twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

FEWEST, DISTINCT = 32, 4
"""The fewest labels that are compared, and different tokens among them."""


@check("DG410", "doubly-shifted-labels", Severity.WARNING, since="2026.2")
def dg410_doubly_shifted_labels(lab: Lab) -> Judgement:
    """The labels of a causal language model are the next tokens already, and the model shifts them once more.

    Symptom: the loss falls, but generated text is incoherent: the model learns to predict the token after the next.
    Cause: models that take `input_ids`, `attention_mask` and `labels`, as those of transformers do, shift the labels
        themselves; the dataset or collate_fn was written for a model that does not.
    Fix: pass a copy of `input_ids` as `labels`, with -100 where nothing is to be learned. If your model does not shift
        labels, give that as the reason in `expect`, or call them `targets`.
    Links: https://huggingface.co/docs/transformers/main/en/tasks/language_modeling
    """
    read = lab.tokens.read
    shift = read.shift if read.model_keys else None
    if shift is None:
        raise NotApplicable("no batch has just the arguments of a causal model that shifts its labels")
    if shift.after == shift.compared >= 2 * shift.at:
        if shift.compared < FEWEST or shift.tokens < DISTINCT:
            raise Undecided(f"only {shift.compared} labels of {shift.tokens} different tokens can be compared")
        yield Finding(
            message=f"all {shift.compared:,} labels are the token after theirs in batch['input_ids'], "
            "and a model that takes this batch shifts them again",
            evidence={"labels equal to the next token": shift.after, "to their own token": shift.at},
        )
    return Coverage({"labels": shift.compared})
