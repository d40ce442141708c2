"""DG409 neighbour-dependent-row: what a batch holds of a sample depends on the other samples in it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.dataloader import default_collate

from sample_datasets._parts import Pictures

Batch = dict[str, Tensor]
LONGEST = 24


class Sentences(Dataset[Tensor]):
    """Twenty-four sentences of 5 to 23 tokens, none of them 0."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Tensor:
        number = range(24)[index]
        return (torch.arange(5 + number * 7 % 19) * 11 + number * 5) % 97 + 1


def loader(collate: Callable[[list[Any]], Any], dataset: Dataset[Any] | None = None) -> DataLoader[Any]:
    return DataLoader(dataset or Sentences(), batch_size=4, shuffle=True, num_workers=2, collate_fn=collate)


def filled(sentences: list[Tensor], width: int) -> Batch:
    """Rows of one width: longer sentences are cut, shorter ones padded."""
    tokens = torch.zeros(len(sentences), width, dtype=torch.int64)
    for row, sentence in zip(tokens, sentences, strict=True):
        row[: len(sentence)] = sentence[:width]
    return {"tokens": tokens, "mask": tokens != 0}


def like_first(sentences: list[Tensor]) -> Batch:
    """As wide as the first sentence."""
    return filled(sentences, len(sentences[0]))  # culprit


def bad() -> DataLoader[Any]:
    """The first sentence decides how much there is of the others."""
    return loader(like_first)


def like_shortest(sentences: list[Tensor]) -> Batch:
    """As wide as the shortest sentence."""
    return filled(sentences, min(map(len, sentences)))  # culprit


def bad_shortest() -> DataLoader[Any]:
    """The shortest one does."""
    return loader(like_shortest)


def normalized(samples: list[tuple[Tensor, int]]) -> Any:
    """Pictures less the mean of their batch."""
    images, labels = default_collate(samples)
    return (images - images.mean()) / images.std(), labels  # culprit


def bad_statistics() -> DataLoader[Any]:
    """How bright a picture is depends on the others."""
    return loader(normalized, Uneven(24))


class Uneven(Pictures):
    """Pictures of different brightness."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image * (1 + label), label


def scaled(samples: list[tuple[Tensor, int]]) -> Batch:
    """Pictures as shares of the largest value in their batch."""
    images, labels = default_collate(samples)
    return {"image": images / images.max(), "label": labels}  # culprit


def bad_largest() -> DataLoader[Any]:
    """The largest value in a batch is 1, whichever picture has it."""
    return loader(scaled, Uneven(24))


def by_feature(samples: list[tuple[Tensor, int]]) -> Any:
    """Each value less the mean of those at its place in the batch."""
    images, labels = default_collate(samples)
    return (images - images.mean(0)) / (images.std(0) + 0.1), labels  # culprit


def bad_by_feature() -> DataLoader[Any]:
    """Statistics of the batch at each place."""
    return loader(by_feature, Uneven(24))


def by_column(samples: list[tuple[Tensor, int]]) -> Any:
    """Each column by the mean and deviation of that column in the batch."""
    images, labels = default_collate(samples)
    return (images - images.mean((0, 1, 2))) / images.std((0, 1, 2)), labels  # culprit


def bad_last_axis() -> DataLoader[Any]:
    """Statistics of the batch along its last axis."""
    return loader(by_column, Uneven(24))


class Recordings(Dataset[tuple[Tensor, int]]):
    """Twenty-four recordings of five channels and different lengths."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        number = range(24)[index]
        values = (torch.arange((6 + number * 7 % 19) * 5) * 0.618034 + number * 0.37) % 1
        return values.reshape(-1, 5) * (1 + number % 3), number % 4


def by_channel(samples: list[tuple[Tensor, int]]) -> Batch:
    """Padded recordings, each channel normalized over all of them."""
    every = torch.cat([values for values, _ in samples])  # culprit
    rows = [(values - every.mean(0)) / every.std(0) for values, _ in samples]  # culprit
    return {
        "x": pad_sequence(rows, batch_first=True),
        "lengths": torch.tensor([len(row) for row in rows]),
        "label": torch.tensor([label for _, label in samples]),
    }


def bad_ragged() -> DataLoader[Any]:
    """Statistics of the batch over recordings of different lengths."""
    return loader(by_channel, Recordings())


def blended(samples: list[tuple[Tensor, int]]) -> Any:
    """Each picture mixed with another one; the labels stay."""
    images, labels = default_collate(samples)
    share = random.betavariate(1, 1)
    return share * images + (1 - share) * images[torch.randperm(len(images))], labels  # culprit


def bad_blended() -> DataLoader[Any]:
    """Mixing that labels do not follow."""
    return loader(blended, Pictures(24))


def pasted(samples: list[tuple[Tensor, int]]) -> Any:
    """Half of each picture is that of its neighbour; the labels stay."""
    images, labels = default_collate(samples)
    images[:, :, 4:] = images.roll(1, 0)[:, :, 4:]  # culprit
    return {"image": images, "label": labels}


def bad_pasted() -> DataLoader[Any]:
    """Pasting that labels do not follow."""
    return loader(pasted, Pictures(24))


def like_longest(sentences: list[Tensor]) -> Batch:
    """As wide as the longest sentence."""
    return filled(sentences, max(map(len, sentences)))


def good() -> DataLoader[Any]:
    """The longest sentence decides on the width, and no token is lost."""
    return loader(like_longest)


def by_length(sentences: list[Tensor]) -> Batch:
    """Padded rows, the longest first, and where each one was."""
    order = sorted(range(len(sentences)), key=lambda place: -len(sentences[place]))
    lengths = torch.tensor([len(sentences[place]) for place in order])
    rows = pad_sequence([sentences[place] for place in order], batch_first=True)
    return {"tokens": rows, "lengths": lengths, "order": torch.tensor(order)}


def good_sorted() -> DataLoader[Any]:
    """Rows change places with their neighbours."""
    return loader(by_length)


def packed(sentences: list[Tensor]) -> Batch:
    """All sentences in one row, and where each begins."""
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    return {"tokens": torch.cat(sentences), "offsets": lengths.cumsum(0) - lengths}


def good_packed() -> DataLoader[Any]:
    """Where a sentence begins depends on those before it."""
    return loader(packed)


def fixed(sentences: list[Tensor]) -> Batch:
    """Twelve tokens wide."""
    return filled(sentences, 12)


def good_fixed_length() -> DataLoader[Any]:
    """Long sentences are cut to a length that is always the same."""
    return loader(fixed)


class Padded(Sentences):
    """Sentences padded to the longest of all."""

    def __getitem__(self, index: int) -> Tensor:
        sentence = super().__getitem__(index)
        return torch.cat([sentence, torch.zeros(LONGEST - len(sentence), dtype=torch.int64)])


def trimmed(rows: list[Tensor]) -> Batch:
    """As many columns as the longest sentence of the batch needs."""
    tokens = torch.stack(rows)
    return filled(list(tokens), int((tokens != 0).sum(1).max()))


def good_trimmed() -> DataLoader[Any]:
    """Only padding is cut off."""
    return loader(trimmed, Padded())


def mixed(samples: list[tuple[Tensor, int]]) -> Any:
    """Each picture mixed with another one, and its label as well."""
    images, labels = default_collate(samples)
    share, order = random.uniform(0.3, 0.7), torch.randperm(len(images))
    targets = torch.nn.functional.one_hot(labels, 4).float()
    return share * images + (1 - share) * images[order], share * targets + (1 - share) * targets[order]


def good_mixed() -> DataLoader[Any]:
    """Mixing is an augmentation."""
    return loader(mixed, Pictures(24))


def halved(samples: list[tuple[Tensor, int]]) -> Any:
    """Each picture mixed with the one at the other end of the batch, half and half, and its label as well."""
    images, labels = default_collate(samples)
    return (images + images.flip(0)) / 2, labels, labels.flip(0)


def good_halved() -> DataLoader[Any]:
    """The same without a random number."""
    return loader(halved, Pictures(24))


def with_negatives(samples: list[tuple[Tensor, int]]) -> Batch:
    """Pictures, and another one of the batch for each to differ from."""
    images, labels = default_collate(samples)
    return {"image": images, "negative": images.roll(1, 0), "label": labels}


def good_negatives() -> DataLoader[Any]:
    """What a picture is compared with is another sample, as it is."""
    return loader(with_negatives, Pictures(24))


def standardized(samples: list[tuple[Tensor, int]]) -> Any:
    """Pictures less their own mean."""
    images, labels = default_collate(samples)
    return images - images.mean((1, 2, 3), keepdim=True), labels


def good_statistics() -> DataLoader[Any]:
    """Each picture is normalized by itself."""
    return loader(standardized, Uneven(24))


def by_known_statistics(samples: list[tuple[Tensor, int]]) -> Any:
    """Each value by the statistics of the training set."""
    images, labels = default_collate(samples)
    known = Uneven(24)
    everything = torch.stack([known[number][0] for number in range(24)])
    return (images - everything.mean(0)) / (everything.std(0) + 0.1), labels


def good_by_feature() -> DataLoader[Any]:
    """The statistics at each place are always the same."""
    return loader(by_known_statistics, Uneven(24))


def with_noise(samples: list[tuple[Tensor, int]]) -> Any:
    """Another picture as faint noise."""
    images, labels = default_collate(samples)
    return 0.8 * images + 0.2 * images.roll(1, 0), labels


def good_noise() -> DataLoader[Any]:
    """A label does not change for a little noise."""
    return loader(with_noise, Pictures(24))


def separated(samples: list[tuple[Tensor, int]]) -> Batch:
    """Two pictures in one, and the one to find in it."""
    images, labels = default_collate(samples)
    return {"mixture": (images + images.roll(1, 0)) / 2, "clean": images, "speaker": labels}


def good_separated() -> DataLoader[Any]:
    """The target of a mixture is one of its parts."""
    return loader(separated, Pictures(24))


def with_times(samples: list[tuple[Tensor, int]]) -> Batch:
    """Padded recordings, and at which share of the longest one each value is."""
    rows = pad_sequence([values for values, _ in samples], batch_first=True)
    times = torch.linspace(0, 1, rows.shape[1]).repeat(len(rows), 1)
    return {"x": rows, "times": times, "lengths": torch.tensor([len(values) for values, _ in samples])}


def good_times() -> DataLoader[Any]:
    """Times are relative to the longest recording."""
    return loader(with_times, Recordings())
