"""What samples of language models are made of: a small tokenizer, and texts as rows of its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

Batch = dict[str, Tensor]
IGNORED, TEXTS, WORDS = -100, 32, 90


class Tokenizer:
    """The ids of special tokens, and how many tokens there are; words begin at 8."""

    def __init__(self, pad: int | None = 0, bos: int = 1, eos: int = 2) -> None:
        self.pad_token_id, self.bos_token_id, self.eos_token_id = pad, bos, eos
        self.vocab_size = 8 + WORDS

    def words(self, number: int, length: int) -> Tensor:
        """The words of a text of this number, all different from those of its neighbours."""
        steps = torch.arange(length)
        return (steps**2 * 7 + number * 29 + steps * (number + number // WORDS)) % WORDS + 8

    def text(self, number: int, length: int) -> Tensor:
        """A text with its start and its end."""
        return torch.cat(
            [torch.tensor([self.bos_token_id]), self.words(number, length), torch.tensor([self.eos_token_id])]
        )


def length_of(number: int) -> int:
    """How many words a text has."""
    return 6 + number * 5 % 9


class Texts(Dataset[Any]):
    """Texts of several lengths, each as what `made` returns for its number."""

    def __init__(self, made: Callable[[int], Any], count: int = TEXTS) -> None:
        self.made = made
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.made(range(self.count)[index])


class Padded:
    """A collate_fn that pads texts to the longest; `labels` makes the labels of tokens and mask."""

    def __init__(self, labels: Callable[[Tensor, Tensor], Tensor], tokenizer: Tokenizer, width: int = 0) -> None:
        self.labels = labels
        self.tokenizer = tokenizer
        self.width = width

    def __call__(self, texts: Sequence[Tensor]) -> Batch:
        pad = self.tokenizer.pad_token_id
        fill = self.tokenizer.eos_token_id if pad is None else pad
        cut = [text[: self.width or None] for text in texts]  # culprit
        tokens = pad_sequence(cut, batch_first=True, padding_value=fill)
        lengths = torch.tensor([min(len(text), self.width or len(text)) for text in texts])
        mask = (torch.arange(tokens.shape[1]) < lengths[:, None]).long()
        return {"input_ids": tokens, "attention_mask": mask, "labels": self.labels(tokens, mask)}


def unpadded(tokens: Tensor, mask: Tensor) -> Tensor:
    """Labels of all tokens but padding."""
    return tokens.where(mask == 1, IGNORED)


def everything(tokens: Tensor, mask: Tensor) -> Tensor:
    """Labels of all tokens."""
    del mask
    return tokens.clone()  # culprit


def loader(made: Callable[[int], Any], collate: Callable[..., Any] | None = None, **options: Any) -> DataLoader[Any]:
    """A training loader of such texts."""
    return DataLoader(Texts(made), batch_size=4, shuffle=True, num_workers=2, collate_fn=collate, **options)


def whole(number: int) -> Tensor:
    """A text as the tokenizer makes it."""
    return Tokenizer().text(number, length_of(number))
