"""DG428: prompts are learned, or parts of replies are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.model import (
    Coverage,
    Finding,
    Judgement,
    NotApplicable,
    NotTested,
    Severity,
    without_empty,
)
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.tokens.conversations import LearnedTurns

FEWEST_TURNS = 8
"""Turns that are needed: what holds by chance in half of all turns holds in eight with odds of 1 in 256."""


@check("DG428", "learned-prompt", Severity.WARNING, since="2026.4")
def dg428_learned_prompt(lab: Lab) -> Judgement:
    """Labels stand on questions of a conversation, or parts of replies have none.

    Symptom: the model asks its own questions after an answer, or its answers begin in the middle of a word.
    Cause: only the first prompt is left out of the loss, and later questions are not; the mask of the loss is that of
        the tokens and not of the next ones; spans of labels were counted before padding or truncation moved the tokens.
    Fix: take the mask of the loss from the chat template (`return_assistant_tokens_mask=True`), and shift it with the
        labels. Declare what is learned: `[tool.dataguard.contract] learned = "reply"`, or `"all"` where whole
        conversations are learned on purpose.
    Links: https://huggingface.co/docs/transformers/main/en/chat_templating
    """
    learned = lab.settings.contract.get("learned")
    if learned == "all":
        raise NotApplicable("the contract says that all tokens are learned")
    read = lab.tokens.read
    if "labels" not in read.names or read.lag is None:
        raise NotApplicable("no labels of a causal language model seen")
    seen = read.turns
    if seen is None or not (seen.ignores or learned):
        if learned and not read.ignores_within:
            labels = f"batch{read.names['labels']}"
            yield Finding(
                message=f"all tokens of {counted(read.rows, 'rows')} have labels in {labels}, but the contract says "
                "that only replies are learned",
                evidence={"labelled tokens": read.labelled, "tokens": read.tokens},
                at=line_at(lab.tokens.line, read.shift.spot if read.shift else None),
            )
            return Coverage(read.exercised)
        raise NotTested(
            "all tokens are learned, or no chat template of a tokenizer says which tokens are replies"
            + ("" if learned else ': declare learned = "reply" or "all"')
        )
    yield from _questions(lab, seen)
    yield from _replies(lab, seen)
    return Coverage(read.exercised | {"questions": seen.first + seen.later, "replies": seen.replies}, read.note)


def _questions(lab: Lab, seen: LearnedTurns) -> Iterator[Finding]:
    read = lab.tokens.read
    groups = (("first", seen.first, seen.learned_first), ("later", seen.later, seen.learned_later))
    bad = [(name, count) for name, count, labelled in groups if labelled == count >= FEWEST_TURNS]
    if bad:
        which = "all" if len(bad) == len(groups) else f"all {bad[0][0]}"
        yield Finding(
            message=f"{which} {sum(count for _, count in bad)} questions have labels in batch{read.names['labels']}: "
            "the model learns to ask",
            evidence=without_empty(
                {
                    "fix here": f"set the labels of questions to {read.unlearned}",
                    "first questions with labels": f"{seen.learned_first} of {seen.first}",
                    "later questions with labels": f"{seen.learned_later} of {seen.later}",
                    "a question": seen.shown,
                }
            ),
            at=line_at(lab.tokens.line, seen.spot),
        )


def _replies(lab: Lab, seen: LearnedTurns) -> Iterator[Finding]:
    labels = f"batch{lab.tokens.read.names['labels']}"
    count = seen.start or seen.end
    if not count and seen.broken >= FEWEST_TURNS:
        yield Finding(
            message=f"in {seen.broken} conversations labels begin or end amid a question or reply in {labels}: their "
            "spans are not those of replies",
            evidence=without_empty(
                {
                    "fix here": "move spans of labels with the tokens: by padding, truncation and packing",
                    "replies": seen.replies,
                    "columns with labels": seen.labels,
                    "columns of replies": seen.turns,
                    "a reply": seen.shown_reply,
                }
            ),
            at=line_at(lab.tokens.line, seen.reply_spot),
        )
    if not count or seen.replies < FEWEST_TURNS:
        return
    where = "first" if seen.start else "last"
    tokens = "token has" if count == 1 else f"{count} tokens have"
    head = f", which begin after {seen.head}" if seen.head else ""
    yield Finding(
        message=f"the {where} {tokens} no label in {labels} in any of {seen.replies} replies{head}",
        evidence=without_empty(
            {
                "fix here": "shift the mask of the loss as the labels are shifted",
                "replies": seen.replies,
                "a reply": seen.shown_reply,
            }
        ),
        at=line_at(lab.tokens.line, seen.reply_spot),
    )
