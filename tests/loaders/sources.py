"""Sources of random numbers as users write them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import get_worker_info

Draw = Callable[[int, int], float]
"""What gives a number from 0 to 1 for an index and an epoch."""


@dataclass(frozen=True)
class Source:
    """Where a number of each sample comes from.

    `origin` is one of `SOURCES`; `place` and `value` are those of `tests.loaders.places`. `generator` is the type of
    generator, one of `MAKERS` or, where the whole process shares it, of `GLOBALS`; `seeded` tells whether a generator
    that lives from the start is given a seed.
    """

    origin: str = "global"
    generator: str = "torch"
    seeded: bool = True
    place: str = "attribute"
    value: str = "real"


def _philox(seed: int | None = None) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def _torch_generator(seed: int | None = None) -> torch.Generator:
    generator = torch.Generator()
    return generator if seed is None else generator.manual_seed(seed)


def _random_state(seed: int | None = None) -> np.random.RandomState:
    return np.random.RandomState(None if seed is None else seed % 2**32)


MAKERS: dict[str, Callable[..., Any]] = {
    "random": random.Random,
    "numpy": np.random.default_rng,
    "state": _random_state,
    "philox": _philox,
    "torch": _torch_generator,
}

MODULE_GENERATORS = {
    (kind, seeded): make(*([7] if seeded else [])) for kind, make in MAKERS.items() for seeded in (0, 1)
}


def uniform(generator: Any) -> float:
    """A number from 0 to 1 of any generator."""
    if isinstance(generator, torch.Generator):
        return torch.rand((), generator=generator).item()
    return float(generator.random())


def _from_cv2() -> float:
    import cv2

    return float(cv2.randu(np.empty((1, 1), dtype=np.float32), 0.0, 1.0)[0, 0])


GLOBALS: dict[str, Callable[[], float]] = {
    "random": random.random,
    "numpy": np.random.random,
    "torch": lambda: torch.rand(()).item(),
    "cv2": _from_cv2,
}


class Drawn:
    """The base of all sources: each says how it draws."""

    def __init__(self, source: Source) -> None:
        self.generator = source.generator
        self.seeded = source.seeded

    def __call__(self, index: int, epoch: int) -> float:
        raise NotImplementedError

    def make(self, seed: Any = None) -> Any:
        """A new generator of the described type."""
        return MAKERS[self.generator](seed)


class Constant(Drawn):
    """Draws nothing."""

    def __call__(self, index: int, epoch: int) -> float:
        return 0.25


class Idle(Drawn):
    """Holds a generator and never draws from it."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.rng = self.make(3)

    def __call__(self, index: int, epoch: int) -> float:
        return 0.25


class Counter(Drawn):
    """Counts, and so changes from draw to draw without any random number."""

    count = 0

    def __call__(self, index: int, epoch: int) -> float:
        self.count += 1
        return self.count / 32768


class Global(Drawn):
    """Draws from a generator that the whole process shares."""

    def __call__(self, index: int, epoch: int) -> float:
        return GLOBALS[self.generator]()


class Cached(Global):
    """Draws once for each index from a shared generator, and keeps it."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.kept: dict[int, float] = {}

    def __call__(self, index: int, epoch: int) -> float:
        if index not in self.kept:
            self.kept[index] = super().__call__(index, epoch)
        return self.kept[index]


class Held(Drawn):
    """Draws from a generator that was made with the dataset."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.rng = self.make(7 if source.seeded else None)

    def __call__(self, index: int, epoch: int) -> float:
        return uniform(self.rng)

    def reseed(self, seed: int) -> None:
        """Begin anew from a seed."""
        self.rng = self.make(seed)


class Module(Drawn):
    """Draws from a generator that is a global of this module."""

    def __call__(self, index: int, epoch: int) -> float:
        return uniform(MODULE_GENERATORS[self.generator, self.seeded])


class Lazy(Drawn):
    """Draws from a generator that the first draw makes.

    Its seed is the one that torch tells, the one in the worker's info, which `worker_init_fn` cannot change, or a
    number drawn from numpy's shared generator.
    """

    rng: Any = None

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.seeds_by = source.origin

    def __call__(self, index: int, epoch: int) -> float:
        if self.rng is None:
            self.rng = self.make(self.seed())
        return uniform(self.rng)

    def seed(self) -> int:
        """The seed of the generator."""
        info = get_worker_info()
        if self.seeds_by == "lazy numpy":
            return int(np.random.randint(2**31))
        return info.seed if info and self.seeds_by == "lazy worker" else torch.initial_seed()


class Fresh(Drawn):
    """Makes a generator for each draw: from nothing, from the index, or from epoch and index."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.seeds_by = source.origin

    def __call__(self, index: int, epoch: int) -> float:
        seed = {"entropy": None, "index": index, "epoch index": 1_000 * epoch + index}[self.seeds_by]
        return float(np.random.default_rng(seed).random()) if seed is None else uniform(self.make(seed))


class Kept(Drawn):
    """Holds a generator that begins anew, from the index, for each draw."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.rng = self.make(0)

    def __call__(self, index: int, epoch: int) -> float:
        self.rng = self.make(index)
        return uniform(self.rng)


class Frozen(Drawn):
    """Makes a generator for each draw from a constant, on a line that gives no other seed."""

    def __call__(self, index: int, epoch: int) -> float:
        return uniform(FROZEN[self.generator]())


FROZEN: dict[str, Callable[[], Any]] = {
    "random": lambda: random.Random(5),
    "numpy": lambda: np.random.default_rng(5),
    "state": lambda: np.random.RandomState(5),
    "philox": lambda: np.random.Generator(np.random.Philox(5)),
    "torch": lambda: torch.Generator().manual_seed(5),
}


class Anew(Drawn):
    """For streams: draws from a generator that each pass makes, from a constant or from the seed that torch tells."""

    rng: Any = None

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.constant = source.origin == "anew"

    def __call__(self, index: int, epoch: int) -> float:
        return uniform(self.rng)

    def begin(self) -> None:
        """Called where a pass over the stream begins."""
        self.rng = self.make(9 if self.constant else torch.initial_seed())


SOURCES: dict[str, type[Drawn]] = {
    "constant": Constant,
    "idle": Idle,
    "counter": Counter,
    "global": Global,
    "cached": Cached,
    "held": Held,
    "module": Module,
    "lazy": Lazy,
    "lazy worker": Lazy,
    "lazy numpy": Lazy,
    "entropy": Fresh,
    "index": Fresh,
    "index kept": Kept,
    "epoch index": Fresh,
    "frozen": Frozen,
    "anew": Anew,
    "anew seeded": Anew,
}
