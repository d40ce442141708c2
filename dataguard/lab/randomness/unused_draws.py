"""Integers that the user's code draws at random, and on which no sample depends.

Samples are read again and again as they are. `randint` and `randrange` give the user's code a number that notices when
it is compared, printed or hashed: it decides something then, perhaps outside the sample. Others are the offset of a
crop, the number of a frame, the angle of a rotation. Reads in which they are out of range confirm that nothing depends
on them: a number that chooses among equal things would raise.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.incident import LoaderRaised, is_library
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import LeafRecord
from dataguard.lab.core.stand_ins import rebind
from dataguard.lab.reading.sample_reader import Reader
from dataguard.model import Location
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

ITEMS, DRAWS = 8, 8
"""How many items are read, and how often each."""
LARGEST = 1 << 16
"""A range of more numbers is that of a seed."""
_DECIDING = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__hash__", "__str__", "__repr__")
_INTEGERS = ((random, "randint", 1), (random, "randrange", 0), (np.random, "randint", 0))
"""Functions that draw an integer, and how far their second argument is beyond the largest."""
_OTHERS = {
    random: ("random", "uniform", "gauss", "betavariate", "choice", "choices", "sample", "shuffle", "getrandbits"),
    np.random: ("random", "rand", "randn", "uniform", "normal", "beta", "binomial", "choice", "permutation", "shuffle"),
    time: ("sleep",),
}
"""Functions that may decide what becomes of an integer; or that wait for as long as it says."""

_PLAIN = {"str", "bytes", "int", "float", "bool", "NoneType"}


@dataclass(slots=True)
class _Draw:
    """The numbers that one line has drawn, by index, and the bounds of the widest range."""

    function: str
    values: dict[Any, set[int]] = field(default_factory=dict)
    low: int = 0
    high: int = 0
    decides: bool = False


class _Drawn(int):
    """A number that notices when it decides something."""

    source: _Draw

    def __format__(self, spec: str) -> str:
        self.source.decides = True
        return format(int(self), spec)


def _noticing(name: str) -> Callable[..., Any]:
    plain = getattr(int, name)

    def method(self: _Drawn, *args: Any) -> Any:
        self.source.decides = True
        return plain(int(self), *args)

    return method


for _name in _DECIDING:
    setattr(_Drawn, _name, _noticing(_name))


@dataclass(frozen=True, slots=True)
class UnusedDraw:
    """A line that calls a `function` for an integer from `low` to `high`; other ones change none of `items`."""

    function: str
    at: Location
    low: int
    high: int
    items: int
    draws: int


class _DrawWatch:
    """Records the random numbers that the user's code draws in this disposable process."""

    def __init__(self) -> None:
        self.index: Any = None
        self.beyond = False
        """Whether numbers are out of range."""
        self.others = False
        self.draws: dict[tuple[str, int, str], _Draw] = {}
        known = {}
        for module, name, beyond in _INTEGERS:
            original = getattr(module, name)
            known[id(original)] = original, self._integers(original, f"{module.__name__}.{name}", beyond)
        for module, names in _OTHERS.items():
            for original in (getattr(module, name) for name in names):
                known[id(original)] = original, self._other(original)
        rebind(known, ("random", "numpy.random", "time"))

    def _integers(self, original: Callable[..., Any], function: str, beyond: int) -> Callable[..., Any]:
        def draw(*args: Any, **kwargs: Any) -> Any:
            value, code = original(*args, **kwargs), sys._getframe(1).f_code
            if self.index is None or is_library(code.co_filename):
                return value
            bounds = (0, *args) if len(args) == 1 else args
            if kwargs or len(bounds) != 2 or type(value) is not int:  # a step, or an array of numbers
                self.others = True
                return value
            low, high = int(bounds[0]), int(bounds[1]) - 1 + beyond
            place = code.co_filename, sys._getframe(1).f_lineno, code.co_name
            record = self.draws.setdefault(place, _Draw(function, {}, low, high))
            record.low, record.high = min(low, record.low), max(high, record.high)
            record.values.setdefault(self.index, set()).add(value)
            drawn = _Drawn(2 * high - low + 1 if self.beyond else value)
            drawn.source = record
            return drawn

        return draw

    def _other(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*args: Any, **kwargs: Any) -> Any:
            self.others |= self.index is not None and not is_library(sys._getframe(1).f_code.co_filename)
            return original(*args, **kwargs)

        return draw


def find_unused_draws(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> tuple[UnusedDraw, ...]:
    """The lines whose integers vary for each of these indices, and change nothing."""
    watch = _DrawWatch()
    reader = Reader(build(), folder)

    def read(index: Index) -> tuple[LeafRecord, ...]:
        watch.index = index
        try:
            return leaves_of(reader.read_as_is(index))
        finally:
            watch.index = None

    try:
        reader.read_as_is(indices[0])  # what is created late
        before = torch.get_rng_state()
        samples = [{read(index) for _ in range(DRAWS)} for index in indices]
        watch.beyond = True
        again = [{read(index)} for index in indices]
    except LoaderRaised:  # a number out of range chooses nothing
        return ()
    drawn_otherwise = watch.others or not torch.equal(before, torch.get_rng_state())
    if drawn_otherwise or samples != again or len(set(map(frozenset, samples))) < len(indices):
        return ()
    if any(map(_is_opaque, chain.from_iterable(chain.from_iterable(samples)))):
        return ()
    size = len(reader.dataset)
    return tuple(
        UnusedDraw(draw.function, Location(*place), draw.low, draw.high, len(indices), DRAWS)
        for place, draw in watch.draws.items()
        if len(draw.values) == len(indices)
        and all(len(values) > 1 for values in draw.values.values())
        and not draw.decides
        and draw.high - draw.low < LARGEST
        and draw.high - draw.low + 1 != size  # the index of a sample, in place of one that cannot be read
    )


def _is_opaque(leaf: LeafRecord) -> bool:
    """Whether a leaf has a content that is not compared."""
    return not leaf.digest or (leaf.dtype is None and leaf.shape is None and leaf.kind not in _PLAIN)
