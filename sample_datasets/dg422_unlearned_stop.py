"""DG422 unlearned-stop: the token that ends a text never has a label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, IterableDataset

from sample_datasets._parts import share
from sample_datasets._tokens import IGNORED, Batch, Padded, Tokenizer, length_of, loader, unpadded, whole

END = 2


def by_id(tokens: Tensor, mask: Tensor) -> Tensor:
    """Labels of all tokens but the padding token, wherever that stands."""
    del mask
    return tokens.where(tokens != END, IGNORED)  # culprit


def bad() -> DataLoader[Any]:
    """Padding is the end token, and ignored by its id."""
    return loader(whole, Padded(by_id, Tokenizer(pad=END)))


class Blocks(IterableDataset[Any]):
    """Texts joined, and cut into blocks of 32 tokens; `labels` makes the labels."""

    def __init__(self, labels: Any) -> None:
        self.labels = labels
        self.tokenizer = Tokenizer(pad=END)

    def __iter__(self) -> Iterator[Batch]:
        texts = [self.tokenizer.text(number, length_of(number)) for number in range(80)]
        for tokens in share(torch.cat(texts).split(32)[:24]):
            mask = torch.ones_like(tokens)
            yield {"input_ids": tokens, "attention_mask": mask, "labels": self.labels(tokens, mask)}


def bad_blocks() -> DataLoader[Any]:
    """The same in blocks without padding, where the end token separates texts."""
    return DataLoader(Blocks(by_id), batch_size=4, num_workers=2)


class OwnKeys:
    """A collate_fn with keys of its own, and a mask that takes the end token for the padding."""

    def __init__(self) -> None:
        self.tokenizer = Tokenizer(pad=END)

    def __call__(self, texts: Sequence[Tensor]) -> Batch:
        batch = Padded(unpadded, self.tokenizer)(texts)
        ids = batch["input_ids"]
        return {"ids": ids[:, :-1], "goal": ids[:, 1:], "keep": (ids[:, 1:] != END).long()}  # culprit


def bad_own_keys() -> DataLoader[Any]:
    """The next tokens, and a mask of the loss by the padding id."""
    return loader(whole, OwnKeys())


def answers(tokens: Tensor, mask: Tensor) -> Tensor:
    """Labels of an answer from its fourth token on, without the last."""
    labels = unpadded(tokens, mask)
    labels[:, :3] = IGNORED
    labels[torch.arange(len(labels)), mask.sum(1) - 1] = IGNORED  # culprit
    return labels


def bad_mask() -> DataLoader[Any]:
    """The mask of the answer leaves out its last token."""
    return loader(whole, Padded(answers, Tokenizer()))


def endless(number: int) -> Tensor:
    """A text without its end."""
    return whole(number)[:-1]  # culprit


def bad_missing() -> DataLoader[Any]:
    """The tokenizer adds no end token."""
    return loader(endless, Padded(unpadded, Tokenizer()))


def joined(texts: Sequence[Tensor]) -> Batch:
    """Texts padded with the end token, which the mask hides wherever it stands."""
    tokens = pad_sequence(list(texts), batch_first=True, padding_value=END)
    mask = (tokens != END).long()  # culprit
    return {"input_ids": tokens, "attention_mask": mask, "labels": tokens.where(mask == 1, IGNORED)}


def bad_mask_by_id() -> DataLoader[Any]:
    """Two turns in a row, whose ends a mask hides by their id; no tokenizer says that they are ends."""
    return loader(turns, joined, multiprocessing_context="fork")


def prompted(texts: Sequence[Tensor]) -> Batch:
    """Prompts and replies, each padded to the longest of its own: padding stands between them, too."""
    parts = zip(*((text[: 4 + len(text) % 3], text[4 + len(text) % 3 :]) for text in texts), strict=True)
    tokens = torch.cat([pad_sequence(list(part), batch_first=True) for part in parts], 1)
    mask = (tokens != 0).long()
    return {"input_ids": tokens, "attention_mask": mask, "labels": unpadded(tokens, mask)}


def good_padded_prompts() -> DataLoader[Any]:
    """A mask that hides padding between a prompt and its reply."""
    return loader(turns, prompted, multiprocessing_context="fork")


def good() -> DataLoader[Any]:
    """Padding is a token of its own, and the end token is learned."""
    return loader(whole, Padded(unpadded, Tokenizer()))


def good_by_length() -> DataLoader[Any]:
    """Padding is the end token, but labels are made by the lengths of texts."""
    return loader(whole, Padded(unpadded, Tokenizer(pad=END)))


def good_blocks() -> DataLoader[Any]:
    """Blocks of joined texts, in which the end token has a label."""
    return DataLoader(Blocks(unpadded), batch_size=4, num_workers=2)


def turns(number: int) -> Tensor:
    """A question and an answer, each with an end."""
    return torch.cat([whole(number), Tokenizer().words(number + 7, 5), torch.tensor([END])])


class Turns:
    """A collate_fn that leaves the question out of the loss, its end too."""

    def __init__(self) -> None:
        self.tokenizer = Tokenizer()

    def __call__(self, texts: Sequence[Tensor]) -> Batch:
        batch = Padded(unpadded, self.tokenizer)(texts)
        question = (batch["input_ids"] == END).cumsum(1) == 0
        first = torch.cat([torch.ones(len(question), 1, dtype=torch.bool), question[:, :-1]], 1)
        return {**batch, "labels": batch["labels"].masked_fill(first, IGNORED)}


def good_turns() -> DataLoader[Any]:
    """The end of the question is not learned, that of the answer is."""
    return loader(turns, Turns())


def stopped(number: int) -> Tensor:
    """A text that ends in a token of the chat template and not in the tokenizer's."""
    return torch.cat([whole(number)[:-1], torch.tensor([5])])


def good_template() -> DataLoader[Any]:
    """A template whose texts end in a token of its own."""
    return loader(stopped, Padded(unpadded, Tokenizer()))


class Masked:
    """A collate_fn whose batches have a mask of what is learned instead of labels; `ends`: with ends of replies."""

    def __init__(self, tokenizer: Tokenizer, ends: bool) -> None:
        self.tokenizer = tokenizer
        self.ends = ends

    def __call__(self, numbers: Sequence[int]) -> Batch:
        rows, masks = [], []
        for number in numbers:
            question, answer = (self.tokenizer.words(2 * number + side, length_of(number + side)) for side in (0, 1))
            rows.append(torch.cat([torch.tensor([1, 3]), question, torch.tensor([4]), answer, torch.tensor([2])]))
            learned = torch.arange(len(rows[-1])) > 2 + len(question)
            learned[-1] = self.ends
            masks.append(learned.long())  # culprit
        return {"ids": pad_sequence(rows, batch_first=True), "loss_mask": pad_sequence(masks, batch_first=True)}


def bad_places() -> DataLoader[Any]:
    """A mask of learned tokens, beside no labels, that leaves out the end of each reply."""
    return loader(int, Masked(Tokenizer(), ends=False), multiprocessing_context="fork")


def good_places() -> DataLoader[Any]:
    """A mask with the ends of replies."""
    return loader(int, Masked(Tokenizer(), ends=True), multiprocessing_context="fork")
