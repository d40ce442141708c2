"""DG205 wrong-stream-length: len(loader) is not the number of batches that the loader yields."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Sampler

from sample_datasets._parts import Pictures, picture, share

Sample = tuple[Tensor, int]


class Stream(IterableDataset[Sample]):
    """Pictures, of which only some come through a filter; `__len__` says how many there are."""

    def __init__(self, total: int, length: int) -> None:
        self.total = total
        self.length = length

    def __len__(self) -> int:
        return self.length  # culprit

    def __iter__(self) -> Iterator[Sample]:
        return ((picture(number), number) for number in share(range(self.total)))


def loader(total: int, length: int, **settings: Any) -> DataLoader[Any]:
    """A loader of batches of four from two workers."""
    return DataLoader(Stream(total, length), **{"batch_size": 4, "num_workers": 2, **settings})


def bad() -> DataLoader[Any]:
    """The length is that before a filter."""
    return loader(48, length=96)  # culprit


def bad_short() -> DataLoader[Any]:
    """The length is that of one worker's share."""
    return loader(48, length=24)  # culprit


def bad_batches() -> DataLoader[Any]:
    """The stream yields batches of its own, and counts samples."""
    return loader(48, length=192, batch_size=None)  # culprit


class RankStream(Stream):
    """Pictures shared out among ranks; the length is that of all of them."""

    def __init__(self, rank: int, world_size: int) -> None:
        super().__init__(48, 48)  # culprit
        self.rank = rank
        self.world_size = world_size

    def __iter__(self) -> Iterator[Sample]:
        own = range(self.rank, self.total, self.world_size)
        return ((picture(number), number) for number in share(own))


def bad_ranks(rank: int, world_size: int) -> DataLoader[Any]:
    """Each rank counts the samples of all."""
    return DataLoader(RankStream(rank, world_size), batch_size=4, num_workers=2)


class Sixteen(Sampler[int]):
    """Sixteen indices, of which `__len__` counts twice as many."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(16))

    def __len__(self) -> int:
        return 32  # culprit


def bad_sampler() -> DataLoader[Any]:
    """A sampler that yields half of what it says."""
    return DataLoader(Pictures(32), sampler=Sixteen(), batch_size=4, num_workers=2)


def good() -> DataLoader[Any]:
    """The length is the number of samples that come out."""
    return loader(48, length=48)


def good_tails() -> DataLoader[Any]:
    """Each of three workers ends with a batch that is not full, of which torch's own count knows nothing."""
    return loader(49, length=49, num_workers=3)


def good_drop_last() -> DataLoader[Any]:
    """Each of two workers drops such a batch."""
    return loader(50, length=50, drop_last=True)


def good_own_batches() -> DataLoader[Any]:
    """A stream of what is used as it comes."""
    return loader(48, length=48, batch_size=None)


class Unsized(IterableDataset[Sample]):
    """Pictures whose number nobody knows beforehand."""

    def __iter__(self) -> Iterator[Sample]:
        return ((picture(number), number) for number in share(range(48)))


def good_unsized() -> DataLoader[Any]:
    """A stream without a length has none that could be wrong."""
    return DataLoader(Unsized(), batch_size=4, num_workers=2)


def good_map() -> DataLoader[Any]:
    """torch counts the batches of a dataset, the last one included or left out."""
    return DataLoader(Pictures(33), batch_size=4, shuffle=True, drop_last=True, num_workers=2)


class Limited(DataLoader[Any]):
    """A loader that ends after four batches, and says so."""

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Any:
        return islice(super().__iter__(), 4)


def good_limited() -> DataLoader[Any]:
    """The loader itself ends its epochs."""
    return Limited(Pictures(32), batch_size=4, num_workers=2)


class Ahead:
    """Holds the next batch of a loader ready; `drops` the last one."""

    def __init__(self, loader: DataLoader[Any], *, drops: bool) -> None:
        self.loader, self.drops = loader, drops

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self.loader)
        ahead = next(batches)
        while True:
            batch = ahead
            try:
                ahead = next(batches)
            except StopIteration:
                if self.drops:
                    return  # culprit
                yield batch
                return
            yield batch


def bad_ahead() -> Any:
    """A wrapper ends when it can fetch no more, though it has yielded one batch less."""
    return Ahead(good_map(), drops=True)


def good_ahead() -> Any:
    """It yields that, too."""
    return Ahead(good_map(), drops=False)


class Steps:
    """A few steps of a loader in each epoch, and as many by its length; the loader goes on where it was."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader
        self.batches: Iterator[Any] = iter(())

    def __len__(self) -> int:
        return 5

    def __iter__(self) -> Iterator[Any]:
        for _ in range(len(self)):
            batch = next(self.batches, None)
            if batch is None:
                self.batches = iter(self.loader)
                batch = next(self.batches)
            yield batch


def good_steps() -> Any:
    """Epochs that are shorter than those of the loader."""
    return Steps(good_map())


class Forever(Ahead):
    """The batches of a loader without end."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.loader


def good_forever() -> Any:
    """The training loop ends the epoch after `len` steps."""
    return Forever(good_map(), drops=False)
