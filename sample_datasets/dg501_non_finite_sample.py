"""DG501 non-finite-sample: NaN or infinity reaches the model."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import Pictures, picture


def bad() -> DataLoader[Any]:
    """One pixel of picture 11 is NaN."""
    pictures = Pictures()
    pictures.images[11, 0, 3, 5] = torch.nan
    return DataLoader(pictures, batch_size=4, num_workers=2)


class LogPictures(Pictures):
    """Logarithms of pictures, as spectrograms are taken."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image.log(), label  # culprit


def bad_inf() -> DataLoader[Any]:
    """The logarithm of one pixel that is 0 is minus infinity."""
    pictures = LogPictures()
    pictures.images = pictures.images.clamp(min=0.1)
    pictures.images[11, 0, 3, 5] = 0
    return DataLoader(pictures, batch_size=4, num_workers=2)


class PricedPictures(Pictures):
    """Pictures with the logarithm of their price as a target."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image, torch.tensor(float(label)).log()  # culprit


def bad_price() -> DataLoader[Any]:
    """Every fourth picture is free, and the logarithm of 0 is all that its target holds."""
    return DataLoader(PricedPictures(), batch_size=4)


class HalfPictures(Pictures):
    """Pictures with 16-bit values, in half precision."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return (image * 65535).half(), label  # culprit


def bad_overflow() -> DataLoader[Any]:
    """Half precision ends at 65504; brighter pixels become infinite."""
    pictures = HalfPictures()
    pictures.images = pictures.images.clamp(max=0.9)
    pictures.images[11, 0, 3, 5] = 1
    return DataLoader(pictures, batch_size=4, num_workers=2)


class Tracks(Dataset[dict[str, Any]]):
    """Pictures with a list of points, one of which was never measured."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = range(len(self))[index]
        missing = torch.nan if number == 11 else 0.5
        return {"image": picture(number), "track": [{"point": torch.tensor([number / 16, missing])}]}  # culprit


def bad_nested() -> DataLoader[Any]:
    """The NaN sits in a tensor in a dictionary in a list in a dictionary."""
    return DataLoader(Tracks(), batch_size=4, num_workers=2)


class Houses(Dataset[tuple[Tensor, float]]):
    """Features of houses with their prices, one of which is unknown."""

    def __init__(self) -> None:
        self.features = torch.stack([picture(number)[0, 0] for number in range(16)])
        self.prices = [math.nan if number == 11 else 100.0 + number for number in range(16)]

    def __len__(self) -> int:
        return len(self.prices)

    def __getitem__(self, index: int) -> tuple[Tensor, float]:
        return self.features[index], self.prices[index]  # culprit


def stack_houses(samples: list[tuple[Tensor, float]]) -> tuple[Tensor, Tensor]:
    """Stack the features, and make float32 of the prices."""
    return torch.stack([features for features, _ in samples]), torch.tensor([price for _, price in samples])


def bad_scalar() -> DataLoader[Any]:
    """One label is Python's `nan`."""
    return DataLoader(Houses(), batch_size=4, num_workers=2, collate_fn=stack_houses)


class Days(Dataset[Tensor]):
    """Twenty days, each with an hour of sunshine and with 1 if it was a weekend."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> Tensor:
        number = range(len(self))[index]
        return torch.tensor([number * 0.25, float(number % 7 >= 5)])


def standardize(samples: list[Tensor]) -> Tensor:
    """Bring each feature of the batch to mean 0 and standard deviation 1."""
    batch = torch.stack(samples)
    return (batch - batch.mean(dim=0)) / batch.std(dim=0)  # culprit


def bad_collate() -> DataLoader[Any]:
    """Each sample is finite, but a batch without a weekend has a deviation of 0: 0 / 0."""
    return DataLoader(Days(), batch_size=4, num_workers=2, collate_fn=standardize)


def good() -> DataLoader[Any]:
    """All numbers are finite."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2)


class MaskedSentences(Dataset[dict[str, Tensor]]):
    """Eight tokens, the last of which are padding that an additive mask hides from attention."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        number = range(len(self))[index]
        hidden = torch.arange(8) >= 4 + number % 4
        tokens = torch.arange(number, number + 8).masked_fill(hidden, 0)
        return {"tokens": tokens, "attention_mask": torch.zeros(8).masked_fill(hidden, -torch.inf)}


def good_attention_mask() -> DataLoader[Any]:
    """An additive attention mask consists of 0 and minus infinity."""
    return DataLoader(MaskedSentences(), batch_size=4, num_workers=2)


class HugePictures(Pictures):
    """Pictures that reach up to the largest float32."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image * torch.finfo(torch.float32).max, label


def good_large() -> DataLoader[Any]:
    """The numbers are so large that their sum overflows, but each is finite."""
    return DataLoader(HugePictures(), batch_size=4, num_workers=2)


class Counters(Dataset[Tensor]):
    """Whole numbers up to the largest and down to the smallest there are."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Tensor:
        limits = torch.iinfo(torch.int64)
        return torch.tensor([limits.min, range(len(self))[index], limits.max])


def good_integers() -> DataLoader[Any]:
    """Whole numbers are always finite, however extreme."""
    return DataLoader(Counters(), batch_size=4, num_workers=2)
