"""Loaders that start their workers as the platform does: what spawned workers would make of them."""

from __future__ import annotations

import functools
import io
import json
import multiprocessing
import os
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate, get_worker_info

from sample_datasets._parts import Pictures, picture, share

SETTINGS = {"scale": 1.0}
FROM_ENVIRONMENT = float(os.environ.get("DATAGUARD_TEST_SCALE", "2"))
STARTED = uuid.uuid4().hex
CALLS: list[int] = []
TMP = tempfile.TemporaryDirectory()
Path(TMP.name, "scale.json").write_text("3")


def loader(dataset: Dataset[Any], **settings: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=4, num_workers=2, **settings)


class Read(Pictures):
    """Pictures scaled by a function of the index."""

    def __init__(self, factor: Callable[[int], float]) -> None:
        super().__init__()
        self.factor = factor

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image * self.factor(index), label


def from_global(_: int) -> float:
    return SETTINGS["scale"]


def from_environment(_: int) -> float:
    return FROM_ENVIRONMENT


def good_environment_at_run_time() -> DataLoader[Any]:
    """A spawned worker inherits the environment, and reads it when it imports this module."""
    return loader(Read(from_environment))


def opened(path: Path = Path(__file__)) -> Any:
    return path.open("rb")


class Reopened(Pictures):
    """Drops its handle when it is pickled, and opens it again."""

    def __init__(self) -> None:
        super().__init__()
        self.file: Any = opened()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "file"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.file = opened()

    def __getitem__(self, index: int) -> Any:
        image, _ = super().__getitem__(index)
        return image, os.pread(self.file.fileno(), 1, index)[0]


def good_reopened() -> DataLoader[Any]:
    return loader(Reopened())


class Lazy(Pictures):
    """Opens its file in the worker that reads it."""

    file: Any = None

    def __getitem__(self, index: int) -> Any:
        image, _ = super().__getitem__(index)
        if self.file is None:
            self.file = io.BytesIO(Path(__file__).read_bytes())
        return image, self.file.getbuffer()[index]


def good_lazy_handle() -> DataLoader[Any]:
    return loader(Lazy())


def padded(samples: Sequence[Any], to: int) -> Any:
    return default_collate([(image[:, :to], label) for image, label in samples])


def good_partial_collate() -> DataLoader[Any]:
    return loader(Pictures(), collate_fn=functools.partial(padded, to=4))


class Noise:
    """Adds noise from a generator that `worker_init_fn` makes."""

    generator: torch.Generator | None = None

    def __call__(self, image: Tensor) -> Tensor:
        return image + torch.rand(image.shape, generator=self.generator)


def make_generator(worker: int) -> None:
    info: Any = get_worker_info()
    info.dataset.transform.generator = torch.Generator().manual_seed(torch.initial_seed() % 2**63)


def good_generator_of_worker() -> DataLoader[Any]:
    return loader(Pictures(transform=Noise()), worker_init_fn=make_generator)


class Memoised(Pictures):
    """Has a method with a cache, which is found by its name."""

    @functools.lru_cache(maxsize=8)  # noqa: B019 - many do
    def scale(self, index: int) -> float:
        CALLS.append(index)
        return 1 / (index + 1)

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image * self.scale(index), label


def good_lru_cache() -> DataLoader[Any]:
    return loader(Memoised())


class Shared(Pictures):
    """Locks and values of multiprocessing, made for the start method of this platform."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = multiprocessing.Lock()
        self.scale: Any = multiprocessing.Value("d", 0.5)
        self.table = multiprocessing.Array("d", [0.1] * 16)

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        with self.lock:
            return image * self.scale.value * self.table[index], label


def good_shared_values() -> DataLoader[Any]:
    return loader(Shared())


class Stamped(Pictures):
    """Samples carry what differs in every process, run or import."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return image, label, time.time(), os.urandom(4).hex(), os.getpid(), STARTED, id(self), hash(object())


def good_stamped() -> DataLoader[Any]:
    return loader(Stamped())


def from_folder(_: int) -> float:
    return float(json.loads(Path(TMP.name, "scale.json").read_text()))


def good_folder_of_module() -> DataLoader[Any]:
    """Each process makes a folder of its own as it imports this module, and fills it alike."""
    return loader(Read(from_folder))


def good_global_set_in_worker() -> DataLoader[Any]:
    """`worker_init_fn` sets the global in every worker."""
    SETTINGS["scale"] = 0.25
    return loader(Read(from_global), worker_init_fn=functools.partial(set_scale, 0.25))


def set_scale(scale: float, worker: int) -> None:
    SETTINGS["scale"] = scale


class Table(Pictures):
    """A table as a tensor, and the same as an array."""

    def __init__(self, *, write: bool) -> None:
        super().__init__()
        self.write = write
        self.fast = np.arange(16.0)
        self.table = torch.from_numpy(self.fast)

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        if self.write:
            self.table[index] = 100 + index
        return image * float(self.fast[index]), label


def good_view_read() -> DataLoader[Any]:
    """Both are sent, with the same values."""
    return loader(Table(write=False))


def bad_view_written() -> DataLoader[Any]:
    """What is written to the tensor never reaches the array."""
    return loader(Table(write=True))


class Late(Pictures):
    """The view is pickled after its tensor, whose memory is free by then."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.arange(1000)
        self.fast = self.table.numpy()

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0], int(self.fast.sum()) + index


def bad_view_freed() -> DataLoader[Any]:
    return loader(Late())


def bad_file() -> DataLoader[Any]:
    dataset = Pictures()
    dataset.file = opened()  # type: ignore[attr-defined]
    return loader(dataset)


class Stream(IterableDataset[Tensor]):
    """A stream of pictures."""

    def __init__(self, factor: Callable[[int], float]) -> None:
        self.factor = factor

    def __iter__(self) -> Iterator[Tensor]:
        order = list(share(range(32)))
        random.shuffle(order)
        return (picture(number) * self.factor(number) for number in order)


def good_stream() -> DataLoader[Any]:
    return loader(Stream(from_environment))


def bad_stream() -> DataLoader[Any]:
    SETTINGS["scale"] = 0.5
    return loader(Stream(from_global))


def asked_for_fork() -> DataLoader[Any]:
    SETTINGS["scale"] = 0.5
    return loader(Read(lambda _: SETTINGS["scale"]), multiprocessing_context="fork")


def unconfirmed() -> DataLoader[Any]:
    """It differs, but its lock keeps a spawned worker from starting."""
    SETTINGS["scale"] = 0.5
    dataset = Read(from_global)
    dataset.lock = multiprocessing.Lock()  # type: ignore[attr-defined]
    return loader(dataset)
