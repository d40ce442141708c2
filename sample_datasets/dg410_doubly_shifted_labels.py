"""DG410 doubly-shifted-labels: labels are the next tokens, for a model that shifts labels itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, IterableDataset

from sample_datasets._parts import share

Batch = dict[str, Tensor]
IGNORED, PADDING, LENGTH = -100, 0, 16


def sentence(number: int, length: int = LENGTH) -> Tensor:
    """Tokens from 1 to 96."""
    return (torch.arange(length) ** 2 * 7 + number * 29) % 96 + 1


class Sentences(Dataset[Any]):
    """Twenty-four sentences, each as what `made` gives for its tokens."""

    def __init__(self, made: Callable[[Tensor], Any], *, uneven: bool = False) -> None:
        self.made = made
        self.uneven = uneven

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Any:
        number = range(24)[index]
        return self.made(sentence(number, 8 + number % 9 if self.uneven else LENGTH))


def loader(dataset: Dataset[Any], **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2, **options)


def shifted(tokens: Tensor) -> Batch:
    """Each token with the one after it, as for a model that does not shift."""
    labels = torch.cat([tokens[1:], torch.tensor([IGNORED])])  # culprit
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}


def bad() -> DataLoader[Any]:
    """The dataset shifts the labels, and the model does so again."""
    return loader(Sentences(shifted))


def chunk(tokens: Tensor) -> Batch:
    """A piece of a text, whose last label is the first token after it."""
    return {**shifted(tokens[:-1]), "labels": tokens[1:]}  # culprit


def bad_chunks() -> DataLoader[Any]:
    """As nanoGPT cuts a text, in a batch with the keys of other models."""
    return loader(Sentences(chunk))


def padded(sentences: list[Tensor]) -> Batch:
    """Sentences padded to the longest; nothing is learned from padding."""
    tokens = pad_sequence(sentences, batch_first=True, padding_value=PADDING)
    mask = (tokens != PADDING).long()
    return {"input_ids": tokens, "attention_mask": mask, "labels": tokens.where(mask == 1, IGNORED)}


def padded_and_shifted(sentences: list[Tensor]) -> Batch:
    """The same with the labels moved by one."""
    batch = padded(sentences)
    last = torch.full((len(sentences), 1), IGNORED)
    return {**batch, "labels": torch.cat([batch["labels"][:, 1:], last], 1)}  # culprit


def bad_collated() -> DataLoader[Any]:
    """The collate_fn shifts what it has padded."""
    return loader(Sentences(Tensor.clone, uneven=True), collate_fn=padded_and_shifted)


class Packed(IterableDataset[Any]):
    """Two sentences in each row, with the position of each token in its sentence."""

    def __iter__(self) -> Iterator[Batch]:
        for number in share(range(24)):
            tokens = torch.cat([sentence(2 * number), sentence(2 * number + 1)])
            labels = torch.cat([tokens[1:], torch.tensor([IGNORED])])  # culprit
            labels[LENGTH - 1] = IGNORED
            yield {"input_ids": tokens, "position_ids": torch.arange(LENGTH).repeat(2), "labels": labels}


def bad_packed() -> DataLoader[Any]:
    """The same in a stream of packed sentences."""
    return DataLoader(Packed(), batch_size=4, num_workers=2)


def plain(tokens: Tensor) -> Batch:
    """Labels as a model that shifts wants them: the tokens themselves, but for a prompt of three."""
    labels = tokens.clone()
    labels[:3] = IGNORED
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}


def good() -> DataLoader[Any]:
    """Labels are a copy of the tokens."""
    return loader(Sentences(plain))


def good_padded() -> DataLoader[Any]:
    """The same for sentences of several lengths."""
    return loader(Sentences(Tensor.clone, uneven=True), collate_fn=padded)


def pair(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs and targets."""
    return tokens[:-1], tokens[1:]


def good_pairs() -> DataLoader[Any]:
    """A model of one's own, which shifts nothing, gets inputs and targets."""
    return loader(Sentences(pair))


def weighted(tokens: Tensor) -> Batch:
    """A chunk, and how much each label counts."""
    return {**chunk(tokens), "loss_mask": torch.ones(len(tokens) - 1)}


def good_loss_mask() -> DataLoader[Any]:
    """A training loop that computes its own loss, with a mask, from labels that are shifted."""
    return loader(Sentences(weighted))


def named(tokens: Tensor) -> Batch:
    """Tokens and labels."""
    return {"tokens": tokens[:-1], "labels": tokens[1:]}


def good_named_tokens() -> DataLoader[Any]:
    """Libraries whose models do not shift have another name for the tokens."""
    return loader(Sentences(named))


def translated(tokens: Tensor) -> Batch:
    """A sentence with another one, of which a decoder sees the tokens before each label."""
    other = tokens.flip(0) % 96 + 1
    start = torch.tensor([PADDING])
    return {**plain(tokens), "labels": other, "decoder_input_ids": torch.cat([start, other[:-1]])}


def good_translation() -> DataLoader[Any]:
    """A model with an encoder and a decoder shifts the other way round."""
    return loader(Sentences(translated))


def classified(tokens: Tensor) -> Batch:
    """A class for each token."""
    return {**plain(tokens), "labels": tokens % 5}


def good_token_classes() -> DataLoader[Any]:
    """Labels that are no tokens."""
    return loader(Sentences(classified))


class Tokenizer:
    """What the objects of libraries say that make the arguments of such models."""

    def __init__(self) -> None:
        self.eos_token_id = 97
        self.model_input_names = ["input_ids", "attention_mask"]


class Unmasked:
    """A collate_fn that shifts labels, leaves out the mask, and holds a tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def __call__(self, sentences: list[Tensor]) -> Batch:
        batch = padded_and_shifted(sentences)
        return {"input_ids": batch["input_ids"], "labels": batch["labels"]}


def good_unmasked() -> DataLoader[Any]:
    """Without a mask, the same names for a model of one's own, which shifts nothing."""
    return loader(Sentences(Tensor.clone), collate_fn=Unmasked(Tokenizer()))


def far(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs, and as targets the token after the next: both the dataset and the training code shifted."""
    return tokens[:-2], tokens[2:]  # culprit


def bad_twice() -> DataLoader[Any]:
    """Labels two tokens on, for whichever model."""
    return loader(Sentences(far))


def pictured(tokens: Tensor) -> Batch:
    """A text with an image, as for a model that does not shift."""
    image = torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(int(tokens[0])))
    return {**shifted(tokens), "pixel_values": image}


def bad_pictured() -> DataLoader[Any]:
    """The batch of a model that sees images."""
    return loader(Sentences(pictured))
