"""DG422: the token that ends a text has no label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dataguard.checks.common.check import check
from dataguard.checks.common.lines import line_at
from dataguard.core.model import Coverage, Finding, Judgement, NotApplicable, NotTested, Severity, without_empty

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

FEWEST_STOPS = 8
"""How often the token must be seen without a label: what holds by chance each second time holds eight times with odds
of 1 in 256."""


@check("DG422", "unlearned-stop", Severity.ERROR, since="2026.3")
def dg422_unlearned_stop(lab: Lab) -> Judgement:
    """The token that ends a text is never learned: its label is ignored each time, a mask hides it, or no row has it.

    Symptom: the trained model does not stop: it answers, and then continues until the length limit.
    Cause: `tokenizer.pad_token = tokenizer.eos_token`, and labels that are ignored wherever a token is the padding
        token, or a mask `input_ids != pad_token_id`, as collators do that know padding only by its id; a loss mask
        that leaves out the last token of an answer; a tokenizer that adds no end token, or truncation after it was
        added.
    Fix: give padding a token of its own, and let the model know it:

            tokenizer.add_special_tokens({"pad_token": "<pad>"})
            model.resize_token_embeddings(len(tokenizer))

        or make labels by length and not by id; append `tokenizer.eos_token_id` to each text, and keep it in the mask.
        If `eos` is another token, declare it: `[tool.dataguard.contract] eos = 2`.
    Links: https://huggingface.co/docs/transformers/main/en/main_classes/data_collator
    """
    read = lab.tokens.read
    if "labels" not in read.names or read.lag is None:
        raise NotApplicable("no labels of a causal language model seen")
    seen, reply_end = read.stops, read.reply_end
    if reply_end is not None and not (seen and seen.token == reply_end.token):
        yield Finding(
            message=f"token {reply_end.name} follows the learned tokens of all replies, and has no label in any of "
            f"{reply_end.spans}",
            evidence=without_empty(
                {
                    "fix here": f"keep the label of token {reply_end.name} in batch{read.names['labels']}",
                    "replies": reply_end.spans,
                    "a row": reply_end.shown,
                }
            ),
            at=line_at(lab.tokens.line, reply_end.spot),
        )
        return Coverage(read.exercised, read.note)
    if seen is None:
        raise NotTested("the end token is unknown: no tokenizer found, and none in the contract (eos)")
    known_end = read.vocabulary.eos is not None
    if not seen.learned and seen.hidden >= FEWEST_STOPS:
        kind = "both the padding and the end token" if seen.padding else "the end token"
        yield Finding(
            message=f"token {seen.name} is {kind}; it follows a learned token {seen.hidden} times, and "
            "its label is ignored each time",
            evidence=without_empty(
                {
                    "fix here": _labelled(read.names, masked=seen.padding and not read.implied),
                    "without a label": seen.hidden,
                    "with a label": seen.learned,
                    "a row": seen.shown,
                }
            ),
            at=line_at(lab.tokens.line, seen.spot),
        )
    elif seen.holes >= FEWEST_STOPS:
        yield Finding(
            message=f"batch{read.names.get('mask', '')} hides token {seen.name} inside rows, {seen.holes} times, as it "
            "hides the padding: it is taken for padding by its id",
            evidence=without_empty(
                {"fix here": "make the mask by the lengths of rows", "hidden": seen.holes, "a row": seen.shown_hole}
            ),
            at=line_at(lab.tokens.line, seen.hole_spot),
        )
    elif not known_end and seen.cut_off and not seen.learned and seen.ended >= FEWEST_STOPS and not seen.alike:
        yield Finding(
            message=f"all rows end in token {seen.name}, the padding, without a label, even the widest row of each "
            "batch: an end token that is taken for padding by its id",
            evidence=without_empty(
                {
                    "fix here": "make mask and labels by the lengths of rows",
                    "ended rows": seen.ended,
                    "a row": seen.shown,
                }
            ),
            at=line_at(lab.tokens.line, seen.spot),
        )
    elif known_end and not seen.learned and seen.ended >= FEWEST_STOPS and not seen.alike:
        yield Finding(
            message=f"none of {seen.ended} rows that end before the full width has the label {seen.name}, the end "
            "token, and they do not end in any other token in common",
            evidence=without_empty(
                {"fix here": f"append token {seen.name} to each text", "ended rows": seen.ended, "a row": seen.shown}
            ),
            at=line_at(lab.tokens.line, seen.spot),
        )
    return Coverage(read.exercised | ({"labelled ends": seen.learned} if known_end else {}), read.note)


def _labelled(names: Mapping[str, str], *, masked: bool) -> str:
    """How to give the end token a label: by the mask, if it is known by its id where it is padding too."""
    if masked and "mask" in names:
        tokens, labels, mask = (f"batch{names[role]}" for role in ("tokens", "labels", "mask"))
        return f"{labels} = {tokens}.masked_fill({mask} == 0, -100), and not by the token's id"
    return f"keep the label of the end token in batch{names['labels']}"
