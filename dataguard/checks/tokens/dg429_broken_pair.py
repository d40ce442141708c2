"""DG429: pairs of answers that are equal, reversed, or answer different prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG429", "broken-pair", Severity.WARNING, since="2026.4")
def dg429_broken_pair(lab: Lab) -> Judgement:
    """Both answers of a pair are equal, answer different prompts, or are preferred the other way around elsewhere.

    Symptom: rewards stay near 0 and the accuracy of preferences near 0.5; a model that prefers by prompt.
    Cause: truncation leaves only what both answers have in common; answers are shuffled apart from their prompts; both
        columns are taken from one; annotations contradict each other.
    Fix: drop pairs that are equal after tokenization, and take the prompt of both answers from one column.
    Links: https://huggingface.co/docs/trl/main/en/dpo_trainer
    """
    read = lab.tokens.read
    seen = read.pairs
    if seen is None or not seen.pairs:
        raise NotApplicable("no batch has pairs of answers: leaves named by side, or rows of (batch, 2, width)")
    kinds = (
        (seen.equal, "have equal answers"),
        (seen.apart, "answer different prompts"),
        (seen.reverse, "prefer the answer that another pair rejects"),
    )
    faults = [f"{count} {what}" for count, what in kinds if count]
    if faults and seen.place and seen.shown:
        batch, row = seen.place
        yield Finding(
            message=f"of {seen.pairs} pairs {', '.join(faults)}: the first is pair {row}, in batch {batch}",
            evidence=without_empty(
                {
                    "fix here": "drop such pairs, or take both answers from the same row",
                    "equal": seen.equal,
                    "different prompts": seen.apart,
                    "reversed": seen.reverse,
                    "chosen": seen.shown[0],
                    "rejected": seen.shown[1],
                }
            ),
            at=line_at(lab.tokens.line, seen.spot),
        )
    return Coverage(read.exercised | {"pairs": seen.pairs}, read.note)
