"""DG429: pairs of answers or examples that are equal, reversed, or answer different prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.checks.tokens.negatives import Negatives, negatives_of
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


@check("DG429", "broken-pair", Severity.WARNING, since="2026.4")
def dg429_broken_pair(lab: Lab) -> Judgement:
    """Both answers of a pair are equal, answer different prompts, or are preferred the other way around elsewhere.

    Symptom: rewards stay near 0 and the accuracy of preferences near 0.5; a model that prefers by prompt.
    Cause: truncation leaves only what both answers have in common; answers are shuffled apart from their prompts; both
        columns are taken from one; annotations contradict each other; negative examples are drawn from columns or
        groups that hold the positive one.
    Fix: drop pairs that are equal after tokenization, and take the prompt of both answers from one column. Draw
        negatives among what is not positive.
    Links: https://huggingface.co/docs/trl/main/en/dpo_trainer
    """
    unknown = NotApplicable("no batch has pairs of answers: leaves named by side, or rows of (batch, 2, width)")
    try:
        read = lab.tokens.read
    except NotApplicable as error:
        read, unknown = None, error
    seen = read.pairs if read else None
    if read is None or seen is None or not seen.pairs:
        epoch = lab.epoch
        negatives = negatives_of(epoch.samples, epoch.value_summaries)
        if not negatives:
            raise unknown
        for one in negatives:
            if one.equal:
                yield _of_negatives(lab, one)
        return Coverage({"samples": len(epoch.samples), "negatives": sum(one.compared for one in negatives)})
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


def _of_negatives(lab: Lab, seen: Negatives) -> Finding:
    where = "a sample of the stream" if seen.index is None else f"dataset[{seen.index!r}]"
    return Finding(
        message=f"{seen.equal} of {seen.compared} negative examples in sample{seen.negative} are sample{seen.positive} "
        f"of the same sample: the first is in {where}",
        evidence={"fix here": f"draw sample{seen.negative} among all but sample{seen.positive}", "equal": seen.equal},
        at=(None if seen.index is None else lab.places.value(seen.index, seen.negative)) or lab.dataset.location,
        repro=None if seen.index is None else lab.repro.samples(seen.index),
        sample=seen.index,
    )
