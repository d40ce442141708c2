"""The search for what does not survive pickling names the smallest part, by its path and in words."""

from __future__ import annotations

import functools
import linecache
import multiprocessing
import sys
import threading
import time
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from dataguard.lab.randomness.unpicklable_parts import find_culprit, try_pickling
from sample_datasets import dg104_unspawnable_loader

Pair = namedtuple("Pair", ["one", "two"])


class Box:
    """Holds whatever it is given."""

    def __init__(self, **held: Any) -> None:
        vars(self).update(held)


class Slotted:
    """Holds something in a slot."""

    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held

    def get(self) -> Any:
        """What is held."""
        return self.held


class Reduced(Box):
    """Is pickled as a call with what it holds."""

    def __reduce__(self) -> Any:
        return functools.partial(Reduced), (), {"held": vars(self)["held"]}


class Unrestorable(Box):
    """Is pickled, but cannot be restored."""

    def __setstate__(self, state: Any) -> None:
        raise ValueError("too old")


class Rude:
    """Fails with an exception that cannot be shown."""

    def __getstate__(self) -> Any:
        class Unspeakable(Exception):
            def __str__(self) -> str:
                raise TypeError

        raise Unspeakable


class Listed(list[Any]):
    """A list with attributes."""


def lacking(value: Any) -> Any:
    """What pickle looks up by name, and finds to be another."""
    return value


HIDDEN = lacking
lacking = functools.wraps(lacking)(lambda value: value)


def local() -> Any:
    """An object of a class that only this function knows."""

    class Local(Box):
        pass

    return Local(held=threading.Lock())


def nested(value: Callable[..., Any]) -> Callable[..., Any]:
    """A local function."""

    def inner() -> Any:
        return value

    return inner


def counting() -> Iterator[int]:
    """A generator function."""
    yield 1


def cycle() -> Box:
    """Two objects that hold each other, and a lambda in the one that is reached last."""
    one, two = Box(), Box()
    one.two, two.one = two, one  # type: ignore[attr-defined]
    one.function = lambda: one  # type: ignore[attr-defined]
    return Box(two=two)


CASES: dict[str, tuple[Any, str | None, str]] = {
    "lambda": (lambda: 0, "", "a lambda"),
    "list item": (Box(transforms=[len, len, lambda: 0]), ".transforms[2]", "a lambda"),
    "dict item": ({"a": 1, "b": nested(len)}, "['b']", "the local function inner"),
    "tuple item": (Pair(1, lambda: 0), "[1]", "a lambda"),
    "set item": ({functools.partial(lambda: 0)}, "[0].func", "a lambda"),
    "partial": (functools.partial(max, key=lambda x: x), ".keywords['key']", "a lambda"),
    "bound method": (Box(f=Slotted(threading.Lock()).get), ".f.__self__.held", "a lock"),
    "slot": (Slotted(threading.RLock()), ".held", "a lock"),
    "list of a subclass": (Listed([1, counting()]), "[1]", "a generator"),
    "dict of another class": (OrderedDict(a=sys), "['a']", "the module sys"),
    "default factory": (defaultdict(lambda: 0), ".default_factory", "a lambda"),
    "own reduction": (Reduced(held=lambda: 0), ".held", "a lambda"),
    "local class": (Box(held=local()), ".held", "an instance of the local class Local"),
    "class": (Box(held=type(local())), ".held", "the local class Local"),
    "decorated function": (Box(f=HIDDEN), ".f", "the function lacking"),
    "restoring": (Box(held=Unrestorable(a=1)), ".held", f"an instance of the class {__name__}.Unrestorable"),
    "rude": (Box(held=Rude()), ".held", f"an instance of the class {__name__}.Rude"),
    "big list": ([*range(5_000), lambda: 0, *range(5_000)], "[5000]", "a lambda"),
    "object array": (Box(a=np.array([1, threading.Lock()], dtype=object)), None, ""),
    "cycle": (cycle(), ".two.one.function", "a lambda"),
    "non-leaf": (torch.ones(1, requires_grad=True) * 2, "", "a non-leaf tensor that requires grad"),
    "thread": (
        threading.Thread(),
        None,
        "an instance of the class _thread._ThreadHandle" if sys.version_info >= (3, 13) else "a lock",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_smallest_part_is_named(case: str) -> None:
    value, path, what = CASES[case]
    culprit = find_culprit({"x": value})
    assert culprit is not None
    assert path is None or culprit.path == f"x{path}"
    assert what in ("", culprit.what)
    assert culprit.error


def test_an_open_file_is_named_with_the_class_that_holds_it() -> None:
    with Path(__file__).open() as file:
        culprit = find_culprit({"dataset": Box(files=[file])})
    assert culprit is not None
    assert (culprit.path, culprit.what) == ("dataset.files[0]", "an open file")
    assert culprit.at is not None
    assert culprit.at[0] == __file__


def test_what_raises_in_the_users_code_is_placed_there() -> None:
    culprit = find_culprit({"dataset": Unrestorable(a=1)})
    assert culprit is not None
    assert culprit.error == "ValueError: too old"
    assert culprit.at is not None
    assert "too old" in Path(__file__).read_text().splitlines()[culprit.at[1] - 1]


SOUND = {
    "nothing": None,
    "function": pytest.raises,
    "tensor": torch.ones(3),
    "parameter": torch.nn.Linear(2, 2),
    "array": np.ones(3),
    "containers": [{"a": (1, 2)}, {3}],
    "partial": functools.partial(max, default=1),
    "queue": multiprocessing.get_context("spawn").Queue(),
    "lock": multiprocessing.get_context("spawn").Lock(),
    "value": multiprocessing.get_context("spawn").Value("i"),
}


@pytest.mark.parametrize("case", SOUND)
def test_what_torch_can_send_is_not_accused(case: str) -> None:
    assert find_culprit({"x": SOUND[case]}) is None


@pytest.mark.skipif(sys.version_info < (3, 11, 5), reason="Python sends such a lock, which no worker can open")
@pytest.mark.parametrize("make", ["Lock", "Event", "Queue"])
def test_locks_made_for_forked_workers_count_only_where_workers_are_spawned(make: str) -> None:
    made = getattr(multiprocessing.get_context("fork"), make)()
    assert find_culprit({"x": Box(held=made)}, forked=True) is None
    culprit = find_culprit({"x": Box(held=made)})
    assert culprit is not None
    assert culprit.what == "a multiprocessing lock"


def test_big_data_are_neither_copied_nor_waited_for() -> None:
    started = time.monotonic()
    held = [torch.zeros(1).expand(10**12), [str(number) for number in range(3_000_000)], lambda: 0]
    culprit = find_culprit({"x": Box(held=held)}, seconds=0.5)
    assert culprit is None or culprit.path.startswith("x")
    assert time.monotonic() - started < 5


def test_a_generator_of_torch_is_told_only_where_it_is_sent() -> None:
    def draw() -> torch.Tensor:
        return torch.rand(1, generator=unsent)

    unsent = torch.Generator()
    dataset: Any = Box(rng=torch.Generator(), draw=draw)
    found = try_pickling(DataLoader(dataset, sampler=[0]), forked=True)
    assert [generator.path for generator in found.generators] == ["dataset.rng"]
    assert found.culprit is not None
    assert found.culprit.path == "dataset.draw"


@pytest.mark.parametrize(
    "name", ["bad", "bad_closure", "bad_local_class", "bad_torch_generator", "bad_lock", "bad_collate"]
)
def test_the_line_that_defines_or_sets_the_part_is_found(name: str) -> None:
    tried = try_pickling(getattr(dg104_unspawnable_loader, name)(), forked=True)
    culprit = tried.culprit or tried.generators[0]
    assert culprit.at
    assert "# culprit" in linecache.getline(*culprit.at)
