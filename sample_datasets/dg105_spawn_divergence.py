"""DG105 spawn-divergence: spawned workers start, but return different samples than forked workers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from sample_datasets._parts import LazyBrighten, Pictures, brighten, picture, share

Sample = tuple[Tensor, int]

SETTINGS = {"scale": 1.0}


def loader(dataset: Dataset[Any], **settings: Any) -> DataLoader[Any]:
    """A loader whose workers start as they do on this platform, once for all epochs."""
    return DataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True, **settings)


def scale_by_global(image: Tensor) -> Tensor:
    """Scale by what a global of this module says."""
    return image * SETTINGS["scale"]  # culprit


def bad() -> DataLoader[Any]:
    """A global is set at run time; spawned workers import this module and find its default."""
    SETTINGS["scale"] = 0.5  # culprit
    return loader(Pictures(transform=scale_by_global))


def bad_spawn() -> DataLoader[Any]:
    """The same, and the loader asks for spawn."""
    SETTINGS["scale"] = 0.5  # culprit
    return loader(Pictures(transform=scale_by_global), multiprocessing_context="spawn")


class Scaled(Pictures):
    """Pictures that are scaled by what their class says."""

    scale = 1.0

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return image * self.scale, label  # culprit


def bad_class_attribute() -> DataLoader[Any]:
    """A class attribute is set at run time, and not pickled with the object."""
    Scaled.scale = 0.5  # culprit
    return loader(Scaled())


class Forgetful(Pictures):
    """Pictures that travel without their transform."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "transform": None}  # culprit


def halve(image: Tensor) -> Tensor:
    """Halve the brightness."""
    return image / 2


def bad_lost_transform() -> DataLoader[Any]:
    """The transform is left out of what is pickled."""
    return loader(Forgetful(transform=halve))


def bad_forkserver() -> DataLoader[Any]:
    """A fork server imports this module afresh as well."""
    SETTINGS["scale"] = 0.5  # culprit
    return loader(Pictures(transform=scale_by_global), multiprocessing_context="forkserver")


def good() -> DataLoader[Any]:
    """The transform is a function of this module, and all that it needs is pickled."""
    return loader(Pictures(transform=halve))


def good_spawn() -> DataLoader[Any]:
    """The same, and the loader asks for spawn."""
    return loader(Pictures(transform=halve), multiprocessing_context="spawn")


def good_fork() -> DataLoader[Any]:
    """A global that is set at run time reaches forked workers."""
    SETTINGS["scale"] = 0.5
    return loader(Pictures(transform=scale_by_global), multiprocessing_context="fork")


def good_random() -> DataLoader[Any]:
    """Samples differ because they are random."""
    return loader(Pictures(transform=brighten))


def good_lazy() -> DataLoader[Any]:
    """Samples differ because each worker makes a generator of its own."""
    return loader(Pictures(transform=LazyBrighten()))


class Configured(Pictures):
    """Pictures that take along what is set at run time."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = SETTINGS["scale"]

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return image * self.scale, label


def good_attribute() -> DataLoader[Any]:
    """What was set at run time is an attribute of the dataset."""
    SETTINGS["scale"] = 0.5
    return loader(Configured())


class Reopening(Pictures):
    """Pictures that leave their cache behind and fill it again."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[int, Tensor] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "cache": {}}

    def __getitem__(self, index: int) -> Sample:
        image, label = super().__getitem__(index)
        return self.cache.setdefault(int(index), torch.sqrt(image)), label


def good_cache() -> DataLoader[Any]:
    """What is left out of the pickle is made again."""
    return loader(Reopening())


class Viewed(Pictures):
    """Pictures with a table of numbers, kept as a tensor and as a numpy view of it."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = torch.arange(1000)
        self.view = self.numbers.numpy()  # culprit

    def __getitem__(self, index: int) -> Sample:
        return super().__getitem__(index)[0], int(self.view.sum()) + index  # culprit


def bad_numpy_view() -> DataLoader[Any]:
    """A tensor moves to shared memory on its way to a spawned worker, and its numpy view stays behind."""
    return loader(Viewed())


class LargeViewed(Pictures):
    """The same with more numbers, which a worker may still find in the memory that was freed."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = torch.rand(64, 500)
        self.view = self.numbers.numpy()  # culprit

    def __getitem__(self, index: int) -> Any:
        return *super().__getitem__(index), self.view[index].copy()  # culprit


def bad_numpy_view_large() -> DataLoader[Any]:
    """Most samples are right as long as nothing else needs that memory."""
    return loader(LargeViewed())


class Both(Pictures):
    """Pictures as tensors and as arrays; `as_array` makes these."""

    def __init__(self, as_array: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.as_array = as_array

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        image = image.clone()
        return image, self.as_array(image), label


def as_view(image: Tensor) -> Any:
    """The memory of the tensor."""
    return image.numpy()


def as_copy(image: Tensor) -> Any:
    """Memory of its own."""
    return image.numpy().copy()


def unchanged(samples: list[Any]) -> list[Any]:
    """Leave batches to the training loop."""
    return samples


def reversed_fields(samples: list[Any]) -> list[Any]:
    """The same with the tensor after its array."""
    return [sample[::-1] for sample in samples]


def bad_view_beside() -> DataLoader[Any]:
    """A tensor leaves its memory when a worker sends it, and its numpy view is sent after that."""
    return loader(Both(as_view), collate_fn=unchanged)


def good_copy_beside() -> DataLoader[Any]:
    """The array is a copy."""
    return loader(Both(as_copy), collate_fn=unchanged)


def good_view_first() -> DataLoader[Any]:
    """The array is sent before its tensor."""
    return loader(Both(as_view), collate_fn=reversed_fields)


def good_view_stacked() -> DataLoader[Any]:
    """Both are stacked to a batch, which copies them."""
    return loader(Both(as_view))


class Stream(IterableDataset[Sample]):
    """A stream of pictures, each of which is transformed."""

    def __init__(self, transform: Callable[[Tensor], Tensor]) -> None:
        self.transform = transform

    def numbers(self) -> Iterator[int]:
        """The pictures of this epoch."""
        return iter(range(48))

    def __iter__(self) -> Iterator[Sample]:
        for number in share(self.numbers()):
            yield self.transform(picture(number)), number


def bad_stream() -> DataLoader[Any]:
    """A stream is scaled by a global that was set at run time."""
    SETTINGS["scale"] = 0.5
    return loader(Stream(scale_by_global))


class Endless(Stream):
    """A stream without end."""

    def numbers(self) -> Iterator[int]:
        return count()


def bad_stream_endless() -> DataLoader[Any]:
    """A stream without end, whose samples are recognised by their number."""
    SETTINGS["scale"] = 0.5
    return loader(Endless(scale_by_global))


RNG = np.random.default_rng(0)


class Shuffled(Stream):
    """A stream in an order that a generator of this module decides."""

    def __init__(self, transform: Callable[[Tensor], Tensor]) -> None:
        super().__init__(transform)
        RNG.random(7)

    def numbers(self) -> Iterator[int]:
        return iter(RNG.permutation(48).tolist())


def good_stream_order() -> DataLoader[Any]:
    """The same samples come in another order."""
    return loader(Shuffled(halve))


class Mixed(Stream):
    """A stream of single samples in an order that each worker draws for itself."""

    def __iter__(self) -> Iterator[Sample]:
        numbers = list(share(self.numbers()))
        random.shuffle(numbers)
        for number in numbers:
            yield self.transform(picture(number)), number


def good_stream_random() -> DataLoader[Any]:
    """Random order and random augmentation, from generators that torch seeds in each worker."""
    return loader(Mixed(brighten))
