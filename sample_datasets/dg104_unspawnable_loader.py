"""DG104 unspawnable-loader: workers fail under spawn or forkserver, but work under fork."""

from __future__ import annotations

import importlib
import os
import threading
import wsgiref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Sampler, default_collate

from sample_datasets._parts import Pictures, picture, share

Transform = Callable[[Tensor], Tensor]


class Chain:
    """Transforms, one after the other."""

    def __init__(self, *transforms: Transform) -> None:
        self.transforms = list(transforms)

    def __call__(self, image: Tensor) -> Tensor:
        for transform in self.transforms:
            image = transform(image)
        return image


def invert(image: Tensor) -> Tensor:
    """Make white black."""
    return 1 - image


def scale(image: Tensor, factor: float) -> Tensor:
    """Make an image darker or brighter."""
    return image * factor


def bad() -> DataLoader[Any]:
    """One of the transforms is a lambda, and the start method is left to the platform."""
    chain = Chain(invert, torch.relu, lambda image: image * 2)  # culprit
    return DataLoader(Pictures(transform=chain), batch_size=4, num_workers=2)


def bad_spawn() -> DataLoader[Any]:
    """The same, and the loader asks for spawn."""
    chain = Chain(invert, torch.relu, lambda image: image * 2)  # culprit
    return DataLoader(Pictures(transform=chain), batch_size=4, num_workers=2, multiprocessing_context="spawn")


def bad_forkserver() -> DataLoader[Any]:
    """The same under forkserver, the default on Linux from Python 3.14 on."""
    chain = Chain(invert, torch.relu, lambda image: image * 2)  # culprit
    return DataLoader(Pictures(transform=chain), batch_size=4, num_workers=2, multiprocessing_context="forkserver")


def scaling(factor: float) -> Transform:
    """Make a transform that holds its factor in a closure."""

    def scaled(image: Tensor) -> Tensor:  # culprit
        return image * factor

    return scaled


def bad_closure() -> DataLoader[Any]:
    """The transform is a function that was defined inside another one."""
    pictures = Pictures(transform=Chain(invert, scaling(0.5)))
    return DataLoader(pictures, batch_size=4, num_workers=2)


def bad_local_class() -> DataLoader[Any]:
    """The dataset's class is defined inside the factory, as it happens in notebooks and tests."""

    class Inverted(Pictures):  # culprit
        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            image, label = super().__getitem__(index)
            return 1 - image, label

    return DataLoader(Inverted(), batch_size=4, num_workers=2)


class NoisyPictures(Pictures):
    """Pictures with noise from a generator that is created along with the dataset."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)  # culprit

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image + torch.randn(image.shape, generator=self.generator), label


def bad_torch_generator() -> DataLoader[Any]:
    """A torch.Generator is pickled without an error, but the worker dies as it unpickles it."""
    return DataLoader(NoisyPictures(), batch_size=4, num_workers=1, persistent_workers=True)


class Annotated(Pictures):
    """Pictures whose labels are bytes of a file that is opened with the dataset."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.file = path.open("rb")  # culprit

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, _ = super().__getitem__(index)
        return image, os.pread(self.file.fileno(), 1, index)[0]


def bad_open_file() -> DataLoader[Any]:
    """An open file cannot be pickled."""
    return DataLoader(Annotated(Path(__file__)), batch_size=4, num_workers=2)


class Cache:
    """Pictures that were made before, guarded by a lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # culprit
        self.kept: dict[int, Tensor] = {}

    def get(self, number: int) -> Tensor:
        """Make a picture, once."""
        with self.lock:
            return self.kept.setdefault(number, picture(number))


class CachedPictures(Pictures):
    """Pictures from a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.caches = {"train": Cache()}

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        index = range(len(self))[index]
        return self.caches["train"].get(index), self.labels[index]


def bad_lock() -> DataLoader[Any]:
    """A lock cannot be pickled; it hides in an object of the dataset."""
    return DataLoader(CachedPictures(), batch_size=4, num_workers=2)


def bad_collate() -> DataLoader[Any]:
    """The collate function is a lambda."""
    return DataLoader(
        Pictures(),
        batch_size=4,
        num_workers=2,
        collate_fn=lambda samples: default_collate(samples),  # culprit
    )


def bad_worker_init() -> DataLoader[Any]:
    """The `worker_init_fn` is a lambda."""
    return DataLoader(
        Pictures(),
        batch_size=4,
        num_workers=2,
        worker_init_fn=lambda worker: torch.set_num_threads(1),  # culprit
    )


class Strict(Pictures):
    """Pictures that refuse to be restored."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise ValueError(f"version {state.get('version')} is not supported")


def bad_setstate() -> DataLoader[Any]:
    """The dataset is pickled, but its own `__setstate__` raises in the worker."""
    return DataLoader(Strict(), batch_size=4, num_workers=2)


SETTINGS: dict[str, float] = {}
"""What the program's start fills in."""


class Configured(Pictures):
    """Pictures that are scaled as the program's settings say."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image * SETTINGS["scale"], label


def bad_global() -> DataLoader[Any]:
    """A module's global is set at run time; a spawned worker imports the module anew and finds it empty."""
    SETTINGS["scale"] = 0.5
    return DataLoader(Configured(), batch_size=4, num_workers=2)


class Addressed(Pictures):
    """Pictures with an address, from a module that this one does not import."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image, label + len(wsgiref.headers.Headers([]))  # type: ignore[attr-defined]


def bad_missing_import() -> DataLoader[Any]:
    """A module imports a package; the submodule that it uses was imported by the main program alone."""
    importlib.import_module("wsgiref.headers")
    return DataLoader(Addressed(), batch_size=4, num_workers=2, multiprocessing_context="spawn")


class Numbers(IterableDataset[Tensor]):
    """A stream that maps a function over numbers."""

    def __init__(self, function: Callable[[int], Tensor]) -> None:
        self.function = function

    def __iter__(self) -> Iterator[Tensor]:
        return (self.function(number) for number in share(range(16)))


def bad_stream() -> DataLoader[Any]:
    """A stream that maps a lambda."""
    stream = Numbers(lambda number: picture(number))
    return DataLoader(stream, batch_size=4, num_workers=2)


def kept(dataset: Any, method: str | None = None) -> DataLoader[Any]:
    """A loader whose workers are started once for all epochs."""
    settings: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": method, "persistent_workers": True}
    return DataLoader(dataset, batch_size=4, **settings)


def good() -> DataLoader[Any]:
    """Functions of a module are found by their names."""
    return kept(Pictures(transform=Chain(invert, torch.relu)))


def good_spawn() -> DataLoader[Any]:
    """The same, and the loader asks for spawn."""
    return kept(Pictures(transform=Chain(invert, torch.relu)), "spawn")


def good_forkserver() -> DataLoader[Any]:
    """The same under forkserver."""
    chain = Chain(invert, torch.relu)
    return kept(Pictures(transform=chain), "forkserver")


def good_partial() -> DataLoader[Any]:
    """Arguments are bound by `functools.partial`."""
    pictures = Pictures(transform=partial(scale, factor=0.5))
    return kept(pictures)


def good_lambda_forked() -> DataLoader[Any]:
    """Forked workers inherit the lambda; and the loader asks for that."""
    pictures = Pictures(transform=Chain(invert, lambda image: image * 2))
    return DataLoader(pictures, batch_size=4, num_workers=2, multiprocessing_context="fork")


def good_lambda_without_workers() -> DataLoader[Any]:
    """Without workers, the lambda stays where it is."""
    return DataLoader(Pictures(transform=lambda image: image * 2), batch_size=4)


class LazilyAnnotated(Pictures):
    """Pictures whose file is left behind when the dataset is sent, and opened again on first use."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.file: BinaryIO | None = path.open("rb")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "file": None}

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, _ = super().__getitem__(index)
        if self.file is None:
            self.file = self.path.open("rb")
        return image, os.pread(self.file.fileno(), 1, index)[0]


def good_reopened_file() -> DataLoader[Any]:
    """The dataset drops its open file in `__getstate__`."""
    return kept(LazilyAnnotated(Path(__file__)))


class Ranked(Sampler[int]):
    """Indices in the order of a key."""

    def __init__(self, count: int, key: Callable[[int], float]) -> None:
        self.count = count
        self.key = key

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(range(self.count), key=self.key))


def good_sampler() -> DataLoader[Any]:
    """The sampler holds a lambda and the loader a torch.Generator, but both stay in the main process."""
    return DataLoader(
        Pictures(),
        batch_size=4,
        num_workers=2,
        sampler=Ranked(16, key=lambda index: -index),
        generator=torch.Generator(),
        persistent_workers=True,
    )


class Handed(Pictures):
    """Pictures that are given their settings, and hold them."""

    def __init__(self, factors: Sequence[float]) -> None:
        super().__init__()
        self.factors = list(factors)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = super().__getitem__(index)
        return image * self.factors[label], label


def good_settings() -> DataLoader[Any]:
    """What is set at run time is an attribute of the dataset, and sent along with it."""
    factors = [1 / (label + 1) for label in range(4)]
    return kept(Handed(factors))
