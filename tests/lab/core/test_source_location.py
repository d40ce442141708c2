"""Where classes and functions are said to be defined: the same place as `inspect` names, and sooner."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from dataguard.lab.core import records, source_location
from dataguard.lab.core.source_location import caller, made_at, samples_at
from dataguard.lab.images import colour_charts
from dataguard.lab.randomness import constant_seeds, worker_draws
from sample_datasets import dg101_cloned_worker_rng


@dataclass(frozen=True)
class Decorated:
    """A class behind a decorator."""

    number: int


class Plain:
    """No method of its own."""


def made_here() -> type:
    class Plain:
        """Has the name of another one."""

        def method(self) -> None: ...

    return Plain


@functools.total_ordering
@dataclass
class Twice:
    number: int

    def __lt__(self, other: Twice) -> bool:
        return self.number < other.number


CLASSES = [
    cls
    for module in (colour_charts, constant_seeds, records, source_location, worker_draws, dg101_cloned_worker_rng)
    for cls in vars(module).values()
    if isinstance(cls, type) and cls.__module__ == module.__name__
]


@pytest.mark.parametrize("cls", [Decorated, Plain, made_here(), Twice, *CLASSES], ids=lambda cls: cls.__qualname__)
def test_a_class_is_where_inspect_finds_it(cls: type) -> None:
    assert made_at(cls) == (inspect.getsourcefile(cls), inspect.getsourcelines(cls)[1])
    assert made_at((tuple if issubclass(cls, tuple) else object).__new__(cls)) == made_at(cls)


def test_a_function_is_where_it_begins() -> None:
    assert made_at(made_here) == (__file__, inspect.getsourcelines(made_here)[1])


def test_what_is_not_written_in_python_is_nowhere() -> None:
    assert made_at(len) is None
    assert made_at(torch.Generator()) is None
    assert made_at(type("Made", (), {})) is None


class Indexed(torch.utils.data.Dataset[int]):
    """Has samples by index."""

    def __getitem__(self, index: int) -> int:
        return index


class Inherits(Indexed):
    """Has them from its base class."""


class Streamed(torch.utils.data.IterableDataset[int]):
    """Has a loop after other lines."""

    def __iter__(self) -> Iterator[int]:
        start = 3
        yield start
        for number in range(start):
            yield -number


class Delegating(torch.utils.data.IterableDataset[int]):
    """Has no loop of its own."""

    def __iter__(self) -> Iterator[int]:
        source = range(3)
        return iter(source)


@pytest.mark.parametrize(
    ("dataset", "line", "what"),
    [
        (Inherits(), "    def __getitem__(self, index: int) -> int:", "Indexed.__getitem__"),
        (Streamed(), "        for number in range(start):", "Streamed.__iter__"),
        (Delegating(), "        return iter(source)", "Delegating.__iter__"),
    ],
)
def test_where_samples_are_made(dataset: object, line: str, what: str) -> None:
    found = samples_at(dataset)
    assert found is not None
    assert (found[0], found[2]) == (__file__, what)
    assert Path(__file__).read_text().splitlines()[found[1] - 1] == line


def test_a_class_of_a_library_makes_its_own_samples() -> None:
    assert samples_at(torch.utils.data.TensorDataset(torch.zeros(2))) is None


def test_the_line_of_the_user_that_runs() -> None:
    found = caller(qualified=True)
    assert found is not None
    assert Path(__file__).read_text().splitlines()[found[1] - 1] == "    found = caller(qualified=True)"
