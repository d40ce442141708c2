"""DG517 augmented-evaluation: validation or test samples are random."""

from __future__ import annotations

import random
import secrets
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset
from torch.utils.data.dataloader import default_collate
from torchvision import transforms

from sample_datasets._parts import PHOTOGRAPHS, Pictures, brighten

Loaders = dict[str, DataLoader[Any]]


def bad() -> Loaders:
    """The transform of training was left in."""
    return {"val": DataLoader(Pictures(24, transform=brighten), batch_size=4)}  # culprit


class Folder(Dataset):
    """Photographs under a transform, read by Pillow."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        from PIL import Image

        path = PHOTOGRAPHS[range(len(self))[index]]
        image: Tensor = self.transform(Image.open(path).convert("RGB").resize((40, 40)))
        return image, len(path.parent.name) % 3


def bad_flipped() -> Loaders:
    """A flip was left in the transform of the test."""
    augment = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])  # culprit
    return {"test": DataLoader(Folder(augment), batch_size=4)}  # culprit


class Cropped(Pictures):
    """Pictures cut out at a place that a generator of the dataset's own draws."""

    def __init__(self) -> None:
        super().__init__(24)
        self.generator = np.random.default_rng(0)  # culprit

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        top = int(self.generator.integers(3))  # culprit
        return image[:, top : top + 6, top : top + 6], label


def bad_own_generator() -> Loaders:
    """The generator is seeded, and yet draws on: the second evaluation is another one."""
    return {"val": DataLoader(Cropped(), batch_size=4)}


class Windows(Pictures):
    """Windows that begin where the entropy of the system says."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image.roll(secrets.randbelow(64), 2) * (1 + secrets.randbelow(1000) / 1e4), label  # culprit


def bad_entropy() -> Loaders:
    """No seed reaches what the system draws."""
    return {"validation": DataLoader(Windows(24), batch_size=4)}


class Shifted(Pictures):
    """Pictures shifted by a number that is drawn at the first read, from the entropy of the system."""

    shift = 0

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.shift = self.shift or 1 + secrets.randbelow(2**20)  # culprit
        image, label = super().__getitem__(index)
        return image + self.shift / 2**20, label


def bad_entropy_once() -> Loaders:
    """Each process draws for itself, once."""
    return {"val": DataLoader(Shifted(24), batch_size=4)}


def mix(samples: list[tuple[Tensor, int]]) -> Any:
    """Mixes each picture with another one of its batch."""
    images, labels = default_collate(samples)
    share = random.uniform(0.3, 0.7)  # culprit
    return share * images + (1 - share) * images[torch.randperm(len(images))], labels  # culprit


def bad_mixed() -> Loaders:
    """One collate_fn for all loaders: the pictures of validation are mixed as well."""
    return {"val": DataLoader(Pictures(24), batch_size=4, collate_fn=mix)}  # culprit


def good() -> Loaders:
    """Two datasets over the same pictures, of which only one is augmented."""
    order = torch.randperm(48, generator=torch.Generator().manual_seed(0)).tolist()
    train, val = Subset(Pictures(48, transform=brighten), order[:32]), Subset(Pictures(48), order[32:])
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "val": DataLoader(val, batch_size=4)}


class Pairs(Pictures):
    """Pictures with a negative one, drawn by a generator that is seeded by the index."""

    def __getitem__(self, index: int) -> Any:
        number = range(len(self))[index]
        other = int(np.random.default_rng(number).integers(len(self)))
        return super().__getitem__(number)[0], super().__getitem__(other)[0]


def good_pairs() -> Loaders:
    """The negative of an index is always the same."""
    return {"test": DataLoader(Pairs(24), batch_size=4)}


def good_shuffled() -> Loaders:
    """The order of an evaluation may be drawn at random."""
    return {"val": DataLoader(Pictures(24), batch_size=4, shuffle=True)}


class Seeded(Pictures):
    """Pictures under noise that starts over for each index."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        with torch.random.fork_rng():
            torch.manual_seed(range(len(self))[index])
            return image + 0.1 * torch.randn_like(image), label


def good_seeded() -> Loaders:
    """The same noise at every read, as a test of robustness wants it."""
    return {"test": DataLoader(Seeded(24), batch_size=4)}


def good_drawn_once() -> Loaders:
    """Places are drawn once, when the dataset is made."""
    pictures = Pictures(24)
    pictures.images = torch.stack([image.roll(random.randrange(8), 2) for image in pictures.images])
    return {"val": DataLoader(pictures, batch_size=4)}


class Deciding(Pictures):
    """Draws whether to augment, and does so only in training."""

    training = False

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        factor = random.uniform(0.5, 1.5)
        return (image * factor if self.training else image), label


def good_unused() -> Loaders:
    """Random numbers are drawn, and not used."""
    return {"val": DataLoader(Deciding(24), batch_size=4)}


MASK, IGNORED = 1, -100


def masked(tokens: Tensor) -> dict[str, Tensor]:
    """Tokens of which about a seventh is to be predicted: most of these are masked, some replaced, some kept."""
    chosen = torch.rand(tokens.shape) < 0.15
    how = torch.rand(tokens.shape)
    inputs = tokens.where(~chosen | (how > 0.8), MASK)
    inputs = inputs.where(~chosen | (how < 0.9), torch.randint(2, 50, tokens.shape))
    return {"input_ids": inputs, "labels": tokens.where(chosen, IGNORED)}


class Tokens(Dataset[Tensor]):
    """Sentences of 24 tokens."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Any:
        return (torch.arange(24) * 7 + range(24)[index]) % 48 + 2


class MaskedTokens(Tokens):
    """Sentences that are masked when they are read."""

    def __getitem__(self, index: int) -> Any:
        return masked(super().__getitem__(index))


def mask_batch(samples: list[Tensor]) -> dict[str, Tensor]:
    return masked(torch.stack(samples))


def good_masked() -> Loaders:
    """A masked language model is evaluated on masks that are drawn anew."""
    return {
        "val": DataLoader(MaskedTokens(), batch_size=4),
        "test": DataLoader(Tokens(), batch_size=4, collate_fn=mask_batch),
    }
