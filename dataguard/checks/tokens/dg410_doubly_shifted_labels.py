"""DG410: labels of a language model are shifted twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

FEWEST_COMPARED, FEWEST_TOKENS = 32, 4
"""The fewest labels that are compared, and different tokens among them."""
TWICE = 2
"""The distance of labels that are shifted twice."""


@check("DG410", "doubly-shifted-labels", Severity.WARNING, since="2026.2")
def dg410_doubly_shifted_labels(lab: Lab) -> Judgement:
    """The labels of a causal language model are shifted twice, by the data and the model, or by the data alone.

    Symptom: the loss falls, but generated text is incoherent: the model learns to predict the token after the next.
    Cause: models that take `input_ids`, `attention_mask` and `labels`, as those of transformers do, shift the labels
        themselves; the dataset or collate_fn was written for a model that does not. Or dataset and collate_fn each
        shift them, so that the label of a token is the one after the next.
    Fix: pass a copy of `input_ids` as `labels`, with -100 where nothing is to be learned. If your model does not shift
        labels, give that as the reason in `expect`, or call them `targets`.
    Links: https://huggingface.co/docs/transformers/main/en/tasks/language_modeling
    """
    read = lab.tokens.read
    shift = read.shift if read.model_keys or read.lag == TWICE else None
    if shift is None:
        raise NotApplicable(
            "no batch has just the arguments of a causal model that shifts its labels, and no labels are shifted twice"
        )
    if read.lag == TWICE:
        if shift.beyond < FEWEST_COMPARED or shift.tokens < FEWEST_TOKENS:
            raise Undecided(f"only {shift.beyond} labels of {shift.tokens} different tokens can be compared")
        yield Finding(
            message=f"{shift.beyond:,} of {shift.compared:,} labels are the token after the next in "
            f"batch{read.names['tokens']}: they are shifted twice",
            evidence={
                "fix here": "shift once: labels = tokens[1:] beside tokens[:-1]",
                "labels equal to the token after the next": shift.beyond,
                "to the next token": shift.after,
            },
            at=line_at(lab.tokens.line, shift.spot),
        )
    elif shift.after == shift.compared >= 2 * shift.at:
        if shift.compared < FEWEST_COMPARED or shift.tokens < FEWEST_TOKENS:
            raise Undecided(f"only {shift.compared} labels of {shift.tokens} different tokens can be compared")
        yield Finding(
            message=f"all {shift.compared:,} labels are the token after theirs in batch['input_ids'], "
            "and a model that takes this batch shifts them again",
            evidence={
                "fix here": f"labels that are not shifted: batch{read.names['labels']} = "
                f"batch{read.names['tokens']}.clone()",
                "labels equal to the next token": shift.after,
                "to their own token": shift.at,
            },
            at=line_at(lab.tokens.line, shift.spot),
        )
    return Coverage({"labels": shift.compared})
