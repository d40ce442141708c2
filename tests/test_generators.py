"""The walk finds generators wherever they hide, runs none of the user's code, and does not grow with the data."""

from __future__ import annotations

import functools
import random
from collections import UserDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from dataguard.lab.generators import FEW, find_generators, generator_states, move_on

MODULE_RNG = np.random.default_rng(0)


def from_module() -> float:
    """Draw from the module's generator."""
    return float(MODULE_RNG.random())


class Slotted:
    """Holds a generator in a slot."""

    __slots__ = ("rng",)

    def __init__(self) -> None:
        self.rng = random.Random(0)


@dataclass
class Fields:
    """Holds a generator in a list of a field."""

    parts: list[Any] = field(default_factory=lambda: [1, [np.random.RandomState(0)]])


class Method:
    """Holds a generator in the default of a method."""

    def __getitem__(self, index: int, rng: np.random.Generator = np.random.default_rng(0)) -> float:  # noqa: B008
        return index + float(rng.random())


def closure() -> Callable[[], float]:
    """A function that closes over a generator."""
    rng = random.Random(0)
    return lambda: rng.random()


def running() -> Iterator[float]:
    """A generator function that holds a random generator while it runs."""
    rng = random.Random(0)
    while True:
        yield rng.random()


def started() -> Iterator[float]:
    """The same, once it has begun."""
    stream = running()
    next(stream)
    return stream


HOLDERS = {
    "slot": (Slotted(), ".rng"),
    "field": (Fields(), ".parts[1][0]"),
    "default": (Method(), ".<class Method>.__getitem__.<default 0>"),
    "closure": (closure(), ".<closure rng>"),
    "global": (from_module, f".<global {__name__}.MODULE_RNG>"),
    "partial": (functools.partial(print, torch.Generator()), ".args[0]"),
    "bound method": (Slotted().rng.random, ".<held>"),
    "object array": (np.array([None, random.Random(0)], dtype=object), "[1]"),
    "frame": (started(), ".<local rng>"),
    "module": (torch.nn.Sequential(torch.nn.ReLU()), None),
}


@pytest.mark.parametrize("where", HOLDERS)
def test_generators_are_found_wherever_they_hide(where: str) -> None:
    holder, path = HOLDERS[where]
    assert [source.path for source in find_generators({"x": holder})] == ([] if path is None else [f"x{path}"])


class Touchy(UserDict[str, Any]):
    """Must not be asked anything: every answer would be code of the user's."""

    def __init__(self) -> None:
        self.__dict__["rng"] = random.Random(0)

    def _forbidden(self, *_: Any) -> Any:
        raise AssertionError("the walk ran the user's code")

    __len__ = __bool__ = __iter__ = __contains__ = __getitem__ = items = keys = values = __eq__ = _forbidden
    __hash__ = None  # type: ignore[assignment]


class TouchyList(list[Any]):
    """A list whose iteration is the user's code."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("the walk ran the user's code")


def test_the_walk_runs_none_of_the_users_code() -> None:
    states = list(generator_states({"x": Touchy(), "y": TouchyList([random.Random(1)])}))
    assert [state.path for state in states[3:]] == ["x.rng", "y[0]"]


def test_big_containers_are_sampled() -> None:
    reads = 0

    class Counting:
        """Counts how often its attributes are looked at."""

        def __getattribute__(self, name: str) -> Any:
            nonlocal reads
            reads += name == "__dict__"
            return object.__getattribute__(self, name)

    find_generators({"x": [Counting() for _ in range(100_000)]})
    assert 0 < reads <= 2 * FEW


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, random.Random])
def test_a_generator_is_moved_on_by_its_path(make: Callable[[int], Any]) -> None:
    holder = {"rng": make(0)}
    (before,) = (source.state() for source in find_generators({"x": holder}))
    move_on("x['rng']", {"x": holder})
    (after,) = (source.state() for source in find_generators({"x": holder}))
    assert before != after
