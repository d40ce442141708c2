"""DG424 doubled-start: rows begin with two start tokens."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from sample_datasets._tokens import WORDS, Padded, Tokenizer, length_of, loader, unpadded, whole


def templated(number: int) -> Tensor:
    """A text whose template wrote the start token before the tokenizer added it."""
    return torch.cat([torch.tensor([1]), whole(number)])  # culprit


def bad() -> DataLoader[Any]:
    """Template and tokenizer both add a start token."""
    return loader(templated, Padded(unpadded, Tokenizer()))


class Constants(Tokenizer):
    """A tokenizer whose ids are constants of its class."""

    pad_token_id, bos_token_id, eos_token_id, vocab_size = 0, 1, 2, 8 + WORDS

    def __init__(self) -> None:
        pass


def bad_constants() -> DataLoader[Any]:
    """The start token is a constant of the class of the tokenizer."""
    return loader(templated, Padded(unpadded, Constants()))


def good_constants() -> DataLoader[Any]:
    """The same with one start token."""
    return loader(whole, Padded(unpadded, Constants()))


class OnTheLeft(Padded):
    """Rows padded on the left."""

    def __call__(self, texts: Any) -> dict[str, Tensor]:
        batch = super().__call__([text.flip(0) for text in texts])
        return {name: leaf.flip(1) for name, leaf in batch.items()}


def bad_on_the_left() -> DataLoader[Any]:
    """The same with padding on the left."""
    return loader(templated, OnTheLeft(unpadded, Tokenizer()))


def good() -> DataLoader[Any]:
    """Only the tokenizer adds one."""
    return loader(whole, Padded(unpadded, Tokenizer()))


def repeated(number: int) -> Tensor:
    """A text whose first word may be the name of the start token."""
    return templated(number) if number % 3 == 0 else whole(number)


def good_repeated() -> DataLoader[Any]:
    """Some texts begin with the same token once more."""
    return loader(repeated, Padded(unpadded, Tokenizer()))


def stammer(number: int) -> Tensor:
    """A text that begins with a word twice, and with no start token."""
    words = Tokenizer().words(number, length_of(number))
    return torch.cat([torch.tensor([40, 40]), words, torch.tensor([2])])


def good_first_word() -> DataLoader[Any]:
    """Every text begins with one word twice, which is no start token."""
    return loader(stammer, Padded(unpadded, Tokenizer()))


def good_left_padding() -> DataLoader[Any]:
    """The start token is the padding token too, and the mask hides it."""
    return loader(whole, OnTheLeft(unpadded, Tokenizer(pad=1)))


def packed(number: int, *, doubled: bool) -> Tensor:
    """A part of several texts, one after another, which begins within the first."""
    texts = [(templated if doubled else whole)(3 * number + part) for part in range(3)]
    return torch.cat(texts)[4:28]  # culprit


def bad_packed() -> DataLoader[Any]:
    """Two start tokens within packed rows, none of which begins with one."""
    return loader(partial(packed, doubled=True), Padded(unpadded, Tokenizer()))


def good_packed() -> DataLoader[Any]:
    """One start token for each text of packed rows."""
    return loader(partial(packed, doubled=False), Padded(unpadded, Tokenizer()))
