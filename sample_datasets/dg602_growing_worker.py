"""DG602 growing-worker: memory of workers grows with every sample that they read, and never levels off."""

from __future__ import annotations

import functools
import tempfile
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

MANY = 8_000_000
"""Samples of a dataset that no machine holds in memory."""
FEW = 96
SIDE = 128
"""A picture of so many pixels a side takes 64 KiB."""


def picture(index: int) -> Tensor:
    """What decoding a file would give."""
    image = torch.full((1, SIDE, SIDE), index * 0.618034 % 1)
    image[0, 0, :3] = torch.tensor([index // 4096, index % 4096, 0.5])
    return image


class Pictures(Dataset):
    """Pictures that are computed when they are asked for."""

    def __init__(self, count: int = MANY) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        number = range(self.count)[index]
        return self.decode(number), number % 4

    def decode(self, number: int) -> Tensor:
        return picture(number)


class Cached(Pictures):
    """Keeps every picture, so that the second epoch is faster."""

    def __init__(self, count: int = MANY) -> None:
        super().__init__(count)
        self.cache: dict[int, Tensor] = {}

    def decode(self, number: int) -> Tensor:
        if number not in self.cache:
            self.cache[number] = picture(number)  # culprit
        return self.cache[number]


def bad() -> DataLoader:
    """A cache without a bound in front of eight million pictures."""
    return DataLoader(Cached(), batch_size=16, num_workers=2)


class Logged(Pictures):
    """Notes what it gave, for a plot that nobody makes any more."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.history: list[tuple[int, Tensor]] = []

    def decode(self, number: int) -> Tensor:
        image = picture(number)
        self.history.append((number, image))  # culprit
        return image


def bad_history() -> DataLoader:
    """A list that grows in every epoch, whatever is read; workers stay for all of them."""
    return DataLoader(Logged(FEW), batch_size=16, num_workers=2, persistent_workers=True)


class Memoised(Pictures):
    """Decodes through a cache of the standard library."""

    @functools.lru_cache(maxsize=None)  # culprit  # noqa: B019, UP033
    def decode(self, number: int) -> Tensor:
        return picture(number)


def bad_lru_cache() -> DataLoader:
    """A cache that was told to keep everything."""
    return DataLoader(Memoised(), batch_size=16, num_workers=0)


class Collator:
    """Stacks samples, and keeps every batch."""

    def __init__(self) -> None:
        self.batches: list[Tensor] = []

    def __call__(self, samples: list) -> Any:
        images = torch.stack([image for image, _ in samples])
        self.batches.append(images)  # culprit
        return images, torch.tensor([label for _, label in samples])


def bad_collate() -> DataLoader:
    """The memory is not the dataset's."""
    return DataLoader(Pictures(), batch_size=16, num_workers=2, collate_fn=Collator())


class Recently(Pictures):
    """Keeps the pictures that were asked for last."""

    def __init__(self, count: int, bound: int) -> None:
        super().__init__(count)
        self.bound = bound
        self.cache: OrderedDict[int, Tensor] = OrderedDict()

    def decode(self, number: int) -> Tensor:
        if number in self.cache:
            self.cache.move_to_end(number)
            return self.cache[number]
        self.cache[number] = picture(number)
        while len(self.cache) > self.bound:
            self.cache.popitem(last=False)
        return self.cache[number]


def good() -> DataLoader:
    """A cache with a bound that is soon reached."""
    return DataLoader(Recently(MANY, 64), batch_size=16, num_workers=2)


def good_far_bound() -> DataLoader:
    """A cache with a bound beyond what a look at it reads, which still fits."""
    return DataLoader(Recently(MANY, 12_000), batch_size=16, num_workers=0)


class ByBytes(Pictures):
    """Keeps pictures until they take so many bytes."""

    def __init__(self, count: int, most: int) -> None:
        super().__init__(count)
        self.most = most
        self.taken = 0
        self.cache: dict[int, Tensor] = {}

    def decode(self, number: int) -> Tensor:
        image = self.cache.get(number)
        if image is None:
            image = picture(number)
            if self.taken + image.nbytes <= self.most:
                self.cache[number] = image
                self.taken += image.nbytes
        return image


def good_bytes() -> DataLoader:
    """A bound that is counted in bytes."""
    return DataLoader(ByBytes(MANY, 1_000_000_000), batch_size=16, num_workers=0)


def good_small() -> DataLoader:
    """A dataset that is kept in memory on purpose, as it is small."""
    return DataLoader(Cached(1000), batch_size=16, num_workers=2, shuffle=True, persistent_workers=True)


def bad_each_for_itself() -> DataLoader:
    """Two workers come to keep all of a larger one, each for itself: it fits, and is a warning."""
    return DataLoader(Cached(20_000), batch_size=16, num_workers=2, shuffle=True, persistent_workers=True)


def good_once() -> DataLoader:
    """The same in one process, which keeps each picture once."""
    return DataLoader(Cached(20_000), batch_size=16, shuffle=True)


class Mixed(Pictures):
    """Mixes each picture with an earlier one out of a pool."""

    def __init__(self) -> None:
        super().__init__(MANY)
        self.pool: deque[Tensor] = deque(maxlen=3000)

    def decode(self, number: int) -> Tensor:
        image = picture(number)
        self.pool.append(image)
        return 0.5 * (image + self.pool[number % len(self.pool)])


def good_pool() -> DataLoader:
    """A pool that fills up and then stays."""
    return DataLoader(Mixed(), batch_size=16, num_workers=0)


class Mapped(Dataset):
    """Reads windows of a file that is mapped into memory: its pages can be given back at any time."""

    def __init__(self) -> None:
        self.file = Path(tempfile.mkdtemp()) / "recording.npy"
        np.save(self.file, np.arange(4000 * SIDE * SIDE, dtype=np.float32).reshape(-1, SIDE, SIDE))
        self.windows = np.load(self.file, mmap_mode="r")

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(np.array(self.windows[index]))


def good_memory_map() -> DataLoader:
    """What a worker has mapped grows, and is not its own."""
    return DataLoader(Mapped(), batch_size=16, num_workers=2)


class Late(Pictures):
    """Makes large tables when the first of some samples needs them, and has buffers of many sizes."""

    def __init__(self) -> None:
        super().__init__(MANY)
        self.table: Tensor | None = None

    def decode(self, number: int) -> Tensor:
        if number % 16 == 15 and self.table is None:
            self.table = torch.ones(8_000_000)
        buffer = torch.ones(1000 * (1 + number * 7919 % 500))
        return picture(number) + buffer.mean()


def good_late() -> DataLoader:
    """Memory rises in the beginning, and swings."""
    return DataLoader(Late(), batch_size=16, num_workers=2)


class Shuffled(IterableDataset):
    """Shuffles a stream through a buffer of a thousand pictures."""

    def __iter__(self) -> Iterator[Tensor]:
        buffer = [picture(number) for number in range(200)]
        for number in range(len(buffer), 20_000):
            place = number * 7919 % len(buffer)
            yield buffer[place]
            buffer[place] = picture(number)


def good_stream() -> DataLoader:
    """A buffer that is filled before the first sample comes out."""
    return DataLoader(Shuffled(), batch_size=16, num_workers=0)


class Distinct(IterableDataset):
    """Leaves out texts that came before, by what it keeps of them."""

    def __init__(self, kept: Callable[[str], Any]) -> None:
        self.kept = kept

    def __iter__(self) -> Iterator[Tensor]:
        seen = set()
        for number in range(MANY):
            text = f"{number} " * 2000
            if self.kept(text) not in seen:
                seen.add(self.kept(text))  # culprit
                yield torch.tensor([number, len(text)])


def bad_seen() -> DataLoader:
    """A stream that remembers every text which it has seen."""
    return DataLoader(Distinct(str), batch_size=16)


def good_seen() -> DataLoader:
    """One that remembers a number for each."""
    return DataLoader(Distinct(hash), batch_size=16)


def contrast(samples: list[Any]) -> Any:
    """Compare the first half of a batch with the second."""
    images, labels = zip(*samples, strict=True)
    return torch.stack(images).view(2, 8, 1, SIDE, SIDE), torch.tensor(labels).view(2, 8)


def good_fixed_batches() -> DataLoader:
    """A collate_fn that takes sixteen samples, no more and no fewer."""
    return DataLoader(Pictures(FEW), batch_size=16, num_workers=2, drop_last=True, collate_fn=contrast)


def bad_fixed_batches() -> DataLoader:
    """The same in front of a cache without a bound."""
    return DataLoader(Cached(), batch_size=16, num_workers=2, drop_last=True, collate_fn=contrast)
