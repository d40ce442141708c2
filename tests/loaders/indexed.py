"""Loaders whose samplers yield objects of their own: arrays, and indices that refuse to be compared or tested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sample_datasets._parts import Pictures, picture


class Arrays:
    """A batch sampler that yields arrays of indices."""

    def __init__(self, length: int, size: int) -> None:
        self.length, self.size = length, size

    def __iter__(self) -> Iterator[Any]:
        order = torch.randperm(self.length).numpy()
        return iter(np.split(order, len(self)))

    def __len__(self) -> int:
        return self.length // self.size


class Cut:
    """A part of a recording: an index that can be neither compared, nor hashed, nor tested."""

    def __init__(self, start: int) -> None:
        self.start = start

    def _refuse(self, *_: object) -> NoReturn:
        raise AttributeError("a cut is compared with a cut")

    __eq__ = __ne__ = __bool__ = __hash__ = __contains__ = __len__ = _refuse


class Cuts(Dataset[tuple[Tensor, int]]):
    """Pictures by cut."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, cut: Cut) -> tuple[Tensor, int]:
        if not isinstance(cut, Cut):
            raise AssertionError(f"not a cut: {cut!r}")
        return picture(cut.start), cut.start % 4


class Several(Cuts):
    """A batch of pictures by cuts."""

    def __getitem__(self, cuts: Any) -> Any:
        pairs = [Cuts.__getitem__(self, cut) for cut in cuts]
        return torch.stack([image for image, _ in pairs]), torch.tensor([label for _, label in pairs])


class Order:
    """Cuts in a new order, one by one or several together."""

    def __init__(self, together: int = 0) -> None:
        self.together = together

    def __iter__(self) -> Iterator[Any]:
        cuts = [Cut(start) for start in torch.randperm(40).tolist()]
        if not self.together:
            return iter(cuts)
        return iter([CutSet(cuts[start : start + self.together]) for start in range(0, 40, self.together)])

    def __len__(self) -> int:
        return 40 // (self.together or 1)


class CutSet(Cut):
    """Several cuts, which give a batch."""

    def __init__(self, cuts: list[Cut]) -> None:
        self.cuts = cuts

    def __iter__(self) -> Iterator[Cut]:
        return iter(self.cuts)


def loaders() -> dict[str, DataLoader[Any]]:
    """Batches as arrays, indices that are objects, and batches that are objects."""
    order: Any = Order()
    sets: Any = Order(together=4)
    return {
        "train_arrays": DataLoader(Pictures(count=40), batch_sampler=Arrays(40, 4), num_workers=2),
        "train_cuts": DataLoader(Cuts(), batch_size=4, sampler=order, num_workers=2),
        "val_cuts": DataLoader(Cuts(), batch_size=4, sampler=order, num_workers=2),
        "train_sets": DataLoader(Several(), batch_size=None, sampler=sets, num_workers=2),
    }
