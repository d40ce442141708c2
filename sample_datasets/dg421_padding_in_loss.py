"""DG421 padding-in-loss: where the mask hides padding, labels are tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from sample_datasets._tokens import IGNORED, WORDS, Batch, Padded, Tokenizer, everything, loader, unpadded, whole

MASK = 7 + WORDS
"""The last token of the vocabulary."""


def bad() -> DataLoader[Any]:
    """Labels are a copy of the padded tokens."""
    return loader(whole, Padded(everything, Tokenizer()))  # culprit


def prompted(tokens: Tensor, mask: Tensor) -> Tensor:
    """The first three tokens are a prompt, which is not learned; padding is."""
    return torch.cat([torch.full_like(tokens[:, :3], IGNORED), everything(tokens, mask)[:, 3:]], 1)  # culprit


def bad_prompted() -> DataLoader[Any]:
    """The prompt is left out of the loss, and the padding is not."""
    return loader(whole, Padded(prompted, Tokenizer()))


def on_the_left(texts: Sequence[Tensor]) -> Batch:
    """Rows padded on the left, with a copy as labels."""
    width = max(map(len, texts))
    tokens = torch.stack([torch.cat([torch.zeros(width - len(text), dtype=torch.long), text]) for text in texts])
    return {"input_ids": tokens, "attention_mask": (tokens != 0).long(), "labels": tokens.clone()}  # culprit


def bad_on_the_left() -> DataLoader[Any]:
    """The same with padding on the left."""
    return loader(whole, on_the_left)


class Translations:
    """Sources and targets, each padded to a width of its own; `fill` pads the labels."""

    def __init__(self, fill: int) -> None:
        self.fill = fill
        self.tokenizer = Tokenizer()

    def __call__(self, texts: Sequence[Tensor]) -> Batch:
        batch = Padded(unpadded, self.tokenizer)(texts)
        targets = [text.flip(0)[: len(text) - 2] for text in texts]
        return {**batch, "labels": pad_sequence(targets, batch_first=True, padding_value=self.fill)}  # culprit


def bad_translation() -> DataLoader[Any]:
    """Targets of a model with a decoder, padded with the padding token."""
    return loader(whole, Translations(0))  # culprit


class Masked(Padded):
    """A collate_fn that masks every fifth token, in other places of each row; labels are what was there."""

    def __call__(self, texts: Sequence[Tensor]) -> Batch:
        batch = super().__call__(texts)
        places = torch.arange(batch["input_ids"].shape[1]) + torch.arange(len(texts))[:, None]
        masked = (places % 5 == 2) & (batch["input_ids"] >= 8)
        return {**batch, "input_ids": batch["input_ids"].masked_fill(masked, MASK)}


def bad_masked() -> DataLoader[Any]:
    """A masked language model that learns all tokens, padding included."""
    return loader(whole, Masked(everything, Tokenizer()))  # culprit


class Chosen(Masked):
    """The same with the places that were masked, for a loss that counts only these."""

    def __call__(self, texts: Sequence[Tensor]) -> Batch:
        batch = super().__call__(texts)
        return {**batch, "masked": batch["input_ids"] == MASK}


def good_masked_places() -> DataLoader[Any]:
    """Labels of all tokens, and which of them count."""
    return loader(whole, Chosen(everything, Tokenizer()))


class Preferred(Padded):
    """A collate_fn of pairs of answers: each text, and its words in reverse."""

    def __call__(self, texts: Sequence[Tensor]) -> Batch:
        sides = {
            "chosen": list(texts),
            "rejected": [torch.cat([text[:1], text[1:-1].flip(0), text[-1:]]) for text in texts],
        }
        batches = {side: super(Preferred, self).__call__(answers) for side, answers in sides.items()}
        return {f"{side}_{name}": leaf for side, batch in batches.items() for name, leaf in batch.items()}


def bad_preferred() -> DataLoader[Any]:
    """Labels of both answers are a copy of the padded tokens."""
    return loader(whole, Preferred(everything, Tokenizer()))  # culprit


def good_preferred() -> DataLoader[Any]:
    """Padding of both answers is ignored."""
    return loader(whole, Preferred(unpadded, Tokenizer()))


class ByName:
    """A collate_fn of pairs of answers that pads each leaf by a table of its names; the first words are a prompt."""

    def __init__(self, fills: dict[str, int]) -> None:
        self.fills, self.tokenizer = fills, Tokenizer()

    def __call__(self, texts: Sequence[Tensor]) -> Batch:
        rows, batch = [self.answers(text) for text in texts], {}
        for name in rows[0]:
            fill, leaves = self.fills.get(name, 0), [row[name] for row in rows]
            batch[name] = pad_sequence(leaves, batch_first=True, padding_value=fill)  # culprit
        return batch

    def answers(self, text: Tensor) -> Batch:
        """The text, and its words in reverse, as answers to what both begin with."""
        turned = torch.cat([text[:4], text[4:-1].flip(0), text[-1:]])
        sides = {"chosen": text, "rejected": turned[: max(6, len(text) - 3)]}
        learned = {side: torch.cat([torch.full((4,), IGNORED), answer[4:]]) for side, answer in sides.items()}
        return {
            **{f"{side}_input_ids": answer for side, answer in sides.items()},
            **{f"{side}_labels": labels for side, labels in learned.items()},
            **{f"{side}_attention_mask": torch.ones_like(answer) for side, answer in sides.items()},
        }


def bad_rejected() -> DataLoader[Any]:
    """The table of fills has no entry for the labels of the answers that are rejected."""
    return loader(whole, ByName({"chosen_labels": IGNORED}), multiprocessing_context="fork")


def good_by_name() -> DataLoader[Any]:
    """It has one for the labels of both."""
    return loader(whole, ByName({"chosen_labels": IGNORED, "rejected_labels": IGNORED}))


def good_one_side() -> DataLoader[Any]:
    """Answers that are rejected are all of one width, so that the missing entry does no harm."""
    return loader(whole, ByOneWidth({"chosen_labels": IGNORED}))


class ByOneWidth(ByName):
    """The same, and all rejected answers have a common width."""

    def answers(self, text: Tensor) -> Batch:
        row = super().answers(text)
        return {name: leaf[:6] if name.startswith("rejected") else leaf for name, leaf in row.items()}


class ByScore(ByName):
    """The same with a score for each token of an answer, which is 0 in its padding and is no label."""

    def answers(self, text: Tensor) -> Batch:
        row = super().answers(text)
        return {**row, "rejected_scores": row["rejected_input_ids"] % 5}


def good_scores() -> DataLoader[Any]:
    """Scores of tokens beside labels whose padding is ignored."""
    return loader(whole, ByScore({"chosen_labels": IGNORED, "rejected_labels": IGNORED}))


def good() -> DataLoader[Any]:
    """Padding has the label that losses ignore."""
    return loader(whole, Padded(unpadded, Tokenizer()))


def good_translation() -> DataLoader[Any]:
    """The targets, too, are padded with it."""
    return loader(whole, Translations(IGNORED))


def classes(tokens: Tensor, mask: Tensor) -> Tensor:
    """A class for each token, padded with 0, the class of most of them."""
    return (tokens % 7 == 3).long() * mask


def good_token_classes() -> DataLoader[Any]:
    """Labels that are no tokens: a loss of their own may take the mask."""
    return loader(whole, Padded(classes, Tokenizer()))


def with_loss_mask(texts: Sequence[Tensor]) -> Batch:
    """A copy as labels, and how much each of them counts."""
    batch = Padded(everything, Tokenizer())(texts)
    return {**batch, "loss_mask": batch["attention_mask"].clone()}


def good_loss_mask() -> DataLoader[Any]:
    """A loop that multiplies its loss by a mask."""
    return loader(whole, with_loss_mask)


def good_pairs() -> DataLoader[Any]:
    """Inputs and targets of a model of one's own, whose loss ignores 0."""

    def pairs(texts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        tokens = pad_sequence(list(texts), batch_first=True)
        return tokens[:, :-1], tokens[:, 1:]

    return loader(whole, pairs)


def shifted(texts: Sequence[Tensor], fill: int) -> tuple[Tensor, Tensor]:
    """Inputs, and the next tokens as targets, of which three are ignored and the padding is `fill`."""
    tokens = pad_sequence([text.flip(0) for text in texts], batch_first=True).flip(1)
    following = tokens[:, 1:].where(tokens[:, 1:] != 0, fill)  # culprit
    following[:, -3:] = IGNORED
    return tokens[:, :-1], following


def bad_tuple() -> DataLoader[Any]:
    """A tuple without a mask, padded on the left; the loss ignores another label."""
    return loader(whole, lambda texts: shifted(texts, 0), multiprocessing_context="fork")


def good_tuple() -> DataLoader[Any]:
    """The same with padding that the loss ignores."""
    return loader(whole, lambda texts: shifted(texts, IGNORED), multiprocessing_context="fork")


def stop_hidden(texts: Sequence[Tensor]) -> Batch:
    """Rows whose last token alone is hidden by the mask."""
    batch = Padded(unpadded, Tokenizer())(texts)
    lengths = batch["attention_mask"].sum(1)
    return {**batch, "attention_mask": (torch.arange(batch["labels"].shape[1]) < lengths[:, None] - 1).long()}


def good_hidden_stop() -> DataLoader[Any]:
    """The mask hides the last token, from which nothing is predicted; its label is learned."""
    return loader(whole, stop_hidden)


class Topics(Padded):
    """A collate_fn whose labels are 0 or 1 for each of six topics."""

    def __call__(self, texts: Sequence[Tensor]) -> Batch:
        topics = torch.stack([(text[1:7] % 3 == 0).long() for text in texts])
        topics[:, -2:] = 0
        return {**super().__call__(texts), "labels": topics}


def good_topics() -> DataLoader[Any]:
    """Labels of several topics, of which the last are rare."""
    return loader(whole, Topics(unpadded, Tokenizer()))
