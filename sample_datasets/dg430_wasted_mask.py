"""DG430 wasted-mask: masked tokens that teach nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from sample_datasets._tokens import IGNORED, WORDS, Batch, Padded, Tokenizer, loader, unpadded

MASK = 8 + WORDS - 1


class Masked:
    """A collate_fn that masks a share of the tokens, from the id `first` on, for a model that restores them."""

    def __init__(self, share: float = 0.15, first: int = 8) -> None:
        self.share = share
        self.first = first
        self.tokenizer = Tokenizer()

    def __call__(self, texts: Sequence[Tensor]) -> Batch:
        batch = Padded(unpadded, self.tokenizer)(texts)
        masked = (torch.rand(batch["labels"].shape) < self.share) & (batch["input_ids"] >= self.first)
        tokens = batch["input_ids"].masked_fill(masked, MASK)  # culprit
        return {**batch, "input_ids": tokens, "labels": self.learned(batch["labels"], tokens, masked)}

    def learned(self, labels: Tensor, tokens: Tensor, masked: Tensor) -> Tensor:
        """Labels of the masked places, as they were."""
        del tokens
        return labels.where(masked, IGNORED)


def bad() -> DataLoader[Any]:
    """Starts and ends of rows are masked, too."""
    return loader(
        lambda number: Tokenizer().text(number, 9 + number % 4), Masked(0.3, 1), multiprocessing_context="fork"
    )


class MaskedTwice(Masked):
    """The same with labels that are taken too late."""

    def learned(self, labels: Tensor, tokens: Tensor, masked: Tensor) -> Tensor:
        """Labels of the masked places, as they are."""
        del labels
        return tokens.where(masked, IGNORED)  # culprit


def bad_labels() -> DataLoader[Any]:
    """The label of each masked token is the mask."""
    return loader(lambda number: Tokenizer().text(number, 15 + number % 4), MaskedTwice())


def good() -> DataLoader[Any]:
    """Short rows, of which some have no label in one draw."""
    return loader(lambda number: Tokenizer().text(number, 3 + number % 4), Masked(), multiprocessing_context="fork")
