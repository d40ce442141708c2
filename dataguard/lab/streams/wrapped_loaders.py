"""What is yielded by a wrapper that training iterates in place of the loaders that it holds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType, GeneratorType
from typing import Any
from weakref import ReferenceType, ref

import torch

from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.core.source_location import Place, caller
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.spy.drive import announce_epoch
from dataguard.process.originals import time
from dataguard.targets.discovery import holder_of
from dataguard.targets.variants import Loader

READ_SECONDS = 10.0
"""Seconds after which reading ends without a result."""


@dataclass(frozen=True, slots=True)
class WrapperPass:
    """The batches of one epoch of a wrapper: as its `len` says (None if it has none), and as it yields them.

    `ended`: it was read to its end. `again`: the numbers of the first batch with a tensor that the loader made for an
    earlier one, and of that one, if the loader had ended by then, and was not asked for another epoch. `at`: the line
    that first iterates the loader. `left`: how many batches of the loader, at its end, are in no batch of the wrapper,
    of which each holds `group` of the loader's: 0 if that is not seen.
    """

    name: str
    planned: int | None
    batches: int
    ended: bool
    again: tuple[int, int] | None
    at: Place | None
    group: int = 0
    left: int = 0


def read_wrapper(build: Callable[..., Loader], folder: Path) -> WrapperPass | None:
    """Iterate the wrapper in this disposable process; None if there is none.

    One that does not end is read until its loader could have been read twice.
    """
    loader = build(num_workers=0)
    wrapper = holder_of(loader)
    if wrapper is None:
        return None
    watch, recorder, until = _Watch(loader), FlightRecorder(folder), time.monotonic() + READ_SECONDS
    most = max(length_of(wrapper) or 0, 2 * (length_of(loader) or 0)) + 2
    announce_epoch(loader, 0)
    count, again, ended = 0, None, True
    with gate("iterate"):
        for batch in islice(wrapper, most):
            recorder.mark(None, "iterate")
            again = again or watch.seen(batch, count)
            count += 1
            if time.monotonic() > until:
                ended = False
                break
    ended = ended and count < most
    group, left = watch.left_of(length_of(loader) or 0) if ended else (0, 0)
    return WrapperPass(type(wrapper).__name__, length_of(wrapper), count, ended, again, watch.at, group, left)


def line_of_end(build: Callable[..., Loader], folder: Path, batches: int) -> Place | None:
    """The line at which the generator of a wrapper ends after so many batches; None if it is no generator."""
    loader = build(num_workers=0)
    recorder = FlightRecorder(folder)
    announce_epoch(loader, 0)
    with gate("iterate"):
        iterator = iter(holder_of(loader))
        if not isinstance(iterator, GeneratorType):
            return None
        for _ in islice(iterator, batches):
            recorder.mark(None, "iterate")
        code, line = iterator.gi_code, 0

        def within(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal line
            line = frame.f_lineno
            return within if event != "return" else None

        sys.settrace(lambda frame, *_: within if frame.f_code is code else None)
        try:
            next(iterator, None)
        finally:
            sys.settrace(None)
    return (code.co_filename, line, getattr(code, "co_qualname", code.co_name)) if line else None


class _Watch:
    """Notes which tensors a loader yields, and in how many epochs."""

    def __init__(self, loader: Loader) -> None:
        self._made: dict[int, ReferenceType[torch.Tensor]] = {}
        self._first: dict[int, int] = {}
        self._number: dict[int, int] = {}
        self._held: list[set[int]] = []
        self._begun = self._ended = 0
        self.at: Place | None = None
        kind, watch = type(loader), self

        def begin(self: Any) -> Iterator[Any]:
            watch.at = watch.at or caller(qualified=True)
            return watch._noted(kind.__iter__(self))

        loader.__class__ = type(kind.__name__, (kind,), {"__iter__": begin, "__module__": kind.__module__})

    def _noted(self, batches: Iterator[Any]) -> Iterator[Any]:
        self._begun += 1
        for number, batch in enumerate(batches):
            self._made |= {id(leaf): ref(leaf) for leaf in _tensors(batch)}
            self._number |= {id(leaf): number for leaf in _tensors(batch)}
            yield batch
        self._ended += 1

    def left_of(self, count: int) -> tuple[int, int]:
        """How many of `count` batches of the loader each batch of the wrapper holds, and how many are in none.

        Both are 0 unless they are held in order, as many in each, and those that are left are too few for another.
        """
        group = len(self._held[0]) if self._held else 0
        in_order = all(held == {*range(at * group, (at + 1) * group)} for at, held in enumerate(self._held))
        left = count - group * len(self._held)
        return (group, left) if in_order and self._begun == 1 and 0 < left < group else (0, 0)

    def seen(self, batch: Any, number: int) -> tuple[int, int] | None:
        """This batch of the wrapper and the earlier one that had the same tensor of the loader, which had ended."""
        self._held.append({self._number[id(leaf)] for leaf in _tensors(batch) if id(leaf) in self._number})
        for leaf in _tensors(batch):
            known = self._made.get(id(leaf))
            if known is not None and known() is leaf:
                first = self._first.setdefault(id(leaf), number)
                if first < number and self._begun == self._ended == 1:
                    return number, first
        return None


def _tensors(batch: Any) -> Iterator[torch.Tensor]:
    return (leaf for _, leaf in iter_leaves(batch) if isinstance(leaf, torch.Tensor))
