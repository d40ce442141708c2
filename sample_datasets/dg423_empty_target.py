"""DG423 empty-target: rows without any label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from sample_datasets._tokens import IGNORED, Batch, Padded, Tokenizer, loader, unpadded

END = 2


def question(number: int) -> int:
    """How many tokens of a text are its question: a few are very long."""
    return 30 if number % 11 == 4 else 4 + number % 5


def dialogue(number: int) -> Tensor:
    """A question and an answer of eight words."""
    tokenizer = Tokenizer()
    return torch.cat([tokenizer.words(number, question(number)), torch.tensor([3]), tokenizer.text(number + 3, 8)[1:]])


class Answers:
    """A collate_fn that cuts texts to `width` tokens, and learns what comes after token 3."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.tokenizer = Tokenizer()

    def __call__(self, texts: Sequence[Tensor]) -> Batch:
        batch = Padded(unpadded, self.tokenizer, self.width)(texts)
        answer = (batch["input_ids"] == 3).cumsum(1) - (batch["input_ids"] == 3).long() > 0
        return {**batch, "labels": batch["labels"].where(answer, IGNORED)}


def bad() -> DataLoader[Any]:
    """Some questions are longer than the cut, and nothing of their answers is left."""
    return loader(dialogue, Answers(24))  # culprit


def pair(number: int) -> Batch:
    """Tokens and labels of a row of 24, without padding."""
    tokens = Tokenizer().words(number, 24)
    answer = torch.arange(24) >= min(question(number), 24)  # culprit
    labels = tokens.where(answer, IGNORED)  # culprit
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}


def bad_uncollated() -> DataLoader[Any]:
    """The same in rows that the dataset makes."""
    return loader(pair)


def good() -> DataLoader[Any]:
    """The cut leaves a part of every answer."""
    return loader(dialogue, Answers(36))


def good_one_label() -> DataLoader[Any]:
    """Rows with a single label, of the last token."""

    def last(number: int) -> Batch:
        tokens = Tokenizer().words(number, 24)
        labels = torch.full_like(tokens, IGNORED)
        labels[-1] = tokens[-1]
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}

    return loader(last, multiprocessing_context="fork")


def good_prompts() -> DataLoader[Any]:
    """Rows to continue, which have no labels."""
    return loader(lambda number: {"input_ids": Tokenizer().words(number, 12)}, multiprocessing_context="fork")
