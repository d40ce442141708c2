"""DG405 unpinnable-batch: pin_memory=True does not reach the tensors of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_sequence
from torch.utils.data import DataLoader, default_collate

from sample_datasets._parts import Pictures

Samples = list[tuple[Tensor, int]]


def pinned_loader(collate: Callable[[Samples], Any]) -> DataLoader[Any]:
    """Thirty-two pictures in batches of eight, to be pinned."""
    return DataLoader(Pictures(32), batch_size=8, num_workers=2, pin_memory=True, collate_fn=collate)


@dataclass
class Batch:
    """Images and labels."""

    image: Tensor
    label: Tensor


def as_batch(samples: Samples) -> Batch:
    return Batch(*default_collate(samples))


def bad() -> DataLoader[Any]:
    """The batch is a dataclass, which torch does not look into."""
    return pinned_loader(as_batch)


class SlottedBatch:
    """Images and labels, with what they were made of."""

    __slots__ = ("image", "label")

    def __init__(self, image: Tensor, label: Tensor) -> None:
        self.image = image
        self.label = label


def as_slots(samples: Samples) -> dict[str, Any]:
    return {"data": [SlottedBatch(*default_collate(samples))], "count": len(samples)}


def bad_nested() -> DataLoader[Any]:
    """A dict, with a list in it, with an object in it."""
    return pinned_loader(as_slots)


class ForgetfulBatch(Batch):
    """Pins its images, and drops what comes out."""

    def pin_memory(self) -> ForgetfulBatch:
        self.image.pin_memory()
        self.label = self.label.pin_memory()
        return self


def as_forgetful(samples: Samples) -> Batch:
    return ForgetfulBatch(*default_collate(samples))


def bad_dropped() -> DataLoader[Any]:
    """`pin_memory()` of a tensor returns a pinned copy, and changes nothing."""
    return pinned_loader(as_forgetful)


class VanishingBatch(Batch):
    """Pins everything, and returns nothing."""

    def pin_memory(self) -> None:
        self.image, self.label = self.image.pin_memory(), self.label.pin_memory()


def as_vanishing(samples: Samples) -> Batch:
    return VanishingBatch(*default_collate(samples))


def bad_none() -> DataLoader[Any]:
    """`pin_memory` of the batch returns None, and this is what training gets."""
    return pinned_loader(as_vanishing)


class AttributeDict(dict[str, Any]):
    """A dict whose entries are attributes as well; an entry that is not there is None."""

    __getattr__ = dict.get


def as_attributes(samples: Samples) -> AttributeDict:
    image, label = default_collate(samples)
    return AttributeDict(image=image, label=label)


def bad_attributes() -> DataLoader[Any]:
    """torch finds a `pin_memory` that is None, and calls it."""
    return pinned_loader(as_attributes)


def as_dict(samples: Samples) -> dict[str, Any]:
    image, label = default_collate(samples)
    return {"image": image, "target": {"label": label, "names": ["picture"] * len(samples)}}


def good() -> DataLoader[Any]:
    """Dicts are looked into."""
    return pinned_loader(as_dict)


class PinnableBatch(Batch):
    """Pins its tensors, and returns itself."""

    def pin_memory(self) -> PinnableBatch:
        self.image, self.label = self.image.pin_memory(), self.label.pin_memory()
        return self


def as_pinnable(samples: Samples) -> Batch:
    return PinnableBatch(*default_collate(samples))


def good_method() -> DataLoader[Any]:
    """A class with a `pin_memory` of its own."""
    return pinned_loader(as_pinnable)


class Pair(NamedTuple):
    """Images and labels."""

    image: Tensor
    label: Tensor


def as_pair(samples: Samples) -> Pair:
    return Pair(*default_collate(samples))


def good_named_tuple() -> DataLoader[Any]:
    """Named tuples are made anew."""
    return pinned_loader(as_pair)


def as_packed(samples: Samples) -> tuple[PackedSequence, Tensor]:
    rows = [image.flatten()[: 8 + label] for image, label in samples]
    return pack_sequence(rows, enforce_sorted=False), torch.tensor([label for _, label in samples])


def good_packed() -> DataLoader[Any]:
    """A packed sequence pins its data; its batch sizes are never moved to a device."""
    return pinned_loader(as_packed)


def good_unpinned() -> DataLoader[Any]:
    """Nothing is to be pinned."""
    return DataLoader(Pictures(32), batch_size=8, num_workers=2, collate_fn=as_batch)


@dataclass
class Names:
    """Names alone."""

    names: list[str]


def as_names(samples: Samples) -> Names:
    return Names([f"picture {label}" for _, label in samples])


def good_names() -> DataLoader[Any]:
    """There is nothing in the object that could be pinned."""
    return pinned_loader(as_names)
