"""DG206 replayed-order: the sampler shuffles, but draws the same order in every epoch."""

from __future__ import annotations

import copy
import itertools
import operator
import random
from collections.abc import Iterator, Sized
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)

from sample_datasets._parts import Pictures, picture


def loader(sampler: Any = None, **settings: Any) -> DataLoader[Any]:
    """A loader of thirty pictures in the sampler's order."""
    return DataLoader(Pictures(30), sampler=sampler, **{"batch_size": 4, "num_workers": 2, **settings})


class Shuffled(Sampler[int]):
    """All indices in random order, from a generator that is made in every epoch."""

    def __init__(self, data: Sized) -> None:
        self.data = data
        self.epoch = 0

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator()
        generator.manual_seed(self.seed())  # culprit
        yield from torch.randperm(len(self.data), generator=generator).tolist()

    def seed(self) -> int:
        """The seed of an epoch's order."""
        return 42  # culprit


def bad() -> DataLoader[Any]:
    """The generator is seeded with a constant in every epoch."""
    return loader(Shuffled(range(30)))


class Deaf(DistributedSampler[Any]):
    """A sampler of one rank, whose `set_epoch` has no effect."""

    def set_epoch(self, epoch: int) -> None:  # culprit
        """Forget the epoch."""


def bad_deaf() -> DataLoader[Any]:
    """The epoch is told, and forgotten."""
    return loader(Deaf(range(30), num_replicas=1, rank=0))  # type: ignore[arg-type]


class NumpyShuffled(Shuffled):
    """The same with numpy."""

    def __iter__(self) -> Iterator[int]:
        order = np.random.default_rng(0).permutation(len(self.data))  # culprit
        return iter(order.tolist())


def bad_numpy() -> DataLoader[Any]:
    """A generator of numpy starts over with every epoch."""
    return loader(NumpyShuffled(range(30)))


class Held(Shuffled):
    """All indices in random order, from a generator that the sampler holds."""

    def __init__(self, data: Sized, start_over: bool) -> None:
        super().__init__(data)
        self.start_over = start_over
        self.generator = torch.Generator().manual_seed(42)

    def __iter__(self) -> Iterator[int]:
        if self.start_over:
            self.generator.manual_seed(self.seed())  # culprit
        yield from torch.randperm(len(self.data), generator=self.generator).tolist()


def bad_held() -> DataLoader[Any]:
    """The sampler seeds its generator again in every epoch."""
    return loader(Held(range(30), start_over=True))


class Copied(Shuffled):
    """Draws from a copy, so that the generator itself stays where it is."""

    generator = np.random.default_rng(42)

    def __iter__(self) -> Iterator[int]:
        yield from copy.deepcopy(self.generator).permutation(len(self.data)).tolist()  # culprit


def bad_copied() -> DataLoader[Any]:
    """Every epoch draws from another copy of one generator."""
    return loader(Copied(range(30)))


class Batches(Sampler[list[int]]):
    """Batches of neighbours in random order, as of sequences of similar length."""

    def __init__(self, count: int, seed: int | None) -> None:
        self.count = count
        self.seed = seed

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(self.count))
        random.Random(self.seed).shuffle(order)  # culprit
        return iter([[2 * number, 2 * number + 1] for number in order])


class DrawnOnce(Batches):
    """Draws its batches when it is created, and takes an epoch that nothing reads."""

    def __init__(self, count: int, seed: int) -> None:
        super().__init__(count, seed)
        self.batches = list(super().__iter__())  # culprit
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Take the epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.batches)  # culprit


def bad_drawn_once() -> DataLoader[Any]:
    """Batches are shuffled in the constructor, whatever the epoch."""
    return DataLoader(Pictures(30), batch_sampler=DrawnOnce(15, seed=3), num_workers=2)


def bad_batches() -> DataLoader[Any]:
    """Batches are shuffled by a generator that is seeded in every epoch."""
    return DataLoader(Pictures(30), batch_sampler=Batches(15, seed=3), num_workers=2)


class Reseeding(DataLoader[Any]):
    """A loader that seeds its generator whenever it is iterated."""

    def __iter__(self) -> Any:
        if self.generator is not None:
            self.generator.manual_seed(0)  # culprit
        return super().__iter__()


def bad_reseeding() -> DataLoader[Any]:
    """The loader itself takes its generator back to the start."""
    return Reseeding(Pictures(30), batch_size=4, shuffle=True, generator=torch.Generator())


def good() -> DataLoader[Any]:
    """torch's own shuffling."""
    return loader(shuffle=True)


def good_generator() -> DataLoader[Any]:
    """A generator that is seeded once, where the loader is made, and runs on."""
    return loader(shuffle=True, generator=torch.Generator().manual_seed(42))


def good_held() -> DataLoader[Any]:
    """The sampler seeds its generator once, and it runs on."""
    return loader(Held(range(30), start_over=False))


class Chosen(Held):
    """A random choice in random order, drawn once from a generator that the sampler keeps."""

    def __init__(self, data: Sized) -> None:
        super().__init__(data, start_over=False)
        self.chosen = torch.randperm(len(data), generator=self.generator).tolist()[:20]

    def __len__(self) -> int:
        return 20

    def __iter__(self) -> Iterator[int]:
        return iter(self.chosen)


def good_chosen() -> DataLoader[Any]:
    """A fixed choice of samples, as of a split."""
    return loader(Chosen(range(30)))


class Ties(Held):
    """All indices sorted by something, with ties in random order; but there are none."""

    def __iter__(self) -> Iterator[int]:
        noise = torch.rand(len(self.data), generator=self.generator).tolist()
        yield from sorted(range(len(self.data)), key=lambda index: (index * 7 % 30, noise[index]))


def good_ties() -> DataLoader[Any]:
    """Random numbers are drawn, and the order does not depend on them."""
    return loader(Ties(range(30), start_over=False))


class EpochShuffled(Shuffled):
    """All indices in an order that follows from the epoch."""

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch."""
        self.epoch = epoch

    def seed(self) -> int:
        return 42 + self.epoch


def good_epoch() -> DataLoader[Any]:
    """The seed follows from the epoch."""
    return loader(EpochShuffled(range(30)))


def good_distributed() -> DataLoader[Any]:
    """A DistributedSampler, which is told the epoch."""
    return loader(DistributedSampler(range(30), num_replicas=1, rank=0))  # type: ignore[arg-type]


def good_distributed_batches() -> DataLoader[Any]:
    """A DistributedSampler inside a BatchSampler."""
    sampler = DistributedSampler(range(30), num_replicas=1, rank=0)  # type: ignore[arg-type, var-annotated]
    return DataLoader(Pictures(30), batch_sampler=BatchSampler(sampler, 4, drop_last=False), num_workers=2)


class ByLength(Sampler[int]):
    """All indices, sorted by something that never changes."""

    def __len__(self) -> int:
        return 30

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(range(30), key=lambda index: (index * 7 % 30, index)))


def good_sorted() -> DataLoader[Any]:
    """An order that is meant to be the same in every epoch."""
    return loader(ByLength())


def good_listed() -> DataLoader[Any]:
    """Indices that were shuffled once, by a split."""
    return loader(list(random.Random(0).sample(range(30), 20)))


def good_subset() -> DataLoader[Any]:
    """A random subset in random order."""
    return loader(SubsetRandomSampler(list(range(0, 30, 2))))


class Reordered(Dataset[Tensor]):
    """Rows that the dataset puts into another order in each epoch, and to which it adds noise of its own."""

    def __init__(self) -> None:
        self.rows = torch.randn(30, 16, generator=torch.Generator().manual_seed(1))
        self.noise = np.random.default_rng()
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Draw the order of an epoch."""
        self.order = np.random.default_rng(epoch).permutation(30)

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> Tensor:
        return self.rows[int(self.order[index])] + float(self.noise.normal())


def good_reordered() -> DataLoader[Any]:
    """The sampler draws one order, but of a dataset that shuffles itself."""
    return DataLoader(Reordered(), batch_size=4, sampler=Shuffled(range(30)))


def good_weighted() -> DataLoader[Any]:
    """Weighted draws from a generator that runs on."""
    return loader(WeightedRandomSampler([1.0] * 30, 30, generator=torch.Generator().manual_seed(1)))


def val() -> DataLoader[Any]:
    """An evaluation of the same random samples each time."""
    return loader(Shuffled(range(30)))


def good_evaluation() -> dict[str, DataLoader[Any]]:
    """Evaluation may keep its order."""
    return {"val": val()}


def good_few() -> DataLoader[Any]:
    """Draws with replacement."""
    return loader(RandomSampler(range(30), replacement=True, num_samples=20))


class Clip:
    """A part of a recording, as an index."""

    def __init__(self, start: int) -> None:
        self.start = start


class Clips(Pictures):
    """Pictures by clip."""

    def __getitem__(self, clip: Any) -> Any:
        return super().__getitem__(clip.start)


class ByEpoch(Shuffled):
    """Clips in an order that follows from the epoch."""

    def __iter__(self) -> Iterator[Any]:
        return map(Clip, super().__iter__())

    def seed(self) -> int:
        return self.epoch

    def set_epoch(self, epoch: int) -> None:
        """Remember the epoch."""
        self.epoch = epoch


def good_objects() -> DataLoader[Any]:
    """The sampler yields objects, in another order in each epoch."""
    return DataLoader(Clips(30), sampler=ByEpoch(range(30)), batch_size=4, num_workers=2)


class Endless(Shuffled):
    """Indices without end, from one iterator."""

    def __init__(self, data: Sized) -> None:
        super().__init__(data)
        self.indices = self.all_indices()

    def __iter__(self) -> Iterator[int]:
        yield from self.indices

    def all_indices(self) -> Iterator[int]:
        """One order after the other."""
        generator = torch.Generator().manual_seed(0)
        while True:
            yield from torch.randperm(len(self.data), generator=generator).tolist()


def good_endless() -> dict[str, DataLoader[Any]]:
    """One epoch without end, which cannot be begun anew."""
    return {"train": loader(Endless(range(30)))}


class Stream(IterableDataset[tuple[Tensor, int]]):
    """A worker's share of sixty-four pictures, in an order that `generator` draws."""

    def generator(self) -> random.Random:
        """The generator of an epoch."""
        return random.Random(1234)  # culprit

    def order(self) -> list[int]:
        """The numbers of all pictures."""
        numbers = list(range(64))
        self.generator().shuffle(numbers)
        return numbers

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return ((picture(number), number % 4) for number in self.order()[first::step])


def bad_stream() -> DataLoader[Any]:
    """A stream that draws its order from a constant seed in each epoch."""
    return DataLoader(Stream(), batch_size=8, num_workers=2)


class FromTorch(Stream):
    """The seed of the order comes from torch, which has another one in each epoch."""

    def generator(self) -> random.Random:
        info = get_worker_info()
        return random.Random(info.seed - info.id if info else torch.initial_seed())


class Next:
    """What torch needs of an iterator: `__next__`, without `__iter__`."""

    def __init__(self, samples: Iterator[tuple[Tensor, int]]) -> None:
        self.samples = samples

    def __next__(self) -> tuple[Tensor, int]:
        return next(self.samples)


class BareIterator(Stream):
    """The constant order, from an iterator that is not itself iterable."""

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return Next(super().__iter__())  # type: ignore[return-value]


def bad_bare_iterator() -> DataLoader[Any]:
    """The order of each epoch is the same, and the iterator has no `__iter__`, which torch does not ask for."""
    return DataLoader(BareIterator(), batch_size=8, num_workers=2)


def good_stream() -> DataLoader[Any]:
    """A stream with another order in each epoch, the same one for all workers."""
    return DataLoader(FromTorch(), batch_size=8, num_workers=2)


class InOrder(Stream):
    """Pictures as they are stored; a constant seed is for something else."""

    def order(self) -> list[int]:
        brightest = self.generator().choice(range(64))
        return sorted(range(64), key=lambda number: number == brightest)


def good_stream_in_order() -> DataLoader[Any]:
    """Nothing is shuffled."""
    return DataLoader(InOrder(), batch_size=8, num_workers=2)


class Interleaved(Stream):
    """Two sources, each in its order, mixed by a constant seed."""

    def order(self) -> list[int]:
        chosen, sources = self.generator(), [list(range(32)), list(range(32, 64))]
        return [
            sources[source].pop(0)
            for _ in range(64)
            for source in [chosen.choice([number for number, left in enumerate(sources) if left])]
        ]


def good_stream_interleaved() -> DataLoader[Any]:
    """A mixture of two sources is the same in every epoch."""
    return DataLoader(Interleaved(), batch_size=8, num_workers=2)


class EpochSet(Stream):
    """The order follows from an epoch that the training loop sets."""

    epoch = 0

    def generator(self) -> random.Random:
        return random.Random(1234 + self.epoch)


def good_stream_epoch() -> DataLoader[Any]:
    """Training code assigns the epoch."""
    return DataLoader(EpochSet(), batch_size=8, num_workers=2)


class Paired:
    """Each batch of a large loader with one of a small loader, which `repeat` makes endless."""

    def __init__(self, repeat: Any, *, shuffle: bool = True) -> None:
        self.small = DataLoader(Pictures(12), batch_size=4, shuffle=shuffle)
        self.large = DataLoader(Pictures(32), batch_size=4, shuffle=True)
        self.repeat = repeat

    def __iter__(self) -> Iterator[Any]:
        yield from zip(self.large, self.repeat(self.small), strict=False)  # culprit


def bad_cycled() -> Any:
    """The batches of the small loader are kept, and repeated."""
    return Paired(itertools.cycle)


def anew(batches: Any) -> Iterator[Any]:
    """The batches of each epoch in turn."""
    while True:
        yield from batches


def good_anew() -> Any:
    """The small loader is shuffled again each time."""
    return Paired(anew)


def good_cycled() -> Any:
    """The order of the small loader is meant to be one, as that of anchors or of an evaluation."""
    return Paired(itertools.cycle, shuffle=False)


class Echo:
    """Each batch twice, while the next one is loaded."""

    def __init__(self) -> None:
        self.loader = DataLoader(Pictures(32), batch_size=4, shuffle=True, num_workers=2)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.loader:
            yield batch
            yield batch


def good_echo() -> Any:
    """Batches are repeated at once, within an epoch of the loader."""
    return Echo()


class Trainer:
    """A loader that is read for one epoch after the other, each of which `path` leads the sampler to."""

    def __init__(self, path: str) -> None:
        data = Pictures(30)
        self.path, self.epoch = path, 0
        self.loader = DataLoader(data, batch_sampler=BatchSampler(DistributedSampler(data, 1, 0), 4, drop_last=False))

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        sampler = operator.attrgetter(self.path)(self.loader)
        if hasattr(sampler, "set_epoch"):  # culprit
            sampler.set_epoch(self.epoch)
        self.epoch += 1
        yield from self.loader


def bad_forwarded() -> Any:
    """The epoch is meant for the sampler that torch makes beside a batch sampler, and which draws nothing."""
    return Trainer("sampler")


def good_forwarded() -> Any:
    """The epoch reaches the sampler inside the batch sampler."""
    return Trainer("batch_sampler.sampler")


class Rebuilt:
    """A loader that is made for each epoch."""

    def __init__(self, seed: int | None) -> None:
        self.data, self.seed = Pictures(32), seed

    def __iter__(self) -> Iterator[Any]:
        generator = torch.Generator()
        generator.manual_seed(torch.initial_seed() if self.seed is None else self.seed)  # culprit
        yield from DataLoader(self.data, batch_size=4, shuffle=True, generator=generator)


def bad_rebuilt() -> Any:
    """It is made with the same seed each time."""
    return Rebuilt(0)


def good_rebuilt() -> Any:
    """It is made with the seed of the epoch's process."""
    return Rebuilt(None)
