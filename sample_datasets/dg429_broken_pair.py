"""DG429 broken-pair: answers of a pair that are equal, reversed, or belong to different prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from sample_datasets._tokens import IGNORED, Batch, Tokenizer, loader

Pair = tuple[Tensor, Tensor, Tensor]


def pair(number: int, length: int = 9) -> Pair:
    """A prompt, its better answer and its worse one."""
    made = Tokenizer()
    prompt = torch.cat([torch.tensor([1]), made.words(number, 6 + number % 3)])
    answers = [torch.cat([made.words(number + 31 * side, length + number % 4), torch.tensor([2])]) for side in (1, 2)]
    return prompt, answers[0], answers[1]


def equal_answers(number: int) -> Pair:
    """Every fourth pair has its better answer twice."""
    prompt, chosen, rejected = pair(number)
    return prompt, chosen, chosen if number % 4 == 1 else rejected  # culprit


def sides(prompts: Sequence[Sequence[Tensor]], answers: Sequence[Sequence[Tensor]]) -> Batch:
    """Tokens and labels of both sides; prompts have no labels."""
    batch: Batch = {}
    for side, asked, replies in zip(("chosen", "rejected"), prompts, answers, strict=True):
        rows = [torch.cat(row) for row in zip(asked, replies, strict=True)]
        labels = [
            torch.cat([torch.full_like(prompt, IGNORED), reply]) for prompt, reply in zip(asked, replies, strict=True)
        ]
        batch[f"{side}_input_ids"] = pad_sequence(rows, batch_first=True)  # culprit
        batch[f"{side}_attention_mask"] = (batch[f"{side}_input_ids"] != 0).long()
        batch[f"{side}_labels"] = pad_sequence(labels, batch_first=True, padding_value=IGNORED)
    return batch


def together(pairs: Sequence[Pair]) -> Batch:
    """Both sides after the same prompts."""
    prompts, chosen, rejected = zip(*pairs, strict=True)
    return sides((prompts, prompts), (chosen, rejected))


def moved(pairs: Sequence[Pair]) -> Batch:
    """The rejected side has the prompts of the rows after."""
    prompts, chosen, rejected = zip(*pairs, strict=True)
    return sides((prompts, (*prompts[1:], *prompts[:1])), (chosen, rejected))  # culprit


def stacked(pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
    """Both sides as (batch, 2, width), with their mask."""
    rows = [torch.cat([prompt, answer]) for prompt, *answers in pairs for answer in answers]
    tokens = pad_sequence(rows, batch_first=True)  # culprit
    tokens = tokens.reshape(len(pairs), 2, -1)
    assert TOKENIZER.pad_token_id == 0
    return tokens, (tokens != 0).long()


TOKENIZER = Tokenizer()


class Stacked:
    """The same as an object that holds the tokenizer."""

    def __init__(self) -> None:
        self.tokenizer = TOKENIZER

    def __call__(self, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
        return stacked(pairs)


def bad() -> DataLoader[Any]:
    """Some answers were chosen over themselves."""
    return loader(equal_answers, together)


def bad_prompts() -> DataLoader[Any]:
    """Prompts of the rejected side are moved by a row."""
    return loader(pair, moved)


def bad_stacked() -> DataLoader[Any]:
    """Equal answers in one tensor of both sides."""
    return loader(equal_answers, Stacked())


def contradicting(number: int) -> Pair:
    """Every second pair is the one before it, the other way around."""
    prompt, chosen, rejected = pair(number - number % 2)
    return (prompt, rejected, chosen) if number % 2 else (prompt, chosen, rejected)  # culprit


def bad_reversed() -> DataLoader[Any]:
    """Annotators who contradict each other."""
    return loader(contradicting, together)


def halves(pairs: Sequence[Pair]) -> Batch:
    """All better answers, and all worse ones after them, without names."""
    rows = [torch.cat([pair[0], pair[side]]) for side in (1, 2) for pair in pairs]
    tokens = pad_sequence(rows, batch_first=True)  # culprit
    return {"input_ids": tokens, "attention_mask": (tokens != 0).long()}


def bad_halves() -> DataLoader[Any]:
    """Equal answers in the two halves of the rows."""
    return loader(equal_answers, halves)


def good_halves() -> DataLoader[Any]:
    """Two different answers to each prompt in the two halves of the rows."""
    return loader(pair, halves)


def noised(pairs: Sequence[Pair]) -> Batch:
    """Documents, and the same with every ninth token hidden, in other places of each."""
    whole = pad_sequence([torch.cat(pair[:2]) for pair in pairs], batch_first=True)
    places = torch.arange(whole.shape[1]) + torch.arange(len(pairs))[:, None]
    return {"input_ids": whole.masked_fill((places % 9 == 8) & (whole > 2), 7), "original_ids": whole}


def good_noised() -> DataLoader[Any]:
    """Two views that begin alike, of which some are equal on purpose."""
    return loader(pair, noised)


def good() -> DataLoader[Any]:
    """Two different answers to each prompt."""
    return loader(pair, together)


def good_stacked() -> DataLoader[Any]:
    """The same in one tensor of both sides."""
    return loader(pair, Stacked())


def completions(pairs: Sequence[Pair]) -> Batch:
    """Prompts apart from their answers."""
    columns = dict(zip(("prompt", "chosen", "rejected"), zip(*pairs, strict=True), strict=True))
    return {f"{side}_input_ids": pad_sequence(list(rows), batch_first=True) for side, rows in columns.items()}


def good_completions() -> DataLoader[Any]:
    """Answers without their prompts, as some collators keep them."""
    return loader(pair, completions)


def views(pairs: Sequence[Pair]) -> Batch:
    """Each text twice, for a contrastive loss that drops out other units in each."""
    texts = pad_sequence([prompt for prompt, _, _ in pairs], batch_first=True)
    return {"first_input_ids": texts, "second_input_ids": texts.clone()}


def good_views() -> DataLoader[Any]:
    """Pairs that are equal on purpose."""
    return loader(pair, views)


def retrieval(pairs: Sequence[Pair]) -> Batch:
    """Questions and the documents that answer them."""
    prompts, chosen, _ = zip(*pairs, strict=True)
    return {
        "query_input_ids": pad_sequence(list(prompts), batch_first=True),
        "document_input_ids": pad_sequence([torch.cat([torch.tensor([1]), text]) for text in chosen], batch_first=True),
    }


def good_retrieval() -> DataLoader[Any]:
    """Pairs of texts that are no answers."""
    return loader(pair, retrieval)
