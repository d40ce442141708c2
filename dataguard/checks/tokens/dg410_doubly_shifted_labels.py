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
    """The labels of a causal language model are shifted twice, by data and model or by the data alone, or never.

    Symptom: the loss falls, but generated text is incoherent: the model learns to predict the token after the next. Or
        the loss falls to 0 within minutes: the model copies the token that it sees.
    Cause: models that take `input_ids`, `attention_mask` and `labels`, as those of transformers do, shift the labels
        themselves; the dataset or collate_fn was written for a model that does not, or the other way round. Or dataset
        and collate_fn each shift them, so that the label of a token is the one after the next.
    Fix: pass a copy of `input_ids` as `labels` to a model that shifts, with -100 where nothing is to be learned; pass
        `tokens[:-1]` and `tokens[1:]` to one that does not. Which of them yours is shows with `--model`; or declare it:
        `[tool.dataguard.contract] shifted_by = "data"`, or `"model"`.
    Links: https://huggingface.co/docs/transformers/main/en/tasks/language_modeling
    """
    read = lab.tokens.read
    shift = read.shift
    by_model, source = _shift_of_model(lab) if shift is not None and read.lag in (0, 1) else (None, "")
    if shift is None or (read.lag != TWICE and by_model is None):
        raise NotApplicable(
            "no labels are shifted twice, and nothing says whether the model shifts them: not --model, not shifted_by "
            "in the contract, no batch with just the arguments of a causal model"
        )
    if read.lag == TWICE:
        _require(shift.beyond, shift.tokens)
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
    elif by_model and shift.after == shift.compared >= 2 * shift.at:
        _require(shift.compared, shift.tokens)
        yield Finding(
            message=f"all {shift.compared:,} labels are the token after theirs in batch{read.names['tokens']}, "
            f"and {source} shifts them again",
            evidence={
                "fix here": f"labels that are not shifted: batch{read.names['labels']} = "
                f"batch{read.names['tokens']}.clone()",
                "labels equal to the next token": shift.after,
                "to their own token": shift.at,
            },
            at=line_at(lab.tokens.line, shift.spot),
        )
    elif by_model == 0 and shift.at == shift.compared >= 2 * shift.after:
        _require(shift.compared, shift.tokens)
        yield Finding(
            message=f"all {shift.compared:,} labels are the tokens themselves in batch{read.names['tokens']}, "
            f"and {source} does not shift them: it learns to copy",
            evidence={
                "fix here": "labels = tokens[1:] beside tokens[:-1]",
                "labels equal to their own token": shift.at,
                "to the next token": shift.after,
            },
            at=line_at(lab.tokens.line, shift.spot),
        )
    return Coverage({"labels": shift.compared})


def _require(compared: int, tokens: int) -> None:
    if compared < FEWEST_COMPARED or tokens < FEWEST_TOKENS:
        raise Undecided(f"only {compared} labels of {tokens} different tokens can be compared")


def _shift_of_model(lab: Lab) -> tuple[int | None, str]:
    """How far the model shifts labels, and what shows that: the contract, a step of the model, or the batch's keys.

    A model that does not shift may restore the tokens it gets, unless it is causal.
    """
    declared = lab.settings.contract.get("shifted_by")
    if declared is not None:
        return int(declared == "model"), "the model (shifted_by in the contract)"
    read = lab.tokens.read
    if lab.settings.model is not None:
        try:
            use = lab.model.label_use(read.names["tokens"], read.names["labels"])
        except Undecided:
            if not read.model_keys:
                raise
        else:
            if use is not None:
                return (use.shift if use.shift or use.causal or read.lag else None), "the model"
    return (1, "a model that takes this batch") if read.model_keys else (None, "")
