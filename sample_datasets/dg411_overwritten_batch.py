"""DG411 overwritten-batch: a later batch is written into the memory of an earlier one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from sample_datasets._parts import Pictures, picture, share

Sample = tuple[Tensor, int]
Batch = tuple[Tensor, Tensor]
SIZE = 4


class Stacker:
    """Stacks images into a buffer that is allocated once, `count` of them in turn."""

    def __init__(self, count: int = 1) -> None:
        self.buffers = [torch.empty(SIZE, 3, 8, 8) for _ in range(count)]  # culprit
        self.made = 0

    def __call__(self, samples: list[Sample]) -> Batch:
        """Collate."""
        self.made += 1
        images = self.buffers[self.made % len(self.buffers)][: len(samples)]
        for row, (image, _) in zip(images, samples, strict=True):
            row.copy_(image)  # culprit
        return images, torch.tensor([label for _, label in samples])


def loader(collate: Any, *, workers: int = 0, shuffle: bool = True) -> DataLoader[Any]:
    return DataLoader(Pictures(48), batch_size=SIZE, shuffle=shuffle, num_workers=workers, collate_fn=collate)


def bad() -> DataLoader[Any]:
    """Workers fill one buffer each, which they share with the main process."""
    return loader(Stacker(), workers=2)


def bad_alone() -> DataLoader[Any]:
    """The same without workers: a batch that is kept is lost."""
    return loader(Stacker())


class Batches(IterableDataset[Batch]):
    """Whole batches, each of which is `given` from one buffer."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __iter__(self) -> Iterator[Batch]:
        buffer = torch.empty(SIZE, 3, 8, 8)  # culprit
        for number in share(range(16)):
            for row in range(SIZE):
                buffer[row] = picture(SIZE * number + row)  # culprit
            yield self.given(buffer), torch.arange(SIZE)  # culprit


def itself(buffer: Tensor) -> Tensor:
    return buffer


def bad_stream() -> DataLoader[Any]:
    """A stream of batches yields its buffer."""
    return DataLoader(Batches(itself), batch_size=None, num_workers=2)


def good() -> DataLoader[Any]:
    """A new tensor for each batch."""
    return loader(stacked, workers=2)


def stacked(samples: list[Sample]) -> Batch:
    """Collate."""
    return torch.stack([image for image, _ in samples]), torch.tensor([label for _, label in samples])


def good_evaluation() -> dict[str, DataLoader[Any]]:
    """Validation uses each batch before it fetches the next one."""
    return {"val": loader(Stacker(), shuffle=False)}


def good_copies() -> DataLoader[Any]:
    """A stream yields copies of its buffer."""
    return DataLoader(Batches(Tensor.clone), batch_size=None, num_workers=2)


def good_ring() -> DataLoader[Any]:
    """More buffers than batches in flight."""
    return loader(Stacker(8), workers=1)


class Positions:
    """Adds the same positions to each batch, which never change."""

    def __init__(self) -> None:
        self.positions = torch.arange(64)

    def __call__(self, samples: list[Sample]) -> Any:
        """Collate."""
        return (*stacked(samples), self.positions)


def good_constant() -> DataLoader[Any]:
    """All batches share a tensor that nothing writes into."""
    return loader(Positions(), workers=2)


def good_pickled() -> DataLoader[Any]:
    """Arrays of numpy are copied on their way from a worker."""
    return DataLoader(Batches(Tensor.numpy), batch_size=None, num_workers=2, collate_fn=tuple)


class Staged:
    """Copies the batches of a loader into `count` buffers in turn; into new memory if there are none."""

    def __init__(self, count: int, *, shuffle: bool = True) -> None:
        self.loader = DataLoader(Pictures(48), batch_size=SIZE, shuffle=shuffle, num_workers=2)
        self.buffers = [torch.empty(SIZE, 3, 8, 8) for _ in range(count)]

    def __iter__(self) -> Iterator[Batch]:
        for number, (images, labels) in enumerate(self.loader):
            staged = self.buffers[number % len(self.buffers)] if self.buffers else torch.empty_like(images)
            staged.copy_(images)  # culprit
            yield staged, labels


def bad_staged() -> Any:
    """A wrapper copies each batch into one buffer."""
    return Staged(1)


def good_staged() -> Any:
    """It allocates memory for each."""
    return Staged(0)


class Moved(Staged):
    """Changes batches where they are, each once."""

    def __iter__(self) -> Iterator[Batch]:
        for images, labels in self.loader:
            yield images.sub_(0.5), labels


def good_moved() -> Any:
    """A wrapper that changes a batch in place before it yields it."""
    return Moved(0)


class Kept(Staged):
    """Yields each batch and the one before."""

    def __iter__(self) -> Iterator[Any]:
        before: Batch | None = None
        for batch in self.loader:
            yield {"now": batch, "before": batch if before is None else before}
            before = batch


def good_kept() -> Any:
    """Batches share memory with earlier ones, and change none."""
    return Kept(0)
