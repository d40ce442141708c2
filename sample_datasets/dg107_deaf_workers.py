"""DG107 deaf-workers: state changed in the main process does not reach persistent workers, or is lost in workers."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, RandomSampler

from sample_datasets._parts import EpochSeededPictures, LazyBrighten, Pictures, brighten, picture, share

Sample = tuple[Tensor, int]


def loader(dataset: Any, **settings: Any) -> DataLoader[Any]:
    """A loader whose workers live on from epoch to epoch."""
    settings = {"batch_size": 4, "num_workers": 2, "persistent_workers": True, **settings}
    return DataLoader(dataset, **settings)


class Curriculum(Pictures):
    """Pictures that get darker with each epoch."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:  # culprit
        """Tell the epoch."""
        self.epoch = epoch

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return image / (1 + self.epoch), label


def bad() -> DataLoader[Any]:
    """A curriculum that goes by the epoch stays in the first one."""
    return loader(Curriculum())


def bad_epoch_seeded() -> DataLoader[Any]:
    """Augmentation that is seeded from epoch and index never hears of a second epoch."""
    return loader(EpochSeededPictures())


class EpochStream(IterableDataset[Sample]):
    """A stream that is shuffled by its epoch."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:  # culprit
        """Tell the epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[Sample]:
        order = list(range(48))
        random.Random(self.epoch).shuffle(order)
        for number in share(order):
            yield picture(number), number


def bad_stream() -> DataLoader[Any]:
    """A stream keeps the order of the first epoch."""
    return loader(EpochStream())


class StagedSampler(RandomSampler):
    """A sampler that also takes the dataset to its next stage."""

    def set_epoch(self, epoch: int) -> None:  # culprit
        """Tell the epoch, to the dataset as well."""
        dataset: Any = self.data_source
        dataset.epoch = epoch


class Staged(Pictures):
    """Pictures that get darker with each stage."""

    epoch = 0

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return image / (1 + self.epoch), label


def bad_sampler() -> DataLoader[Any]:
    """The sampler changes the dataset, of which workers have copies."""
    dataset = Staged()
    return loader(dataset, sampler=StagedSampler(dataset))


def good() -> DataLoader[Any]:
    """Workers that start anew for each epoch take its number along."""
    return loader(Curriculum(), persistent_workers=False)


class SharedCurriculum(Curriculum):
    """A curriculum whose epoch lies in memory that workers share."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = torch.zeros((), dtype=torch.long).share_memory_()

    def set_epoch(self, epoch: int) -> None:  # culprit
        """Tell the epoch to every worker."""
        self.shared.fill_(epoch)

    def __getitem__(self, index: int) -> Sample:
        image, label = Pictures.__getitem__(self, index)
        return image / (1 + float(self.shared)), label


def good_shared() -> DataLoader[Any]:
    """Workers see the epoch in shared memory."""
    return loader(SharedCurriculum())


class ValueStream(EpochStream):
    """A stream whose epoch is a value that processes share."""

    def __init__(self) -> None:
        super().__init__()
        self.value = multiprocessing.get_context("spawn").Value("i", 0)

    def set_epoch(self, epoch: int) -> None:  # culprit
        """Tell the epoch to every worker."""
        self.value.value = epoch

    def __iter__(self) -> Iterator[Sample]:
        self.epoch = self.value.value
        return super().__iter__()


def good_shared_stream() -> DataLoader[Any]:
    """A stream is shuffled by an epoch that its workers see."""
    return loader(ValueStream())


class Counted(Pictures):
    """Pictures with a `set_epoch` that is only for the log."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:  # culprit
        """Remember the epoch."""
        self.epoch = epoch


def good_unused() -> DataLoader[Any]:
    """No sample depends on the epoch."""
    return loader(Counted(transform=brighten))


class Backdrop(Counted):
    """Pictures before a backdrop that each worker makes up once."""

    backdrop: Tensor | None = None

    def __getitem__(self, index: int) -> Sample:
        if self.backdrop is None:
            self.backdrop = torch.rand(8, 8, generator=torch.Generator().manual_seed(torch.initial_seed()))
        image, label = super().__getitem__(index)
        return image + self.backdrop, label


def good_made_up() -> DataLoader[Any]:
    """Samples change with the worker that reads them, not with the epoch."""
    return loader(Backdrop())


def anew(dataset: Any, **settings: Any) -> DataLoader[Any]:
    """A loader whose workers start anew for each epoch."""
    return loader(dataset, persistent_workers=False, **settings)


class Counting(Pictures):
    """Pictures that get darker with each sample that was read."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.seen = 0

    def __getitem__(self, index: int) -> Sample:
        self.seen += 1  # culprit
        image, label = super().__getitem__(index)
        return image / (1 + self.seen / 1000), label


def bad_lost_count() -> DataLoader[Any]:
    """A curriculum that goes by the samples read so far starts over with every epoch."""
    return anew(Counting())


def bad_lost_count_apart() -> DataLoader[Any]:
    """Workers that live on count each for themselves."""
    return loader(Counting())


class Centred(Pictures):
    """Pictures from which the mean of all that were read so far is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(())
        self.count = 0

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        self.total = self.total + image.mean()  # culprit
        self.count += 1  # culprit
        return image - self.total / self.count, label


def bad_lost_mean() -> DataLoader[Any]:
    """A running mean that samples are normalized with is forgotten after each epoch."""
    return anew(Centred())


class Words(Pictures):
    """A vocabulary that numbers words as they come up."""

    def __init__(self) -> None:
        super().__init__()
        self.vocabulary: dict[str, int] = {}

    def __getitem__(self, index: int) -> Any:
        words = [f"w{index % 5}", f"w{index % 7}", f"w{index * index % 11}"]
        return [self.vocabulary.setdefault(word, len(self.vocabulary)) for word in words]  # culprit


def bad_lost_vocabulary() -> DataLoader[Any]:
    """Each worker numbers words in the order in which it meets them."""
    return anew(Words())


class CountedStream(IterableDataset[Sample]):
    """A stream that shuffles by the number of times it was begun."""

    def __init__(self) -> None:
        self.begun = 0

    def __iter__(self) -> Iterator[Sample]:
        self.begun += 1  # culprit
        order = list(range(48))
        random.Random(self.begun).shuffle(order)
        for number in share(order):
            yield picture(number), number


def bad_lost_epochs() -> DataLoader[Any]:
    """A stream counts its own epochs, in workers that see only the first."""
    return anew(CountedStream())


class ShownCounter(Counting):
    """Pictures that count reads in memory which all processes share."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = torch.zeros((), dtype=torch.long).share_memory_()

    def __getitem__(self, index: int) -> Sample:
        self.shared += 1
        image, label = Pictures.__getitem__(self, index)
        return image / (1 + float(self.shared) / 1000), label


def good_shared_count() -> DataLoader[Any]:
    """What workers count comes back, and reaches the next epoch."""
    return anew(ShownCounter())


class Told(Counting):
    """Pictures that count reads, and are told by the main process where to go on."""

    def set_epoch(self, epoch: int) -> None:  # culprit
        """Begin where the epochs before ended."""
        self.seen = epoch * len(self)


def good_told() -> DataLoader[Any]:
    """The counter is put to its place before each epoch."""
    return anew(Told())


class Logged(Pictures):
    """Pictures that count for the log."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.reads: dict[int, int] = {}

    def __getitem__(self, index: int) -> Sample:
        self.reads[index] = self.reads.get(index, 0) + 1
        return super().__getitem__(index)


def good_logged() -> DataLoader[Any]:
    """What is counted shows in no sample."""
    return anew(Logged(transform=brighten))


class Remembering(Pictures):
    """Pictures that are decoded once."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.decoded: dict[int, Tensor] = {}
        self.last = lru_cache(maxsize=2)(self.decode)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "last"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.last = lru_cache(maxsize=2)(self.decode)

    def decode(self, index: int) -> Tensor:
        """Take the square root, which stands for something slow."""
        return torch.sqrt(self.images[index])

    def __getitem__(self, index: int) -> Sample:
        if index not in self.decoded:
            self.decoded[index] = self.last(index)
        image = self.decoded[index]
        return (self.transform(image) if self.transform else image), self.labels[index]


def good_memory() -> DataLoader[Any]:
    """Caches hold what would be made again."""
    return anew(Remembering(transform=brighten))


def good_lazy_generator() -> DataLoader[Any]:
    """A generator that a worker makes for itself moves on with each draw."""
    return anew(Pictures(transform=LazyBrighten()))


class Files(IterableDataset[Sample]):
    """A stream of a list of files, which is shuffled in place."""

    def __init__(self) -> None:
        self.files = list(range(48))

    def __iter__(self) -> Iterator[Sample]:
        random.shuffle(self.files)
        for number in self.files:
            yield picture(number), number


def good_files() -> DataLoader[Any]:
    """Each epoch shuffles the list as it was at first, and at random."""
    return anew(Files(), num_workers=1)


class Announcing(DataLoader[Any]):
    """A loader that says which epoch begins, as those of accelerate do."""

    epoch = 0

    def __iter__(self) -> Any:
        dataset: Any = self.dataset
        dataset.set_epoch(self.epoch)  # culprit
        self.epoch += 1
        return super().__iter__()


def bad_announced() -> DataLoader[Any]:
    """The loader itself sets the epoch, too late for its workers."""
    return Announcing(EpochStream(), batch_size=4, num_workers=2, persistent_workers=True)


def good_announced() -> DataLoader[Any]:
    """It restarts its workers."""
    return Announcing(EpochStream(), batch_size=4, num_workers=2)


def bad_announced_pictures() -> DataLoader[Any]:
    """The same with a curriculum."""
    return Announcing(Curriculum(), batch_size=4, num_workers=2, persistent_workers=True)


def good_announced_shared() -> DataLoader[Any]:
    """The epoch is stored in shared memory."""
    return Announcing(SharedCurriculum(), batch_size=4, num_workers=2, persistent_workers=True)


class Dimming:
    """Batches that get darker with each epoch."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:  # culprit
        """Tell the epoch."""
        self.epoch = epoch

    def __call__(self, samples: list[Sample]) -> tuple[Tensor, Tensor]:
        images = torch.stack([image for image, _ in samples]) / (1 + self.epoch)
        return images, torch.tensor([label for _, label in samples])


def bad_collate() -> DataLoader[Any]:
    """The epoch is that of collate_fn, which workers have copies of."""
    return loader(Pictures(), collate_fn=Dimming())


def good_collate() -> DataLoader[Any]:
    """Workers that start anew for each epoch take it along."""
    return loader(Pictures(), collate_fn=Dimming(), persistent_workers=False)
