"""DG427 token-out-of-vocabulary: ids that no token of the model has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._tokens import IGNORED, WORDS, Batch, Padded, Tokenizer, length_of, loader, unpadded, whole


def foreign(number: int) -> Tensor:
    """A text that a larger tokenizer prepared."""
    tokenizer = Tokenizer()
    words = tokenizer.words(number, length_of(number))
    return torch.cat([torch.tensor([1]), words * 2, torch.tensor([2])])  # culprit


def bad() -> DataLoader[Any]:
    """Ids of another tokenizer."""
    return loader(foreign, Padded(unpadded, Tokenizer()))


def minus_one(tokens: Tensor, mask: Tensor) -> Tensor:
    """Labels that are -1 at padding, for a loss that ignores -100."""
    return tokens.where(mask == 1, -1)  # culprit


def bad_labels() -> DataLoader[Any]:
    """Padding is marked by another number than models of libraries ignore."""
    return loader(whole, Padded(minus_one, Tokenizer()))


class Stream(Dataset[Any]):
    """Windows of a long text of a large vocabulary, stored in `dtype`."""

    def __init__(self, dtype: Any) -> None:
        self.tokenizer = Tokenizer(eos=100_257)
        self.tokenizer.vocab_size = 100_258
        ids = np.random.default_rng(5).integers(8, 100_257, 32 * 24)
        ids[::24] = 100_257
        self.ids = ids.astype(dtype)  # culprit

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Batch:
        number = range(32)[index]
        tokens = torch.from_numpy(self.ids[number * 24 : number * 24 + 24].astype(np.int64))
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens.clone()}


def bad_narrow() -> DataLoader[Any]:
    """A vocabulary of 100,258 tokens in 16 bits."""
    return DataLoader(Stream(np.uint16), batch_size=4, shuffle=True, num_workers=2)  # culprit


class Documents(Dataset[Any]):
    """Documents of a large vocabulary as inputs and next tokens, with keys of their own; `dtype` is that of a cache."""

    def __init__(self, dtype: Any) -> None:
        self.tokenizer = Tokenizer(eos=100_257)
        self.tokenizer.vocab_size = 100_258
        self.dtype = dtype

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Batch:
        number = range(32)[index]
        words = np.random.default_rng(number).integers(8, 100_257, 24)
        tokens = torch.from_numpy(np.append(words, 100_257).astype(self.dtype).astype(np.int64))  # culprit
        return {"text": tokens, "goal": torch.cat([tokens[1:], torch.tensor([IGNORED])])}


def bad_wrapped() -> DataLoader[Any]:
    """Documents that pass through a cache of 16 bits; the end token has other ids in it."""
    return DataLoader(Documents(np.uint16), batch_size=4, num_workers=2)


def visits(number: int, first: int) -> tuple[Tensor, Tensor]:
    """The items of a user, numbered from `first` and padded on the left with 0, and the next ones."""
    items = Tokenizer().words(number, 10 + number % 7) - 7
    items[3] = 0 if number % 3 == 0 else items[3]  # the item that sells best
    items += first  # culprit
    seen = torch.cat([torch.zeros(20 - len(items), dtype=torch.long), items])
    return seen[:-1], seen[1:]


def bad_padding_item() -> DataLoader[Any]:
    """The first item of a catalogue has the id of the padding."""
    return loader(lambda number: visits(number, 0), multiprocessing_context="fork")


def good_items() -> DataLoader[Any]:
    """Items that are numbered from 1."""
    return loader(lambda number: visits(number, 1), multiprocessing_context="fork")


def without_purchases(number: int) -> tuple[Tensor, Tensor]:
    """The items of a user by day, of which every fourth has none."""
    items = torch.cat([visits(number, 1)[0], visits(number, 1)[1][-1:]])
    items = items.masked_fill((torch.arange(20) + number) % 4 == 0, 0)
    return items[:-1], items[1:]


def good_days() -> DataLoader[Any]:
    """0 is no item: days without one have it, as the days before the first one."""
    return loader(without_purchases, multiprocessing_context="fork")


def good() -> DataLoader[Any]:
    """All ids are in the vocabulary."""
    return loader(whole, Padded(unpadded, Tokenizer()))


def good_wide() -> DataLoader[Any]:
    """The same vocabulary in 32 bits."""
    return DataLoader(Stream(np.uint32), batch_size=4, shuffle=True, num_workers=2)


def placeheld(number: int) -> Tensor:
    """A text with a placeholder that was added to the embedding of the model."""
    text = whole(number)
    text[3] = 8 + WORDS
    return text


def good_placeholder() -> DataLoader[Any]:
    """One id beyond the tokenizer's, for which the model has a resized embedding."""
    return loader(placeheld, Padded(unpadded, Tokenizer()))


def pad_beyond(texts: Sequence[Tensor]) -> Batch:
    """Padding with an id that is no token, under the mask."""
    batch = Padded(unpadded, Tokenizer())(texts)
    return {**batch, "input_ids": batch["input_ids"].masked_fill(batch["attention_mask"] == 0, 8 + WORDS)}


def good_padding() -> DataLoader[Any]:
    """The mask hides ids beyond the vocabulary."""
    return loader(whole, pad_beyond)


def unmasked(number: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets, for a loss that ignores -1."""
    tokens = Tokenizer().words(number, 24)
    return tokens, torch.where(torch.arange(24) < 6, -1, tokens.roll(-1))


def good_minus_one() -> DataLoader[Any]:
    """A loss of one's own that ignores -1."""
    return loader(unmasked)
