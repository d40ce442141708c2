"""The search finds generators wherever they hide, runs none of the user's code, and does not grow with the data."""

from __future__ import annotations

import array
import contextvars
import functools
import importlib
import itertools
import operator
import random
import sys
import threading
import types
import weakref
from collections import ChainMap, UserDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import rpds
import torch

from dataguard.lab.core.object_graph import FEW_ENTRIES, MOST_ENTRIES, reachable
from dataguard.lab.rng.rng_discovery import advance, find_generators, generator_states, kind_of
from tests.loaders import culprits

MODULE_RNG = np.random.default_rng(0)


def rng() -> random.Random:
    return random.Random(0)


def from_module() -> float:
    """Draw from the module's generator."""
    return float(MODULE_RNG.random())


def from_another_module() -> float:
    """Draw from the generator of another module."""
    return culprits.RNG.random()


def from_import() -> float:
    """Draw from the generator of a module that is imported when it is needed."""
    from tests.loaders.culprits import RNG

    return RNG.random()


class Configuration:
    """Holds a generator in its class."""

    rng = random.Random(0)


def from_class() -> float:
    """Draw from the generator of a class."""
    return Configuration.rng.random()


class Registered:
    """Holds generators by name, which a method of the class gives."""

    held: ClassVar[dict[str, random.Random]] = {"noise": random.Random(0)}

    @classmethod
    def get(cls, name: str) -> random.Random:
        """One of them."""
        return cls.held[name]


def from_registry() -> float:
    """Draw from a generator that a method of a class gives."""
    return Registered.get("noise").random()


def with_attribute() -> None:
    """Holds a generator as an attribute."""


with_attribute.rng = rng()  # type: ignore[attr-defined]


@functools.lru_cache
def made_once() -> random.Random:
    """Returns the same generator for ever."""
    return rng()


made_once()


class Slotted:
    """Holds a generator in a slot."""

    __slots__ = ("rng",)

    def __init__(self) -> None:
        self.rng = random.Random(0)


class Private:
    """Holds a generator in a slot whose name is mangled."""

    __slots__ = ("__rng",)

    def __init__(self) -> None:
        self.__rng = random.Random(0)


@dataclass
class Fields:
    """Holds a generator in a list of a field."""

    parts: list[Any] = field(default_factory=lambda: [1, [np.random.RandomState(0)]])


@dataclass(slots=True)
class SlottedFields:
    """Holds a generator in a field without a `__dict__`."""

    rng: random.Random = field(default_factory=rng)


class Method:
    """Holds a generator in the default of a method."""

    def __getitem__(self, index: int, rng: np.random.Generator = np.random.default_rng(0)) -> float:  # noqa: B008
        return index + float(rng.random())


class PartialMethod:
    """Holds a generator in a method that is bound in part."""

    draw = functools.partialmethod(print, rng())


class Property:
    """Draws from the module's generator in a property."""

    @property
    def factor(self) -> float:
        return float(MODULE_RNG.random())


class Registry(dict[str, int]):
    """A dict with a generator beside its entries."""

    def __init__(self) -> None:
        super().__init__(a=1)
        self.rng = rng()


class Pixels(np.ndarray):
    """An array with a generator beside its numbers."""


def pixels() -> Any:
    array: Any = np.zeros(3).view(Pixels)
    array.rng = rng()
    return array


def closure() -> Callable[[], float]:
    """A function that closes over a generator."""
    held = rng()
    return lambda: held.random()


def running() -> Iterator[float]:
    """A generator function that holds a random generator while it runs."""
    held = rng()
    while True:
        yield held.random()


def delegating() -> Iterator[float]:
    """The same by way of another one."""
    yield from running()


def looping() -> Iterator[float]:
    """The same in a loop."""
    for number in running():  # noqa: UP028 - the other way is `delegating`
        yield number


def started(stream: Iterator[float]) -> Iterator[float]:
    """A stream that has begun."""
    next(stream)
    return stream


def local() -> threading.local:
    held = threading.local()
    held.rng = rng()
    return held


def context() -> contextvars.ContextVar[Any]:
    held: contextvars.ContextVar[Any] = contextvars.ContextVar("held")
    held.set(rng())
    return held


def distribution() -> Any:
    """One of scipy's that draws from a generator of its own."""
    held = importlib.import_module("scipy.stats").norm(0, 1)
    held.random_state = np.random.default_rng(0)
    return held


class Thing:
    """Holds a generator."""

    def __init__(self) -> None:
        self.rng = rng()

    def draw(self) -> float:
        return self.rng.random()


THING = Thing()
Pair = namedtuple("Pair", ["first", "second"])

HOLDERS = {
    "slot": (Slotted(), ".rng"),
    "private slot": (Private(), ".__rng"),
    "field": (Fields(), ".parts[1][0]"),
    "slotted field": (SlottedFields(), ".rng"),
    "default": (Method(), ".<class Method>.__getitem__.<default 0>"),
    "property": (Property(), f".<class Property>.factor.<held>.<global {__name__}.MODULE_RNG>"),
    "closure": (closure(), ".<closure held>"),
    "global": (from_module, f".<global {__name__}.MODULE_RNG>"),
    "global of another module": (from_another_module, ".<global tests.loaders.culprits.RNG>"),
    "global of an imported module": (from_import, ".<global tests.loaders.culprits.RNG>"),
    "class": (from_class, f".<global {__name__}.Configuration.rng>"),
    "registry": (from_registry, f".<global {__name__}.Registered.held>['noise']"),
    "function attribute": (with_attribute, ".<attribute rng>"),
    "partial": (functools.partial(print, torch.Generator()), ".args[0]"),
    "partial of a bound method": (functools.partial(np.random.default_rng(0).normal, 0, 1), ".func.__self__"),
    "partial method": (PartialMethod(), ".<class PartialMethod>.draw.args[0]"),
    "cached result": (made_once, ".<held>"),
    "bound method": (THING.draw, ".__self__.rng"),
    "bound method of python's": (rng().random, ".__self__"),
    "bound method of numpy's": ([np.random.default_rng(0).random], "[0].__self__"),
    "method caller": (operator.methodcaller("draw", rng()), f".<held>[{int(sys.version_info >= (3, 13))}]"),
    "static method": (staticmethod(closure()), ".<held>.<closure held>"),
    "named tuple": (Pair(1, rng()), "[1]"),
    "dict and more": (Registry(), ".rng"),
    "array and more": (pixels(), ".rng"),
    "object array": (np.array([None, rng()], dtype=object), "[1]"),
    "default factory": (defaultdict(rng().random), ".<held>.__self__"),
    "chain map": (ChainMap({}, {"rng": rng()}), ".maps[1]['rng']"),
    "user dict": (UserDict(rng=rng()), ".data['rng']"),
    "mapping proxy": (types.MappingProxyType({"rng": rng()}), ".<held>['rng']"),
    "namespace": (types.SimpleNamespace(rng=rng()), ".rng"),
    "deque": (deque([1, rng()]), "[1]"),
    "set": (frozenset([rng()]), "[0]"),
    "cycle": (itertools.cycle([rng()]), ".<held>.<held>[0]"),
    "map": (map(rng().gauss, [0], [1]), ".<held>.__self__"),
    "frame": (started(running()), ".<local held>"),
    "frame of a delegate": (started(delegating()), ".<delegate>.<local held>"),
    "frame of a loop": (started(looping()), ".<held>.<local held>"),
    "generator expression": ((one.random() for one in [rng()]), ".<local .0>.<held>[0]"),
    "weak reference": (weakref.ref(THING), ".<weak>.rng"),
    "thread": (local(), ".rng"),
    "context": (context(), ".<context>"),
    "module": (torch.nn.Sequential(torch.nn.ReLU()), None),
    "distribution": (distribution(), ".dist._random_state"),
    "rust": (rpds.HashTrieMap({"rng": rng()}), ".<argument 0>[0][1]"),
    "entry of 300": ({number: rng() if number == 101 else "" for number in range(300)}, "[101]"),
    "odd one of 10,000": ([rng() if number == 7777 else (number,) for number in range(MOST_ENTRIES)], "[7777]"),
}


@pytest.mark.parametrize("where", HOLDERS)
def test_generators_are_found_wherever_they_hide(where: str) -> None:
    holder, path = HOLDERS[where]
    assert [source.path for source in find_generators({"x": holder})] == ([] if path is None else [f"x{path}"])


class Touchy(UserDict[str, Any]):
    """Must not be asked anything: every answer would be code of the user's."""

    def __init__(self) -> None:
        object.__getattribute__(self, "__dict__")["rng"] = random.Random(0)

    def _forbidden(self, *_: Any) -> Any:
        raise AssertionError("the search ran the user's code")

    __len__ = __bool__ = __iter__ = __contains__ = __getitem__ = items = keys = values = __eq__ = _forbidden
    __getattribute__ = __getattr__ = __repr__ = __reduce__ = __reduce_ex__ = __getstate__ = _forbidden
    __hash__ = None  # type: ignore[assignment]
    __class__ = property(_forbidden)


class TouchyList(list[Any]):
    """A list whose iteration is the user's code."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("the search ran the user's code")


class TouchyKey:
    """A key whose name is the user's code."""

    def __repr__(self) -> str:
        raise AssertionError("the search ran the user's code")


def test_the_walk_runs_none_of_the_users_code() -> None:
    roots = {"x": Touchy(), "y": TouchyList([random.Random(1)]), "z": {TouchyKey(): random.Random(2)}}
    paths = [state.path for _, state in generator_states(roots)]
    assert paths[3:] == ["x.rng", "y[0]", "z[<TouchyKey>]"]


BIG: dict[str, Callable[[], Any]] = {
    "strings": lambda: [str(number) for number in range(1_000_000)],
    "a set of strings": lambda: {str(number) for number in range(1_000_000)},
    "strings by name": lambda: {str(number): str(number) for number in range(1_000_000)},
    "tuples": lambda: [(number, str(number)) for number in range(1_000_000)],
    "lists of lists": lambda: [[[number]] for number in range(200_000)],
    "an array": lambda: np.zeros((1000, 1000, 10)),
    "an array of objects": lambda: np.array([(number,) for number in range(200_000)], dtype=object),
    "a stream's buffer": lambda: deque((number,) for number in range(200_000)),
}


@pytest.mark.parametrize("what", BIG)
def test_what_a_walk_looks_at_does_not_grow_with_the_data(what: str) -> None:
    looked_at: list[object] = []
    list(reachable({"x": [BIG[what](), random.Random(0)]}, looked_at.append))
    assert 2 <= len(looked_at) <= 3 * FEW_ENTRIES + 3


def test_what_would_be_copied_by_reduction_is_left_alone() -> None:
    """An array of python's tells the garbage collector nothing, and is pickled as all of its bytes."""
    found = [
        node.path for node in reachable({"x": array.array("d", range(9))}, lambda value: type(value) is not array.array)
    ]
    assert found == []


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, np.random.PCG64, random.Random])
def test_a_generator_is_advanced_by_its_path(make: Callable[[int], Any]) -> None:
    holder = {"rng": make(0)}
    (before,) = (source.state() for source in find_generators({"x": holder}))
    advance("x['rng']", {"x": holder})
    (after,) = (source.state() for source in find_generators({"x": holder}))
    assert before != after


@pytest.mark.parametrize("path", ["global random", "global numpy.random", "global torch"])
def test_a_shared_generator_is_advanced_by_its_name(path: str) -> None:
    before = {state.path: state.state for _, state in generator_states({})}
    advance(path, {})
    after = {state.path: state.state for _, state in generator_states({})}
    assert {name for name in before if before[name] != after[name]} == {path}


INSTALLED = """
import random

class Step:
    def __init__(self):
        self.rng = random.Random(0)

class Pipeline:
    def __init__(self):
        self.steps = [Step()]

    def set_random_seed(self, seed):
        raise AssertionError("it is only named")
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A library that holds generators."""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "installed_augmenters.py").write_text(INSTALLED)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    yield importlib.import_module("installed_augmenters")
    del sys.modules["installed_augmenters"]


def test_a_librarys_generator_is_known_by_what_the_user_made(installed: Any) -> None:
    own = Thing()
    own.rng = torch.nn.ModuleList()  # type: ignore[assignment]
    own.rng.steps = (installed.Pipeline(), installed.Step())  # type: ignore[attr-defined]
    states = [state for _, state in generator_states({"dataset": own}) if "global" not in state.path]
    assert [state.path for state in states] == ["dataset.rng.steps[1].rng", "dataset.rng.steps[0].steps[0].rng"]
    assert [state.part for state in states] == ["dataset.rng.steps[1]", "dataset.rng.steps[0]"]
    assert [state.reseed for state in states] == [None, "dataset.rng.steps[0].set_random_seed"]
    assert all(state.at and state.at[0] == __file__ for state in states)


def test_what_is_no_generator_has_no_kind() -> None:
    assert [kind_of(value) for value in (random.SystemRandom(), np.random, random.Random, 1)] == [None] * 4


def test_a_long_chain_is_followed_to_its_end() -> None:
    chain: Any = random.Random(0)
    for _ in range(3000):
        chain = [chain]
    assert [source.path for source in find_generators({"x": chain})] == ["x" + 3000 * "[0]"]
