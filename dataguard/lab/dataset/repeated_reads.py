"""The same few samples read repeatedly: their content at each read, and whether one overwrites another.

Two independent processes read them in passes, the second one in reverse order. All generators are frozen: a sample that
changes depends on earlier reads, or on something other than a generator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.index import Index
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaf_sizes import keep
from dataguard.lab.core.leaves import array_of, iter_leaves, leaves_of
from dataguard.lab.reading.memory_ranges import overlap, ranges_at
from dataguard.lab.reading.sample_reader import Answer, Reader
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable
from dataguard.targets.variants import Loader

FEWEST = 3
DRAWS = (0, 1, 0, 0, 2, 0, 3, 0)
"""The generator states, pass by pass: most passes of one state are separated by one with other draws."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is read: so many `items` in as many `passes` of `DRAWS`, and in `backward` of them in reverse order."""

    items: int
    passes: int
    backward: int

    @property
    def again(self) -> int:
        """The reads of a run in the first order."""
        return 1 + self.items * self.passes

    @property
    def reads(self) -> int:
        """The reads of both runs."""
        return self.again + 1 + self.items * self.backward


USUAL, FEW = Amount(6, 8, 3), Amount(2, 4, 2)
"""What is read, and what of samples that take long; three reads with one state show what changes."""


def amount_for(subject: Subject) -> Amount:
    """How much is read of this loader."""
    return USUAL if subject.reads_take_little(USUAL.reads) else FEW


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A leaf of an earlier sample that changed, and a later sample that shares its memory."""

    leaf: str
    earlier: Index
    later: Index


@dataclass(frozen=True, slots=True)
class Run:
    """The results of each pass, item by item, always in the same order; and what the first pass overwrote."""

    passes: tuple[tuple[Answer, ...], ...]
    overwritten: tuple[Overwrite, ...] = ()

    @property
    def same_state(self) -> tuple[tuple[Answer, ...], ...]:
        """The passes with the generators in the first state."""
        return tuple(answers for draw, answers in zip(DRAWS, self.passes, strict=False) if draw == 0)


@dataclass(frozen=True, slots=True)
class Readings:
    """The two runs, forward and backward."""

    items: tuple[Index, ...]
    forward: Run
    backward: Run

    @property
    def exercised(self) -> dict[str, int]:
        """How much was read."""
        passes = len(self.forward.passes) + len(self.backward.passes)
        return {"samples": len(self.items), "reads": passes * len(self.items)}


def read_repeatedly(subject: Subject, known: Sequence[Index]) -> Readings:
    """Read some of the `known` indices."""
    amount = amount_for(subject)
    _, last, items = chosen(known, amount.items)
    forward = read_again(subject, known, 0)
    backward = subject.vary(
        "readings backward", partial(run_passes, subject.build, last, items, DRAWS[: amount.backward], backward=True)
    )
    return Readings(items, forward, backward)


def read_again(subject: Subject, known: Sequence[Index], number: int) -> Run:
    """The run in the first order, repeated for each number."""
    amount = amount_for(subject)
    first, _, items = chosen(known, amount.items)
    return subject.vary(("readings", number), partial(run_passes, subject.build, first, items, DRAWS[: amount.passes]))


def chosen(known: Sequence[Index], count: int) -> tuple[Index, Index, tuple[Index, ...]]:
    """Two indices, read first in each run to trigger lazy initialization, and those that are compared."""
    indices = list(dict.fromkeys(index for index in known if index is not None))
    if len(indices) < FEWEST:
        raise NotApplicable(f"{len(indices) or 'no'} samples can be read by index, too few to compare")
    picked = evenly(indices, count + 2)
    return picked[0], picked[-1], tuple(picked[1:-1] if len(picked) > min(FEWEST, count) + 1 else picked)


def run_passes(
    build: Callable[..., Loader],
    first: Index,
    items: Sequence[Index],
    draws: Sequence[int],
    folder: Path,
    *,
    backward: bool = False,
) -> Run:
    """Read the items once for each state in `draws`; if `backward`, from the last one to the first."""
    reader = Reader(build(), folder)
    reader.read(first)
    order = list(reversed(items)) if backward else list(items)
    kept: list[tuple[Index, Any]] = []
    passes = []
    for number, draw in enumerate(draws):
        answers = {}
        for index in order:
            sample = reader.read(index, draw)
            answers[index] = Answer(index, leaves_of(sample))
            if number == 0:
                keep((index, sample), kept, 2, len(items))  # to see whether a later one overwrites an earlier one
            del sample  # the next one may take as much memory
        if number == 0:
            overwritten = tuple(_overwritten(kept, answers))
            kept.clear()
        passes.append(tuple(answers[index] for index in items))
    return Run(tuple(passes), overwritten)


def rounding_of(loader: Loader, folder: Path, first: Index, index: Index, path: str) -> float:
    """How far the values of a leaf move from read to read, relative to the largest one; infinite if its shape does."""
    reader = Reader(loader, folder)
    reader.read(first)
    reads = [_values_at(reader.read(index, draw), path) for draw in DRAWS if draw == 0]
    if any(one.shape != reads[0].shape or one.dtype.kind != "f" for one in reads):
        return math.inf
    scale = max(float(np.abs(reads[0]).max(initial=0.0)), 1e-30)
    return max(float(np.abs(one - reads[0]).max(initial=0.0)) for one in reads) / scale


def _values_at(sample: Any, path: str) -> np.ndarray:
    """A copy of the values of a leaf, which a later read may modify."""
    leaf = next((leaf for step, leaf in iter_leaves(sample) if step == path), None)
    values = array_of(leaf) if isinstance(leaf, torch.Tensor | np.ndarray) else np.empty(0, object)
    return values.astype(np.float64) if values.dtype.kind == "f" else values


def _overwritten(kept: Sequence[tuple[Index, Any]], answers: Mapping[Index, Answer]) -> list[Overwrite]:
    found = []
    for number, (index, sample) in enumerate(kept):
        now, before = Answer(index, leaves_of(sample)).digests, answers[index].digests
        changed = [path for path in before if now.get(path) != before[path]]
        for path in changed:
            places = ranges_at(sample, path)
            later = next((other for other, two in kept[number + 1 :] if overlap(places, ranges_at(two, path))), None)
            if later is not None:
                found.append(Overwrite(path, index, later))
    return found
