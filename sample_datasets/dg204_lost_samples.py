"""DG204 lost-samples: no worker or no rank yields some samples."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    Sampler,
    Subset,
    WeightedRandomSampler,
    get_worker_info,
)

from sample_datasets._files import CropStream
from sample_datasets._parts import Pictures, brighten, picture, share

Sample = tuple[Tensor, int]


class Stream(IterableDataset[Sample]):
    """Pictures of which each worker reads every n-th."""

    def __init__(self, total: int = 48) -> None:
        self.total = total

    def numbers(self) -> Iterator[int]:
        """The numbers of the pictures of this process."""
        return share(range(self.total))

    def __iter__(self) -> Iterator[Sample]:
        return ((picture(number), number) for number in self.numbers())


def loader(stream: IterableDataset[Any], **settings: Any) -> DataLoader[Any]:
    """A loader of batches of four from two workers."""
    return DataLoader(stream, **{"batch_size": 4, "num_workers": 2, **settings})


class TwiceShared(Stream):
    """The file list is shared out, and then the samples of these files again."""

    def numbers(self) -> Iterator[int]:
        return share(list(share(range(self.total))))  # culprit


def bad() -> DataLoader[Any]:
    """Samples are shared out among workers twice, so that half of them is lost."""
    return loader(TwiceShared())


class RoundedDown(Stream):
    """Each worker reads a stretch of equal length."""

    def numbers(self) -> Iterator[int]:
        worker = get_worker_info()
        if worker is None:
            return iter(range(self.total))
        length = self.total // worker.num_workers  # culprit
        return iter(range(worker.id * length, (worker.id + 1) * length))  # culprit


def bad_rounded_down() -> DataLoader[Any]:
    """Fifty samples make three stretches of sixteen, and two are left."""
    return loader(RoundedDown(50), num_workers=3)


class BrightTwiceShared(TwiceShared):
    """The same, of random brightness."""

    def __iter__(self) -> Iterator[Sample]:
        return ((brighten(picture(number)), number) for number in self.numbers())


def bad_augmented() -> DataLoader[Any]:
    """Augmentation makes it hard to tell which samples are missing."""
    return loader(BrightTwiceShared())


def bad_drop_last() -> DataLoader[Any]:
    """Each of three workers drops a last batch of its own."""
    return loader(Stream(45), batch_size=8, num_workers=3, drop_last=True)  # culprit


class TwoFiles(Stream):
    """Pictures in two files, a short and a long one, which are dealt to two workers; each is shuffled in each epoch."""

    def numbers(self) -> Iterator[int]:
        files = [range(self.total // 3), range(self.total // 3, self.total)]
        numbers = list(chain.from_iterable(share(files)))
        random.shuffle(numbers)
        return iter(numbers)


def bad_drop_last_of_uneven_shares() -> DataLoader[Any]:
    """Thirteen and 28 pictures make one and three full batches, and five in one process: others drop in each epoch."""
    return loader(TwoFiles(41), batch_size=8, drop_last=True)  # culprit


def good_drop_last_of_uneven_shares() -> DataLoader[Any]:
    """The same with as many full batches as one process has."""
    return loader(TwoFiles(51), batch_size=8, drop_last=True)


def good_drop_last_of_many() -> DataLoader[Any]:
    """One full batch of 25 less, from other pictures in each epoch, which harms little."""
    return loader(TwoFiles(200), batch_size=8, drop_last=True)


class EndlessTwiceShared(TwiceShared):
    """New pictures without end, shared out twice."""

    def numbers(self) -> Iterator[int]:
        return share(share(count()))  # culprit


def bad_endless() -> DataLoader[Any]:
    """There is no end at which missing samples could be counted."""
    return loader(EndlessTwiceShared())


class RankTwiceShared(Stream):
    """Pictures that are shared out among ranks when the stream is made, and again when it is read."""

    def __init__(self, rank: int, world_size: int) -> None:
        super().__init__()
        self.own = list(range(self.total))[rank::world_size]  # culprit
        self.rank = rank
        self.world_size = world_size

    def numbers(self) -> Iterator[int]:
        return share(self.own[self.rank :: self.world_size])  # culprit


def bad_ranks(rank: int, world_size: int) -> DataLoader[Any]:
    """Half of each rank's share is lost."""
    return loader(RankTwiceShared(rank, world_size))


class Batches(Sampler[list[int]]):
    """Every n-th batch for each rank, rounded down twice."""

    def __init__(self, total: int, rank: int, world_size: int) -> None:
        self.batches = [list(range(start, start + 4)) for start in range(0, total, 4)]
        self.own = self.batches[rank::world_size][: len(self.batches) // world_size // 2]  # culprit

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.own)

    def __len__(self) -> int:
        return len(self.own)


def bad_dealt(rank: int, world_size: int) -> DataLoader[Any]:
    """A batch sampler that leaves half of its batches to nobody."""
    if world_size == 1:
        return DataLoader(Pictures(48), batch_size=4, num_workers=2)
    return DataLoader(Pictures(48), batch_sampler=Batches(48, rank, world_size), num_workers=2)


class Stopping(Pictures):
    """Pictures that are taken from an iterator, which is exhausted before its time."""

    def __init__(self, *silent: int) -> None:
        super().__init__(32)
        self.notes = {number: [] if number in silent else [f"note {number}"] for number in range(32)}

    def __getitem__(self, index: int) -> Any:
        return (*super().__getitem__(index), next(iter(self.notes[int(index)])))  # culprit


def bad_stopping() -> DataLoader[Any]:
    """torch takes the StopIteration of a bare `next()` for the end of the epoch."""
    return DataLoader(Stopping(17), batch_size=4, num_workers=2)


def bad_stopping_at_last() -> DataLoader[Any]:
    """The same at the last of all indices."""
    return DataLoader(Stopping(31), batch_size=4, num_workers=2)


CLASS_WEIGHTS = (1.0, 2.0, 1.0, 4.0)


def bad_weights_of_classes() -> DataLoader[Any]:
    """A weight for each class, where the sampler takes one for each sample: it draws the first few over and over."""
    return DataLoader(Pictures(32), sampler=WeightedRandomSampler(CLASS_WEIGHTS, 32), batch_size=4)  # culprit


class Refilled(Sampler[list[int]]):
    """Shuffled batches in one list, which a `copied` sampler yields copies of."""

    def __init__(self, *, copied: bool) -> None:
        self.copied = copied

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in torch.randperm(48).tolist():
            batch.append(index)
            if len(batch) == 4 and self.copied:
                yield [*batch]
            elif len(batch) == 4:
                yield batch  # culprit
            if len(batch) == 4:
                batch.clear()

    def __len__(self) -> int:
        return 12


def bad_refilled() -> DataLoader[Any]:
    """A worker receives what the list holds when it is sent, which is often a later batch."""
    return DataLoader(Pictures(48), batch_sampler=Refilled(copied=False), num_workers=2)


def good_refilled() -> DataLoader[Any]:
    """Without workers, each batch is read before the next one is drawn."""
    return DataLoader(Pictures(48), batch_sampler=Refilled(copied=False))


def good_refilled_copy() -> DataLoader[Any]:
    """Workers receive copies of the list."""
    return DataLoader(Pictures(48), batch_sampler=Refilled(copied=True), num_workers=2)


def good() -> DataLoader[Any]:
    """Samples are shared out once."""
    return loader(Stream())


def good_uneven() -> DataLoader[Any]:
    """Fifty samples for three workers."""
    return loader(Stream(50), num_workers=3)


def good_drop_last() -> DataLoader[Any]:
    """No more is dropped than one process would drop."""
    return loader(Stream(50), drop_last=True)


class Shuffled(Stream):
    """Pictures in an order of its own for every epoch, through a buffer."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch."""
        self.epoch = epoch

    def numbers(self) -> Iterator[int]:
        order = list(range(self.total))
        random.Random(self.epoch).shuffle(order)
        return share(order)


def good_shuffled() -> DataLoader[Any]:
    """Other samples are dropped in every epoch."""
    return loader(Shuffled(50), batch_size=8, num_workers=3, drop_last=True)


class Even(Stream):
    """Pictures shared out among ranks, each of which reads as many."""

    def __init__(self, rank: int, world_size: int) -> None:
        super().__init__(49)
        self.rank = rank
        self.world_size = world_size

    def numbers(self) -> Iterator[int]:
        own = islice(range(self.total), self.rank, self.total // self.world_size * self.world_size, self.world_size)
        return share(own)


def good_even(rank: int, world_size: int) -> DataLoader[Any]:
    """A sample is left out so that all ranks take as many steps."""
    return loader(Even(rank, world_size))


def own_part(rank: int, world_size: int, seed: int) -> DataLoader[Any]:
    """Every n-th of the pictures in random order, as a subset of each rank."""
    order = random.Random(seed).sample(range(64), 64)  # culprit
    part = Subset(Pictures(64), order[rank::world_size])  # culprit
    return DataLoader(part, batch_size=4, shuffle=True, num_workers=2)


def bad_own_seed(rank: int, world_size: int) -> DataLoader[Any]:
    """Each rank has its own order, so that some pictures are in no subset, and others in several."""
    return own_part(rank, world_size, seed=rank)  # culprit


def good_one_seed(rank: int, world_size: int) -> DataLoader[Any]:
    """All ranks have the same order."""
    return own_part(rank, world_size, seed=0)


def good_own_choice(rank: int, world_size: int) -> DataLoader[Any]:
    """Each rank trains a model of its own on a random half."""
    return DataLoader(Subset(Pictures(64), random.Random(rank).sample(range(64), 32)), batch_size=4, shuffle=True)


def good_distributed(rank: int, world_size: int) -> DataLoader[Any]:
    """A DistributedSampler that drops what does not divide."""
    pictures = Pictures(33)
    sampler: Any = DistributedSampler(pictures, num_replicas=world_size, rank=rank, drop_last=True)
    return DataLoader(pictures, batch_sampler=BatchSampler(sampler, 4, drop_last=True), num_workers=2)


def good_own_split(rank: int, world_size: int) -> DataLoader[Any]:
    """Each rank draws its own split and reads its share of that: what one split lacks is in no way lost by another."""
    split = Subset(Pictures(64), random.Random(rank).sample(range(64), 48))
    sampler: Any = DistributedSampler(split, num_replicas=world_size, rank=rank)
    return DataLoader(split, batch_size=4, sampler=sampler, num_workers=2)


class Listed(Pictures):
    """Pictures in the order of a list that is shuffled when the dataset is made."""

    def __init__(self, seed: int) -> None:
        super().__init__(64)
        self.numbers = random.Random(seed).sample(range(64), 64)  # culprit

    def __getitem__(self, index: int) -> Sample:
        return super().__getitem__(self.numbers[index])


def listed(rank: int, world_size: int, seed: int) -> DataLoader[Any]:
    """Each rank reads its share of the indices."""
    pictures = Listed(seed)  # culprit
    sampler: Any = DistributedSampler(pictures, num_replicas=world_size, rank=rank)
    return DataLoader(pictures, batch_size=4, sampler=sampler)


def bad_listed(rank: int, world_size: int) -> DataLoader[Any]:
    """Each rank has a seed of its own, so that an index is another picture there."""
    return listed(rank, world_size, seed=rank)  # culprit


def good_listed(rank: int, world_size: int) -> DataLoader[Any]:
    """The list is shuffled alike on all ranks."""
    return listed(rank, world_size, seed=0)


def good_own_list(rank: int, world_size: int) -> DataLoader[Any]:
    """Each rank has a dataset of its own share, in an order of its own."""
    numbers = list(range(64))[rank::world_size]
    pictures = Pictures(64)
    own: Any = [pictures[number] for number in random.Random(rank).sample(numbers, len(numbers))]
    return DataLoader(own, shuffle=True)


class CutShuffled(Sampler[int]):
    """A share of the indices in an order of its own in each epoch; what does not divide is cut off at one end."""

    def __init__(self, total: int, rank: int, world_size: int, *, cuts_first: bool) -> None:
        self.total, self.rank, self.world_size, self.cuts_first = total, rank, world_size, cuts_first
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.total // self.world_size

    def __iter__(self) -> Iterator[int]:
        whole = len(self) * self.world_size
        order = random.Random(self.epoch).sample(range(whole if self.cuts_first else self.total), whole)  # culprit
        return iter(order[self.rank :: self.world_size])


def bad_cut_first(rank: int, world_size: int) -> DataLoader[Any]:
    """What does not divide is cut off before the shuffle, and so it is the last picture in every epoch."""
    sampler = CutShuffled(65, rank, world_size, cuts_first=True)
    return DataLoader(Pictures(65), batch_size=4, sampler=sampler, num_workers=2)


def good_cut_last(rank: int, world_size: int) -> DataLoader[Any]:
    """It is cut off after the shuffle: another picture in each epoch."""
    sampler = CutShuffled(65, rank, world_size, cuts_first=False)
    return DataLoader(Pictures(65), batch_size=4, sampler=sampler, num_workers=2)


class WholeBatches(Sampler[int]):
    """As many indices as fill batches of four, in another order in each epoch; the rest is cut off at one end."""

    def __init__(self, total: int, *, cuts_first: bool) -> None:
        self.total, self.whole, self.cuts_first = total, total // 4 * 4, cuts_first
        self.draws = random.Random(0)

    def __len__(self) -> int:
        return self.whole

    def __iter__(self) -> Iterator[int]:
        return iter(self.draws.sample(range(self.whole if self.cuts_first else self.total), self.whole))  # culprit


def bad_cut_to_batches() -> DataLoader[Any]:
    """In a single process, too: the last three of 67 pictures are never read."""
    return DataLoader(Pictures(67), batch_size=4, sampler=WholeBatches(67, cuts_first=True))


def good_cut_to_batches() -> DataLoader[Any]:
    """Cut off after the shuffle."""
    return DataLoader(Pictures(67), batch_size=4, sampler=WholeBatches(67, cuts_first=False))


class Chosen(Sampler[int]):
    """Every other index, on purpose."""

    def __init__(self, indices: Iterable[int]) -> None:
        self.indices = list(indices)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)


def good_subset() -> DataLoader[Any]:
    """A sampler that is meant to leave samples out."""
    return DataLoader(Pictures(32), sampler=Chosen(range(0, 32, 2)), batch_size=4, num_workers=2)


def good_weights_of_samples() -> DataLoader[Any]:
    """The weight of its class for each sample."""
    pictures = Pictures(32)
    weights = [CLASS_WEIGHTS[label] for label in pictures.labels]
    return DataLoader(pictures, sampler=WeightedRandomSampler(weights, 32), batch_size=4)


class Undrained(Stream):
    """Shuffles in a buffer under a constant seed, and forgets what is left in it."""

    drains = False

    def __init__(self, count: int, most: int = 100) -> None:
        super().__init__(count)
        self.most = most

    def source(self) -> random.Random:
        """What the buffer is shuffled by."""
        return random.Random(1234)

    def __iter__(self) -> Iterator[Sample]:
        source = self.source()
        buffer: list[Sample] = []
        for sample in super().__iter__():
            if len(buffer) < self.most:
                buffer.append(sample)
                continue
            place = source.randrange(len(buffer))
            yield buffer[place]
            buffer[place] = sample
        if self.drains:  # culprit
            yield from buffer  # culprit


def bad_undrained() -> DataLoader[Any]:
    """Each worker loses the samples that are left in its buffer, the same ones in each epoch."""
    return loader(Undrained(387), num_workers=3)


def bad_undrained_few() -> DataLoader[Any]:
    """A buffer that is small beside the stream: its rest is no larger than what chance could lose."""
    return loader(Undrained(387, most=40), num_workers=2)


class UndrainedByTorch(Undrained):
    """Draws from torch's global generator."""

    def source(self) -> random.Random:
        return random.Random(torch.initial_seed())


def bad_undrained_by_torch() -> DataLoader[Any]:
    """Other samples are lost in each epoch."""
    return loader(UndrainedByTorch(387, most=40), num_workers=2)


class Drained(Undrained):
    """Shuffles in a buffer, and yields all of it."""

    drains = True


def good_drained() -> DataLoader[Any]:
    """What is left in the buffer comes last."""
    return loader(Drained(387), num_workers=3)


class Thinned(Undrained):
    """Skips some samples by chance, as an augmentation of a stream does."""

    def __iter__(self) -> Iterator[Sample]:
        source = self.source()
        return (sample for sample in Stream.__iter__(self) if source.random() < 0.8)


def good_thinned() -> DataLoader[Any]:
    """Each process leaves out others, and another number of them."""
    return loader(Thinned(387), num_workers=2)


class Packed(Drained):
    """Yields batches of eight from its buffer, and no smaller one."""

    def __iter__(self) -> Iterator[Any]:
        samples = list(super().__iter__())
        yield from (samples[start : start + 8] for start in range(0, len(samples) - 7, 8))


def good_packed() -> DataLoader[Any]:
    """Each worker drops the rest that fills no batch."""
    return DataLoader(Packed(387, most=40), batch_size=None, num_workers=2)


class Mixed(Undrained):
    """Draws from two sources until one of them has no more."""

    def __iter__(self) -> Iterator[Sample]:
        source, samples = self.source(), list(Stream.__iter__(self))
        both = [iter(samples[::2]), iter(samples[1::2])]
        for _ in samples:
            sample = next(both[source.random() < 0.5], None)
            if sample is None:
                return
            yield sample


def good_mixed() -> DataLoader[Any]:
    """What is left of the longer source is another number in each process."""
    return loader(Mixed(387), num_workers=2)


def shared_twice(paths: Sequence[Path]) -> Iterator[Path]:
    """A share of a share."""
    return share(share(paths))


def bad_crops() -> DataLoader[Any]:
    """Random crops of files that are shared out twice."""
    return loader(CropStream(shared_twice))


class OwnLoader:
    """Batches of a dataset without torch's DataLoader, `taken` samples of each `size`."""

    def __init__(self, dataset: Dataset, size: int = 8, taken: int = 8, batches: int | None = None) -> None:
        self.dataset = dataset
        self.size = size
        self.taken = taken
        self.batches = batches

    def __len__(self) -> int:
        return self.batches or -(-len(self.dataset) // self.size)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self.dataset)).tolist()  # type: ignore[arg-type]
        for start in range(0, self.size * len(self), self.size):
            samples = [self.dataset[index] for index in order[start : start + self.taken]]  # culprit
            yield torch.stack([rows for rows, _ in samples]), torch.tensor([label for _, label in samples])


class Table(Dataset):
    """Rows of numbers."""

    def __len__(self) -> int:
        return 120

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        generator = torch.Generator().manual_seed(range(len(self))[index])
        return torch.randn(6, generator=generator), index % 3


def bad_own_loader() -> OwnLoader:
    """A loader of its own class takes seven of each eight samples."""
    return OwnLoader(Table(), taken=7)


def good_own_loader() -> OwnLoader:
    """The same, with all of them."""
    return OwnLoader(Table())


def good_own_short_epochs() -> OwnLoader:
    """Each epoch is ten batches, as the length says."""
    return OwnLoader(Table(), batches=10)


class Buckets(BatchSampler):
    """Batches of four from groups of eleven indices each, in random order."""

    def __init__(self, indices: Sequence[int], batch_size: int, whole: bool = True) -> None:
        self.batches = []
        for start in range(0, len(indices), 11):
            group = indices[start : start + 11]
            end = len(group) // batch_size * batch_size if whole else len(group)  # culprit
            self.batches += [group[k : k + batch_size] for k in range(0, end, batch_size)]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        yield from (list(self.batches[k]) for k in torch.randperm(len(self.batches)).tolist())


def bad_buckets() -> DataLoader[Any]:
    """What is left of each group fills no batch, and is in none of any epoch."""
    return DataLoader(Pictures(44), batch_sampler=Buckets(range(44), 4))


def good_buckets() -> DataLoader[Any]:
    """Batches may be smaller."""
    return DataLoader(Pictures(44), batch_sampler=Buckets(range(44), 4, whole=False))


def good_filtered_buckets() -> DataLoader[Any]:
    """The last pictures are left out on purpose, and the others make whole batches."""
    return DataLoader(Pictures(52), batch_sampler=Buckets(range(8), 4))
