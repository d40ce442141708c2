"""The same few samples read over and over: what they are at each read, and whether one overwrites another.

Two processes that know nothing of each other read them in passes, the second one in the opposite order. Every generator
is held still, so that a sample that changes does so by what was read before, or by what no generator decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.index import Index
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import iter_leaves, leaves_of
from dataguard.lab.reading.sample_reader import Answer, Reader
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable
from dataguard.target.variants import Loader

ITEMS = 6
FEWEST = 3
DRAWS = (0, 1, 0, 0, 2, 0, 3, 0)
"""The states of the generators, pass by pass: between most passes of one state comes one that draws other numbers."""
TURNED = 3
"""How many of these passes are made in the opposite order."""
READS = (1 + ITEMS * len(DRAWS)) + (1 + ITEMS * TURNED)
AGAIN = 1 + ITEMS * len(DRAWS)


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A leaf of a sample that was read earlier, and changed where a later one lies in the same memory."""

    leaf: str
    earlier: Index
    later: Index


@dataclass(frozen=True, slots=True)
class Run:
    """What each pass gave, item by item, always listed in one order; and what was overwritten in the first pass."""

    passes: tuple[tuple[Answer, ...], ...]
    overwritten: tuple[Overwrite, ...] = ()

    @property
    def steady(self) -> tuple[tuple[Answer, ...], ...]:
        """The passes with the generators in the first state."""
        return tuple(answers for draw, answers in zip(DRAWS, self.passes, strict=False) if draw == 0)


@dataclass(frozen=True, slots=True)
class Readings:
    """The two runs, in one order and in the other."""

    items: tuple[Index, ...]
    forward: Run
    turned: Run

    @property
    def exercised(self) -> dict[str, int]:
        """How much was looked at."""
        passes = len(self.forward.passes) + len(self.turned.passes)
        return {"samples": len(self.items), "reads": passes * len(self.items)}


def read_repeatedly(subject: Subject, known: Sequence[Index]) -> Readings:
    """Read some of the `known` indices."""
    _, last, items = chosen(known)
    forward = read_again(subject, known, 0)
    turned = subject.vary("readings turned", partial(run_passes, subject.build, last, items, DRAWS[:TURNED], turn=True))
    return Readings(items, forward, turned)


def read_again(subject: Subject, known: Sequence[Index], number: int) -> Run:
    """The run in the first order, made once more for each number."""
    first, _, items = chosen(known)
    return subject.vary(("readings", number), partial(run_passes, subject.build, first, items, DRAWS))


def chosen(known: Sequence[Index]) -> tuple[Index, Index, tuple[Index, ...]]:
    """Two indices, one to be read first in each run, to wake up what is made late, and those that are compared."""
    indices = list(dict.fromkeys(index for index in known if index is not None))
    if len(indices) < FEWEST:
        raise NotApplicable(f"only {len(indices)} samples can be read by index: too few to compare")
    picked = evenly(indices, ITEMS + 2)
    return picked[0], picked[-1], tuple(picked[1:-1] if len(picked) > FEWEST + 1 else picked)


def run_passes(
    build: Callable[..., Loader],
    first: Index,
    items: Sequence[Index],
    draws: Sequence[int],
    folder: Path,
    *,
    turn: bool = False,
) -> Run:
    """Read the items once for each of the states in `draws`; with `turn`, from the last one to the first."""
    reader = Reader(build(), folder)
    reader.read(first)
    order = list(reversed(items)) if turn else list(items)
    kept: list[tuple[Index, Any]] = []
    passes = []
    for number, draw in enumerate(draws):
        answers = {}
        for index in order:
            sample = reader.read(index, draw)
            answers[index] = Answer(index, leaves_of(sample))
            if number == 0:
                kept.append((index, sample))
        if number == 0:
            overwritten = tuple(_overwritten(kept, answers))
            kept.clear()
        passes.append(tuple(answers[index] for index in items))
    return Run(tuple(passes), overwritten)


def _overwritten(kept: Sequence[tuple[Index, Any]], answers: Mapping[Index, Answer]) -> list[Overwrite]:
    found = []
    for number, (index, sample) in enumerate(kept):
        now, before = Answer(index, leaves_of(sample)).digests, answers[index].digests
        changed = [path for path in before if now.get(path) != before[path]]
        for path in changed:
            places = _places(sample, path)
            later = next((other for other, two in kept[number + 1 :] if _meet(places, _places(two, path))), None)
            if later is not None:
                found.append(Overwrite(path, index, later))
    return found


Places = tuple[tuple[int, int], ...]
"""Stretches of memory, from an address up to another."""


def _places(sample: Any, path: str) -> Places:
    """Where the value at a path lies, and the containers that lead to it."""
    containers = [] if sample is None else [(id(sample), id(sample) + 1)]
    return tuple(place for step, leaf in iter_leaves(sample) if step == path for place in (*containers, *_memory(leaf)))


def _memory(leaf: Any) -> Places:
    if isinstance(leaf, torch.Tensor):
        if leaf.layout is not torch.strided or not leaf.numel():
            return ()
        steps = [stride * leaf.element_size() for stride in leaf.stride()]
        return _stretch(leaf.data_ptr(), leaf.shape, steps, leaf.element_size())
    if isinstance(leaf, np.ndarray):
        return _stretch(leaf.ctypes.data, leaf.shape, leaf.strides, leaf.itemsize) if leaf.size else ()
    mutable = not isinstance(leaf, str | bytes | int | float | complex | bool | type(None) | np.generic)
    return ((id(leaf), id(leaf) + 1),) if mutable else ()


def _stretch(start: int, shape: Sequence[int], steps: Sequence[int], size: int) -> Places:
    """What an array at an address spans; steps are in bytes, and may go backwards."""
    reaches = [(count - 1) * step for count, step in zip(shape, steps, strict=True)]
    return ((start + sum(min(reach, 0) for reach in reaches), start + sum(max(reach, 0) for reach in reaches) + size),)


def _meet(one: Places, two: Places) -> bool:
    return any(start < other_end and other < end for start, end in one for other, other_end in two)
