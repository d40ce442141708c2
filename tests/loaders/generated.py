"""Loaders built from descriptions: sources of random numbers in one sample, and how the workers are set up.

What is true of a description is worked out in `tests.support.oracle`. This module loads no hypothesis, because it is
imported wherever such a loader is scanned.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate, get_worker_info

from tests.loaders.places import PLACES, VALUES
from tests.loaders.sources import SOURCES, Anew, Draw, Held, Source

FILE = "DATAGUARD_ORACLE"
"""The environment variable that names a file with pickled descriptions by loader name."""

ITEMS = 12
STREAMED = 96
"""How many samples a dataset has, and how many a stream."""


@dataclass(frozen=True)
class Description:
    """One loader.

    `mix` says how two sources share a sample: in leaves of their own ("apart"), as a sum ("added"), or the first one,
    as a coin, deciding whether the second is asked at all ("gate"). `init` is one of `INITS`; `buffer` lets a stream be
    shuffled by a generator that it holds.
    """

    sources: tuple[Source, ...]
    mix: str = "apart"
    workers: int = 2
    persistent: bool = False
    method: str = "fork"
    init: str = "none"
    batch_size: int | None = 4
    shuffle: bool = False
    collate: bool = False
    stream: bool = False
    buffer: bool = False


def _everything(follows: str) -> dict[str, str]:
    return dict.fromkeys(("random", "numpy", "torch", "cv2"), follows)


INITS: dict[str, dict[str, str]] = {
    "none": {},
    "constant": _everything("constant"),
    "id": _everything("id"),
    "numpy id": {"numpy": "id"},
    "seed": _everything("seed"),
    "held": {},
}
"""What a `worker_init_fn` seeds the shared generators with: a constant, the worker's id, or the seed that torch tells.

"none" stands for no `worker_init_fn`, "held" for one that gives each held generator the seed that torch tells.
"""


class Init:
    """A `worker_init_fn` of one of the kinds in `INITS`."""

    def __init__(self, name: str, held: Sequence[Held]) -> None:
        self.effects = INITS[name]
        self.held = list(held) if name == "held" else []

    def __call__(self, worker: int) -> None:
        told = torch.initial_seed()
        seeds = {"constant": 0, "id": worker, "seed": told % 2**31}
        for library, follows in self.effects.items():
            self.seed(library, seeds[follows])
        for number, source in enumerate(self.held):
            source.reseed(told + number)

    def seed(self, library: str, seed: int) -> None:
        """Seed one of the shared generators; cv2's only where cv2 is there."""
        if library == "random":
            random.seed(seed)
        elif library == "numpy":
            np.random.seed(seed)
        elif library == "torch":
            torch.manual_seed(seed)
        elif "cv2" in sys.modules:
            sys.modules["cv2"].setRNGSeed(seed)


class Augmenting:
    """Adds numbers from sources to the leaves of a sample; the sources are attributes of their own."""

    def __init__(self, parts: Iterable[tuple[str, str, Draw]], mix: str) -> None:
        self.names: list[tuple[str, str, str]] = []
        self.gate = mix == "gate"
        for number, (leaf, value, draw) in enumerate(parts):
            self.names.append((f"draw{number}", leaf, value))
            setattr(self, f"draw{number}", draw)

    def augment(self, sample: dict[str, Any], index: int, epoch: int) -> dict[str, Any]:
        """The sample with every source's value added to its leaf."""
        for number, (name, leaf, value) in enumerate(self.names):
            drawn = getattr(self, name)(index, epoch)
            if self.gate and number == 0:
                if drawn < 0.5:
                    continue
                break
            sample[leaf] = sample[leaf] + VALUES[value](drawn)
        return sample


def plain(index: int) -> dict[str, Any]:
    """A sample before anything is added to it."""
    ramp = torch.linspace(0.0, 1.0, 4) + 10 * index
    return {"x": ramp, "y": ramp + 1, "label": index % 4}


class Samples(Augmenting, Dataset):
    """A map-style dataset of small dicts."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch before its workers start."""
        self.epoch = epoch

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.augment(plain(index), index, self.epoch)


class Streamed(Augmenting, IterableDataset):
    """The same as a stream, of which each worker yields its share."""

    epoch = 0
    anew: Sequence[Anew] = ()
    order: random.Random | None = None

    def set_epoch(self, epoch: int) -> None:
        """Tell the epoch before its workers start."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for source in self.anew:
            source.begin()
        info = get_worker_info()
        share = islice(range(STREAMED), info.id, None, info.num_workers) if info else iter(range(STREAMED))
        for index in self.buffered(share):
            yield self.augment(plain(index), index, self.epoch)

    def buffered(self, numbers: Iterator[int]) -> Iterator[int]:
        """The numbers through a small buffer that is shuffled, where there is a generator for it."""
        waiting: list[int] = []
        for number in numbers:
            if self.order is None:
                yield number
                continue
            waiting.append(number)
            if len(waiting) == 8:
                yield waiting.pop(self.order.randrange(8))
        yield from waiting


class Collate(Augmenting):
    """A collate function that adds numbers to a whole batch."""

    def __call__(self, samples: list[dict[str, Any]]) -> Any:
        return self.augment(default_collate(samples), int(samples[0]["x"][0]) // 10, 0)


def build(description: Description) -> DataLoader[Any]:
    """The loader that a description stands for."""
    sources = [SOURCES[source.origin](source) for source in description.sources]
    parts: dict[bool, list[tuple[str, str, Draw]]] = {True: [], False: []}
    for number, (source, made) in enumerate(zip(description.sources, sources, strict=True)):
        leaf = "y" if number and description.mix == "apart" else "x"
        parts[source.place == "collate_fn"].append((leaf, source.value, PLACES[source.place](made)))
    kind = Streamed if description.stream else Samples
    dataset: Any = kind(parts[False], description.mix)
    if description.stream:
        dataset.anew = [source for source in sources if isinstance(source, Anew)]
        dataset.order = random.Random(0) if description.buffer else None
    held = [source for source in sources if isinstance(source, Held)]
    arguments: dict[str, Any] = {} if description.stream else {"shuffle": description.shuffle}
    if parts[True] or description.collate:
        arguments["collate_fn"] = Collate(parts[True], description.mix)
    if description.init != "none":
        arguments["worker_init_fn"] = Init(description.init, held)
    return DataLoader(
        dataset,
        batch_size=description.batch_size,
        num_workers=description.workers,
        persistent_workers=description.persistent,
        multiprocessing_context=description.method,
        **arguments,
    )


def uses_cv2(description: Description) -> bool:
    """Whether a source draws from cv2's generator."""
    return any(source.generator == "cv2" for source in description.sources)


def loaders() -> dict[str, DataLoader[Any]]:
    """The target: every loader that the file describes."""
    descriptions = pickle.loads(Path(os.environ[FILE]).read_bytes())
    if any(map(uses_cv2, descriptions.values())):
        import cv2  # noqa: F401 - once here, and not again in each worker
    return {name: build(description) for name, description in descriptions.items()}
