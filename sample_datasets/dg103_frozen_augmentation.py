"""DG103 frozen-augmentation: a generator is seeded for every sample, so an index is always augmented the same way."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import lru_cache
from random import seed as seed_python
from typing import Any

import numpy as np
import torch
from numpy.random import default_rng
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate
from torchvision import datasets, transforms

from sample_datasets._parts import (
    PHOTOGRAPHS,
    EpochSeededPictures,
    LazyBrighten,
    Pictures,
    UniformSource,
    brighten,
    picture,
    share,
)

Sample = tuple[Tensor, int]


def loader(transform: Callable[[Tensor], Tensor] | None, **settings: Any) -> DataLoader[Any]:
    """A shuffling, and so a training, loader of pictures."""
    settings = {"batch_size": 4, "num_workers": 2, "shuffle": True, **settings}
    return DataLoader(Pictures(transform=transform), **settings)


def brighten_alike(image: Tensor) -> Tensor:
    """Scale by a random factor from a generator that is made anew each time, with one seed."""
    return image * np.random.default_rng(42).uniform(0.5, 1.0)  # culprit


def bad() -> DataLoader[Any]:
    """A transform makes its generator from a constant for every sample."""
    return loader(brighten_alike)


def brighten_imported(image: Tensor) -> Tensor:
    """The same, with the function imported by name."""
    return image * float(default_rng(seed=42).uniform(0.5, 1.0))  # culprit


def bad_imported() -> DataLoader[Any]:
    """The function that makes the generator was imported by name."""
    return loader(brighten_imported)


def brighten_torch_seeded(image: Tensor) -> Tensor:
    """Seed torch's global generator, and draw from it."""
    torch.manual_seed(0)  # culprit
    return brighten(image)


def bad_torch_global() -> DataLoader[Any]:
    """torch's global generator is seeded for every sample."""
    return loader(brighten_torch_seeded)


def brighten_numpy_seeded(image: Tensor) -> Tensor:
    """Seed numpy's global generator, and draw from it."""
    np.random.seed(7)  # culprit
    return image * np.random.uniform(0.5, 1.0)


def bad_numpy_global() -> DataLoader[Any]:
    """numpy's global generator is seeded for every sample."""
    return loader(brighten_numpy_seeded)


def brighten_python_seeded(image: Tensor) -> Tensor:
    """Seed Python's global generator, and draw from it."""
    seed_python(0)  # culprit
    return image * random.uniform(0.5, 1.0)


def bad_python_global() -> DataLoader[Any]:
    """Python's global generator is seeded for every sample."""
    return loader(brighten_python_seeded)


def brighten_random_state(image: Tensor) -> Tensor:
    """Scale by a random factor from a `RandomState` that is made anew."""  # culprit
    return image * np.random.RandomState(0).uniform(0.5, 1.0)  # culprit


def bad_random_state() -> DataLoader[Any]:
    """A numpy `RandomState` is made for every sample."""
    return loader(brighten_random_state)


def brighten_default_seed(image: Tensor) -> Tensor:
    """Scale by a random factor from a torch generator that was given no seed: its default one is a constant."""
    return image * torch.empty(()).uniform_(0.5, 1.0, generator=torch.Generator())  # culprit


def bad_default_seed() -> DataLoader[Any]:
    """A torch generator is made for every sample and never seeded."""
    return loader(brighten_default_seed)


class BrightenHeld:
    """Scale by a random factor from a torch generator that is held, and seeded again each time."""

    def __init__(self) -> None:
        self.generator = torch.Generator()

    def __call__(self, image: Tensor) -> Tensor:
        self.generator.manual_seed(3)  # culprit
        return image * torch.empty(()).uniform_(0.5, 1.0, generator=self.generator)


def bad_held() -> DataLoader[Any]:
    """A held torch generator, which can not be sent to spawned workers (DG104), is put back to its seed each time."""
    return loader(BrightenHeld(), multiprocessing_context="fork")


def bad_main_process() -> DataLoader[Any]:
    """Without workers it is the same."""
    return loader(brighten_alike, num_workers=0)


def collate_brightened(samples: list[Sample]) -> tuple[Tensor, Tensor]:
    """Brighten a whole batch by a factor that starts over for each."""
    images, labels = default_collate(samples)
    return images * random.Random(5).uniform(0.5, 1.0), labels  # culprit


def bad_collate() -> DataLoader[Any]:
    """The collate function starts over for every batch."""
    return loader(None, collate_fn=collate_brightened)


def good() -> DataLoader[Any]:
    """torch's global generator is seeded once, in every worker."""
    return loader(brighten)


def good_deterministic() -> DataLoader[Any]:
    """Nothing is random."""
    return loader(None)


def good_evaluation() -> dict[str, DataLoader[Any]]:
    """An evaluation loader is augmented by one fixed draw, so that results can be compared."""
    return {"val": loader(brighten_alike, shuffle=False)}


class MadeUpPictures(Pictures):
    """Pictures that are made up from their index, as `torchvision.datasets.FakeData` does."""

    def __getitem__(self, index: int) -> Sample:
        state = torch.get_rng_state()
        torch.manual_seed(1_000 + range(len(self))[index])
        image = torch.rand(3, 8, 8)
        torch.set_rng_state(state)
        return image, self.labels[index]


def good_made_up() -> DataLoader[Any]:
    """Each index has a seed of its own, because the pictures themselves are random numbers."""
    return DataLoader(MadeUpPictures(), batch_size=4, num_workers=2, shuffle=True)


def good_epoch_index() -> DataLoader[Any]:
    """Each epoch and index have a seed of their own."""
    return DataLoader(EpochSeededPictures(), batch_size=4, num_workers=2, shuffle=True)


class IndexSeeded(Pictures):
    """Pictures that are turned at random by torchvision, after torch's global generator was seeded."""

    epoch = 0  # a training loop may count it up

    def __init__(self) -> None:
        from torchvision import transforms

        super().__init__(transform=transforms.RandomHorizontalFlip())

    def __getitem__(self, index: int) -> Sample:
        self.seed(index)
        return super().__getitem__(index)

    def seed(self, index: int) -> None:
        """By the index alone, in every epoch."""
        torch.manual_seed(index)  # culprit


def bad_index() -> DataLoader[Any]:
    """Each index has a seed of its own, and keeps it."""
    return DataLoader(IndexSeeded(), batch_size=4, num_workers=2, shuffle=True)


class Mirrored(Dataset[Tensor]):
    """Photographs, mirrored by the project's own code."""

    def __len__(self) -> int:
        return len(PHOTOGRAPHS)

    def __getitem__(self, index: int) -> Tensor:
        random.seed(index)  # culprit
        picture: Tensor = PLAIN(Image.open(PHOTOGRAPHS[index]))
        return picture.flip(-1) if random.random() < 0.5 else picture


def bad_index_mirrored() -> DataLoader[Any]:
    """No library draws, but what is turned comes from a file."""
    return DataLoader(Mirrored(), batch_size=4, num_workers=2, shuffle=True)


class EpochCounted(IndexSeeded):
    """The same, and seeds follow from an epoch that only the training loop knows."""

    def seed(self, index: int) -> None:
        """By both."""
        torch.manual_seed(self.epoch * len(self) + index)


def good_epoch_counted() -> DataLoader[Any]:
    """The training loop counts epochs in an attribute of the dataset."""
    return DataLoader(EpochCounted(), batch_size=4, num_workers=2, shuffle=True)


class MadeUpByLibrary(Dataset[Sample]):
    """Pictures that torchvision makes up from a seed of its own for each index."""

    def __init__(self) -> None:
        from torchvision import datasets, transforms

        self.source = datasets.FakeData(32, (3, 8, 8), 4, transform=transforms.ToTensor())

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Sample:
        image, label = self.source[index]
        return image * 2 - 1, label


def good_made_up_by_library() -> DataLoader[Any]:
    """The pictures themselves are random numbers, and no augmentation of any."""
    return DataLoader(MadeUpByLibrary(), batch_size=4, num_workers=2, shuffle=True)


class BoxedPictures(EpochSeededPictures):
    """Pictures whose brightness is drawn once for each epoch."""

    def __getitem__(self, index: int) -> Sample:
        image, label = Pictures.__getitem__(self, index)
        return image * np.random.default_rng(self.epoch).uniform(0.5, 1.0), label


def good_epoch() -> DataLoader[Any]:
    """All samples of an epoch get the same factor, and each epoch another one."""
    return DataLoader(BoxedPictures(), batch_size=4, num_workers=2, shuffle=True)


class ShuffledPictures(Pictures):
    """Pictures in an order that is drawn from a constant seed, over again for every sample."""

    def __getitem__(self, index: int) -> Sample:
        order = np.random.RandomState(0).permutation(len(self))
        chosen = int(order[index])
        return picture(chosen), self.labels[chosen]


def good_fixed_order() -> DataLoader[Any]:
    """A constant seed decides which picture an index means, and so has to be constant."""
    return DataLoader(ShuffledPictures(), batch_size=4, num_workers=2, shuffle=True)


class Framed(Pictures):
    """Pictures without labels, in an order that is drawn from a constant seed for every sample."""

    def __getitem__(self, index: int) -> Tensor:  # type: ignore[override]
        order = np.random.RandomState(0).permutation(len(self))
        return picture(int(order[index]))


def good_order_without_labels() -> DataLoader[Any]:
    """The same, where no label tells that other samples would come."""
    return DataLoader(Framed(), batch_size=4, num_workers=2, shuffle=True)


class Led(Pictures):
    """Pictures whose brightness is drawn from a constant seed that the index leads on."""

    def __init__(self, lead: Callable[[int], UniformSource]) -> None:
        super().__init__()
        self.lead = lead

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return image * self.lead(int(index)).uniform(0.5, 1.0), label


def advanced(index: int) -> UniformSource:
    """A generator that skips as many numbers as its index says."""
    generator = np.random.default_rng(7)
    bits: Any = generator.bit_generator
    bits.advance(100 * index)
    return generator


def jumped(index: int) -> UniformSource:
    """A generator that jumps as often as its index says."""
    return np.random.Generator(np.random.PCG64(7).jumped(index))


def tabled(index: int) -> UniformSource:
    """A generator whose seed stands in a table of random seeds."""
    seeds = np.random.default_rng(7).integers(2**31, size=64)
    return np.random.default_rng(int(seeds[index]))


def good_advanced() -> DataLoader[Any]:
    """Every index has random numbers of its own, further on in one sequence."""
    return DataLoader(Led(advanced), batch_size=4, num_workers=2, shuffle=True)


def good_jumped() -> DataLoader[Any]:
    """Every index has a sequence of its own."""
    return DataLoader(Led(jumped), batch_size=4, num_workers=2, shuffle=True)


def good_tabled() -> DataLoader[Any]:
    """Every index has a seed of its own."""
    return DataLoader(Led(tabled), batch_size=4, num_workers=2, shuffle=True)


def good_lazy() -> DataLoader[Any]:
    """A generator is made once in each worker, from its seed."""
    return loader(LazyBrighten())


class Kept(Pictures):
    """Pictures that are kept as they came out first."""

    def __init__(self, transform: Callable[[Tensor], Tensor] | None = brighten) -> None:
        super().__init__(transform=transform)
        self.cache: dict[int, Sample] = {}

    def __getitem__(self, index: int) -> Sample:
        if index not in self.cache:
            self.cache[index] = super().__getitem__(index)  # culprit
        return self.cache[index]


def cached(dataset: Pictures, **settings: Any) -> DataLoader[Any]:
    """A training loader whose workers live on."""
    settings = {"num_workers": 2, "persistent_workers": True, "shuffle": True, **settings}
    return DataLoader(dataset, batch_size=4, **settings)


def bad_cached() -> DataLoader[Any]:
    """A cache holds pictures that are augmented already."""
    return cached(Kept())


def bad_cached_main_process() -> DataLoader[Any]:
    """The same in the main process."""
    return cached(Kept(), num_workers=0, persistent_workers=False)


class LastingPictures(Pictures):
    """Pictures that are loaded and augmented in one function, whose results are remembered."""

    def __init__(self, transform: Callable[[Tensor], Tensor]) -> None:
        super().__init__(transform=transform)
        self.load = lru_cache(maxsize=None)(self.load_augmented)  # culprit

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "load"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.load = lru_cache(maxsize=None)(self.load_augmented)  # culprit

    def load_augmented(self, index: int) -> Sample:
        """Load a picture and augment it."""
        return super().__getitem__(index)

    def __getitem__(self, index: int) -> Sample:
        return self.load(int(index))  # culprit


def bad_cached_function() -> DataLoader[Any]:
    """`lru_cache` remembers what was augmented, by a generator that each worker makes for itself."""
    return cached(LastingPictures(LazyBrighten()))


class SharedCache(Pictures):
    """Pictures that are kept in memory which workers share."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = torch.zeros(16, 3, 8, 8).share_memory_()
        self.known = torch.zeros(16, dtype=torch.bool).share_memory_()

    def __getitem__(self, index: int) -> Sample:
        if not self.known[index]:
            self.kept[index] = brighten(self.images[index])  # culprit
            self.known[index] = True
        return self.kept[index].clone(), self.labels[index]


def bad_cached_shared() -> DataLoader[Any]:
    """Workers start anew for each epoch, and find what the first ones augmented."""
    return cached(SharedCache(), persistent_workers=False)


def good_cached_briefly() -> DataLoader[Any]:
    """The cache is gone with its worker, and each index is read once in an epoch."""
    return cached(Kept(), persistent_workers=False)


class Decoded(Kept):
    """Pictures that are kept as they were decoded, and augmented after that."""

    def __init__(self) -> None:
        super().__init__(transform=None)

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return brighten(image), label


def good_cached_decoded() -> DataLoader[Any]:
    """A cache holds what was decoded."""
    return cached(Decoded())


class Prepared(Pictures):
    """Pictures that were augmented once and for all, from a seed."""

    def __init__(self) -> None:
        super().__init__()
        factors = torch.empty(16, 1, 1, 1).uniform_(0.5, 1.0, generator=torch.Generator().manual_seed(0))
        self.images = self.images * factors


def good_prepared() -> DataLoader[Any]:
    """The data set itself was made with random numbers."""
    return cached(Prepared())


class LateOrder(Pictures):
    """Pictures in a random order that is drawn at the first read."""

    order: list[int] | None = None

    def __getitem__(self, index: int) -> Any:
        if self.order is None:
            self.order = torch.randperm(len(self)).tolist()
        return self.images[self.order[index]]


def good_late_order() -> DataLoader[Any]:
    """Which picture an index means is drawn once."""
    return cached(LateOrder())


class NoisyLabels(Pictures):
    """Pictures, some of which get a wrong label, and keep it."""

    def __init__(self) -> None:
        super().__init__(transform=brighten)
        self.noise: dict[int, int] = {}

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return image, (label + self.noise.setdefault(index, random.randrange(4))) % 4


def good_noisy_labels() -> DataLoader[Any]:
    """Label noise is drawn once for each index, as it has to be."""
    return cached(NoisyLabels())


class Cut(Pictures):
    """Pictures of which a part is meant to be cut out at random."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return self.cut(image), label

    def cut(self, image: Tensor) -> Tensor:
        """The part of a picture."""
        top, left = random.randint(0, 4), random.randrange(5)  # culprit
        part = image[:, top : top + 4, left : left + 4]
        return image if part.shape == image.shape else image[:, :4, :4]


def cut(dataset: Cut) -> DataLoader[Any]:
    """A training loader of cut pictures."""
    return DataLoader(dataset, batch_size=4, num_workers=2, shuffle=True)


def bad_unused() -> DataLoader[Any]:
    """Where to cut is drawn, and the corner is returned."""
    return cut(Cut())


class Turned(Cut):
    """Pictures with noise that are turned, which returns another picture."""

    def cut(self, image: Tensor) -> Tensor:
        torch.rot90(image, 4 - np.random.randint(1, 4), (1, 2))  # culprit
        return image + 0.1 * torch.rand_like(image)


def bad_unused_result() -> DataLoader[Any]:
    """The result of what a random number was drawn for is thrown away, and samples vary for other reasons."""
    return cut(Turned())


class Logged(Cut):
    """Counts some of the reads."""

    seen = 0

    def cut(self, image: Tensor) -> Tensor:
        self.seen += random.randint(0, 9) == 0
        return image


def good_logged() -> DataLoader[Any]:
    """A draw decides what is logged."""
    return cut(Logged())


class Copies(Cut):
    """Reads from one of several equal copies."""

    def cut(self, image: Tensor) -> Tensor:
        return [image, image.clone(), image.clone()][random.randint(0, 2)]


def good_copies() -> DataLoader[Any]:
    """A draw chooses among equal things."""
    return cut(Copies())


class Rejected(Cut):
    """Draws where to cut, and then whether: never, as it is configured; and adds noise."""

    probability = 0.0

    def cut(self, image: Tensor) -> Tensor:
        top = random.randint(0, 4)
        part = image[:, top : top + 4] if random.random() < self.probability else image
        return part + 0.1 * torch.rand_like(part)


def good_rejected() -> DataLoader[Any]:
    """An augmentation that is off."""
    return cut(Rejected())


class Replaced(Cut):
    """Chooses what to read in place of a picture that cannot be read."""

    def cut(self, image: Tensor) -> Tensor:
        other = random.randint(0, len(self) - 1)
        return image if image.isfinite().all() else self.images[other]


def good_replaced() -> DataLoader[Any]:
    """A draw that only a broken picture needs."""
    return cut(Replaced())


class SeededTwice(Cut):
    """Transforms a picture and what belongs to it under one seed; nothing of it is random now."""

    def cut(self, image: Tensor) -> Tensor:
        torch.manual_seed(random.randint(0, 2**31))
        return image.flip(2)


def good_seeded_twice() -> DataLoader[Any]:
    """A draw is a seed."""
    return cut(SeededTwice())


class Boxed:
    """A picture in an object of the user's own."""

    def __init__(self, image: Tensor) -> None:
        self.image = image


class InObjects(Cut):
    """Pictures that are cut, in objects that nobody can look into."""

    def cut(self, image: Tensor) -> Any:
        top = random.randint(0, 4)
        return Boxed(image[:, top : top + 4])


def collate_boxed(samples: list[tuple[Boxed, int]]) -> tuple[Tensor, Tensor]:
    """The pictures of a batch, and their labels."""
    return torch.stack([boxed.image for boxed, _ in samples]), torch.tensor([label for _, label in samples])


def good_in_objects() -> DataLoader[Any]:
    """The part that is cut out is random, and inside an object."""
    return DataLoader(InObjects(), batch_size=4, num_workers=2, shuffle=True, collate_fn=collate_boxed)


class Stream(IterableDataset[Sample]):
    """A stream of pictures, each of which is transformed."""

    def __init__(self, transform: Callable[[Tensor, int], Tensor]) -> None:
        self.transform = transform

    def numbers(self) -> Iterator[int]:
        """The pictures of an epoch."""
        return iter(range(64))

    def __iter__(self) -> Iterator[Sample]:
        for number in share(self.numbers()):
            yield self.transform(picture(number), number), number % 4


def streamed(transform: Callable[[Tensor, int], Tensor]) -> dict[str, DataLoader[Any]]:
    """A training loader of a stream, which has to be named: streams tell nothing of their role."""
    return {"train": DataLoader(Stream(transform), batch_size=4, num_workers=2)}


def alike(image: Tensor, _: int) -> Tensor:
    """Brighten alike, whatever the number of the picture."""
    return brighten_alike(image)


def anyhow(image: Tensor, _: int) -> Tensor:
    """Brighten at random, whatever the number of the picture."""
    return brighten(image)


def bad_stream() -> dict[str, DataLoader[Any]]:
    """A constant seeds the generator of every sample of a stream."""
    return streamed(alike)


def good_stream() -> dict[str, DataLoader[Any]]:
    """torch's global generator is seeded once, in every worker."""
    return streamed(anyhow)


PLAIN = transforms.Compose([transforms.Resize((32, 32)), transforms.ToTensor()])


def good_plain() -> DataLoader[Any]:
    """Decoded images without augmentation, as for a run that is to learn a few of them by heart: a note says so."""
    return DataLoader(datasets.ImageFolder(str(PHOTOGRAPHS[0].parents[1]), PLAIN), batch_size=4, shuffle=True)
