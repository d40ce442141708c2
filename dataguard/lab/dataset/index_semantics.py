"""What indices mean: whether samples repeat inside the range, what -1 is, and what indices of other types return."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.incident import Incident, LoaderRaised
from dataguard.lab.core.leaves import AT_ONCE, describe, iter_leaves, leaves_of
from dataguard.lab.dataset.index_ends import length_of_indexed, need_integers
from dataguard.lab.dataset.periodicity import Hints, Period, find_periods
from dataguard.lab.reading.sample_reader import Answer, Reader
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.lab.rng.seed_watch import SeedWatch
from dataguard.targets.variants import Loader

CLOSE = 1e-3
"""The tolerance for values computed in different precisions."""
FAR = 10
"""An index this many lengths below zero has a sample only in a dataset that looks nothing up."""
READS, FEW_READS = 23, 16
"""Samples that are read if nothing repeats, and of those that are slow: not every question is asked twice."""


@dataclass(frozen=True, slots=True)
class TypedIndex:
    """What an index of another type returned: the leaves that differ, or what it raised."""

    expression: str
    index: int
    unlike: tuple[str, ...] = ()
    incident: Incident | None = None


@dataclass(frozen=True, slots=True)
class IndexSemantics:
    """Samples at and beyond the ends of the range.

    `far` is the result of an index far below zero; `seeded`: generators are seeded for each sample, as when drawing by
    index. `unlike` are leaves that two reads of the last index share and -1 does not. `typed` are the results of
    indices of other types.

    `repeats` are the datasets whose content repeats, among those that torch's own `Subset` and `ConcatDataset` wrap.
    """

    last: Answer
    negative: Answer
    far: Answer
    seeded: bool
    unlike: tuple[str, ...]
    typed: tuple[TypedIndex, ...]
    repeats: tuple[Period, ...]
    reads: int


def probe_semantics(loader: Loader, folder: Path, hints: Hints, *, few: bool = False) -> IndexSemantics:
    """Read samples all over the range; `few` if they are slow.

    Raises NotApplicable for a dataset without a length or without integer indices.
    """
    length = length_of_indexed(loader.dataset)
    need_integers(loader)
    reader = Reader(loader, folder)
    reader.ask(0)
    last, again = reader.ask(length - 1), reader.ask(length - 1)
    stable = tuple(path for path, digest in last.digests.items() if again.digests.get(path) == digest)
    typed = []
    for index in (length // 2, length - 1)[: 1 if few else 2] if stable else ():
        typed += [_typed(reader, index, f"numpy.int64({index})", np.int64(index), stable)]
        typed += [_typed(reader, index, f"torch.tensor({index})", torch.tensor(index), stable)]
    repeats = find_periods(reader, hints)
    far = reader.ask(-FAR * length)
    negative, unlike = _negative(reader, length, stable) if stable else (Answer(-1), ())
    seeded = bool(unlike) and _seeds(reader, length - 1)
    return IndexSemantics(last, negative, far, seeded, unlike, tuple(typed), repeats, reader.reads)


def _typed(reader: Reader, index: int, expression: str, value: Any, stable: Sequence[str]) -> TypedIndex:
    """The result of an index of another type. A value computed from it may have its type, and be rounded."""
    plain = dict(iter_leaves(reader.read(index)))
    try:
        answer = dict(iter_leaves(reader.read(value)))
    except LoaderRaised as failure:
        return TypedIndex(expression, index, incident=failure.incident)
    return TypedIndex(expression, index, _unlike(plain, answer, stable))


def _unlike(plain: Mapping[str, Any], answer: Mapping[str, Any], stable: Sequence[str]) -> tuple[str, ...]:
    """The stable leaves in which two samples differ, including those that one of them lacks."""
    either = [path for path in stable if path in plain or path in answer]
    return tuple(path for path in either if not (path in plain and path in answer and _same(plain[path], answer[path])))


def _negative(reader: Reader, length: int, stable: Sequence[str]) -> tuple[Answer, tuple[str, ...]]:
    """The result of -1, and the leaves in which it differs from the last sample."""
    plain = dict(iter_leaves(reader.read(length - 1)))
    try:
        sample = reader.read(-1)
    except LoaderRaised as failure:
        return Answer(-1, incident=failure.incident), ()
    found = dict(iter_leaves(sample))
    indices = [path for path in stable if path in found and _is_index(plain[path], length - 1, found[path])]
    unlike = _unlike(plain, found, [path for path in stable if path not in indices])
    inputs = _largest(plain, stable)
    return Answer(-1, leaves_of(sample)), unlike if inputs & set(unlike) else ()


def _is_index(value: Any, index: int, negative: Any) -> bool:
    """Whether a leaf is the requested index itself."""
    with contextlib.suppress(Exception):
        return (int(value), int(negative)) == (index, -1)
    return False


def _largest(sample: Mapping[str, Any], stable: Sequence[str]) -> set[str]:
    """The leaves with the most values; all if each holds one value."""
    sizes = {path: math.prod(describe(path, sample[path]).shape or ()) for path in stable}
    return {path for path, size in sizes.items() if size == max(sizes.values())}


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor | np.ndarray | np.generic | int | float):
        with contextlib.suppress(Exception):  # non-numeric values are compared by digest
            first, second = (torch.as_tensor(part).detach() for part in (one, two))
            pieces = zip(*(part.reshape(-1).split(AT_ONCE) for part in (first, second)), strict=False)
            return first.shape == second.shape and all(
                torch.allclose(part.double(), other.double(), CLOSE, CLOSE, equal_nan=True) for part, other in pieces
            )
    return [leaf.digest for leaf in leaves_of(one)] == [leaf.digest for leaf in leaves_of(two)]


def _seeds(reader: Reader, index: int) -> bool:
    """Whether the user's code seeds a generator while it reads a sample."""
    with seeded(SEED), SeedWatch().watching(0) as seeds, contextlib.suppress(Exception):
        reader.dataset[index]
    return bool(seeds)
