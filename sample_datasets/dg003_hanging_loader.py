"""DG003 hanging-loader: the loader hangs: it makes no progress and raises no error."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, Sampler, default_collate

from sample_datasets._parts import Pictures, picture, share


def collate_with_inverse(samples: list[tuple[Tensor, int]]) -> dict[str, Any]:
    """Add a function that was made on the spot, which pickle refuses."""
    images, labels = default_collate(samples)
    return {"images": images - 0.5, "labels": labels, "inverse": lambda shifted: shifted + 0.5}


def bad() -> DataLoader[Any]:
    """The batch holds a lambda: the thread that should pickle it dies in silence, and the main process waits."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, collate_fn=collate_with_inverse)


def collate_lazily(samples: list[tuple[Tensor, int]]) -> Iterator[Tensor]:
    """Hand out a generator, which pickle refuses."""
    return (image for image, _ in samples)


def bad_generator() -> DataLoader[Any]:
    """The batch is a generator and can not be sent."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, collate_fn=collate_lazily)


class Cached:
    """A batch that registers itself under the lock of a cache."""

    def __init__(self, images: Tensor) -> None:
        self.images = images

    def __setstate__(self, state: dict[str, Tensor]) -> None:
        with CACHE_LOCK, CACHE_LOCK:  # the helper that registers takes it again
            self.__dict__.update(state)


def collate_cached(samples: list[tuple[Tensor, int]]) -> Cached:
    """Batches for the cache."""
    return Cached(default_collate(samples)[0])


def bad_setstate() -> DataLoader[Any]:
    """The batch can be sent, but takes a lock twice where the main process unpickles it."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, collate_fn=collate_cached)


class Embed:
    """A collate function that runs images through a layer and leaves the gradient's graph attached."""

    def __init__(self) -> None:
        self.layer = nn.Conv2d(3, 4, kernel_size=1)

    def __call__(self, samples: list[tuple[Tensor, int]]) -> Tensor:
        return self.layer(torch.stack([image for image, _ in samples]))  # type: ignore[no-any-return]


def bad_grad() -> DataLoader[Any]:
    """The batch requires a gradient and is no leaf, so that it can not be sent."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, collate_fn=Embed())


class CorruptPictures(Pictures):
    """Pictures, one of which raises an exception whose class exists in this function only."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        class CorruptFile(Exception):
            """Can not be pickled, for no module knows it."""

        if index == 9:
            raise CorruptFile
        return super().__getitem__(index)


def bad_exception() -> DataLoader[Any]:
    """Sample 9 raises an exception that can not be sent."""
    return DataLoader(CorruptPictures(), batch_size=4, num_workers=2)


CACHE_LOCK = threading.Lock()


class LockedPictures(Pictures):
    """Pictures behind a lock that the same thread takes twice."""

    def read(self, index: int) -> tuple[Tensor, int]:
        """Read under the lock."""
        with CACHE_LOCK:
            return super().__getitem__(index)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        with CACHE_LOCK:
            return self.read(index)


def bad_lock() -> DataLoader[Any]:
    """Each worker waits for a lock that it holds itself."""
    return DataLoader(LockedPictures(), batch_size=4, num_workers=2)


class AwaitedPictures(Pictures):
    """Pictures, one of which is never delivered."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        while index == 9:
            time.sleep(0.1)
        return super().__getitem__(index)


def bad_main() -> DataLoader[Any]:
    """Without workers, the main process waits for sample 9."""
    return DataLoader(AwaitedPictures(), batch_size=4)


class BusyPictures(Pictures):
    """Pictures, one of which sends a search into an endless loop."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        while index == 9:
            pass
        return super().__getitem__(index)


def bad_busy() -> DataLoader[Any]:
    """The worker that reads sample 9 computes for ever."""
    return DataLoader(BusyPictures(), batch_size=4, num_workers=2)


def collate_never(samples: list[tuple[Tensor, int]]) -> Any:
    """Wait for an answer to a question that nobody was asked."""
    return queue.SimpleQueue[Tensor]().get()


def bad_collate() -> DataLoader[Any]:
    """Every sample reads well, then the collate function waits for ever."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, collate_fn=collate_never)


def wait_forever(worker_id: int) -> None:
    """Wait for an event that nobody sets."""
    threading.Event().wait()


def bad_worker_init() -> DataLoader[Any]:
    """No worker gets through its `worker_init_fn`."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, worker_init_fn=wait_forever)


def bad_factory() -> NoReturn:
    """Building the loader never ends."""
    while True:
        time.sleep(0.1)


def good() -> DataLoader[Any]:
    """Nothing waits."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2)


class EndlessPictures(IterableDataset[tuple[Tensor, int]]):
    """A stream of new pictures without end, shared among the workers."""

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return ((picture(number), number % 4) for number in share(count()))


def good_endless() -> DataLoader[Any]:
    """The epoch never ends, but batch follows batch."""
    return DataLoader(EndlessPictures(), batch_size=4, num_workers=2)


class BalancedSampler(Sampler[int]):
    """Draws one index after the other by its weight, without end and without a length, for training by iterations."""

    def __init__(self, length: int) -> None:
        self.weights = [1.0 + index % 4 for index in range(length)]

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(torch.initial_seed() % 2**32)
        while True:
            weights = torch.tensor(self.weights)
            time.sleep(0.0002)  # a real one has more weights than this
            yield int(torch.multinomial(weights, 1, generator=generator))


def good_endless_sampler() -> DataLoader[Any]:
    """The sampler never ends and has no length, but each index takes only a moment."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, sampler=BalancedSampler(len(Pictures())))


class SlowPictures(Pictures):
    """Pictures that take 50 ms each."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(0.05)
        return super().__getitem__(index)


def good_slow() -> DataLoader[Any]:
    """Slow, but steady."""
    return DataLoader(SlowPictures(), batch_size=4, num_workers=2)


REENTRANT_LOCK = threading.RLock()


class ReentrantPictures(Pictures):
    """Pictures behind a lock that its holder may take again."""

    def read(self, index: int) -> tuple[Tensor, int]:
        """Read under the lock."""
        with REENTRANT_LOCK:
            return super().__getitem__(index)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        with REENTRANT_LOCK:
            return self.read(index)


def good_reentrant_lock() -> DataLoader[Any]:
    """The lock is taken twice by one thread, which a re-entrant lock allows."""
    return DataLoader(ReentrantPictures(), batch_size=4, num_workers=2)


def bundle(samples: list[tuple[Tensor, int]]) -> Any:
    """Put a function into the batch that pickle can send by its name."""
    return {"images": torch.stack([image for image, _ in samples]), "show": picture}


def good_function_in_batch() -> DataLoader[Any]:
    """The batch holds a function of a module, which is sent by its name."""
    return DataLoader(Pictures(), batch_size=4, num_workers=2, collate_fn=bundle)
