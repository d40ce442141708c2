"""What indices mean: whether content repeats inside the range, what -1 is, and what numbers of other types give."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, Subset

from dataguard.incident import Incident, LoaderRaised
from dataguard.lab.leaves import leaves_of
from dataguard.lab.leaves import walk as walk_sample
from dataguard.lab.pins import PIN, pinned
from dataguard.lab.protocol import length_of_indexed, need_integers
from dataguard.lab.reader import Answer, Reader
from dataguard.lab.records import SampleRecord
from dataguard.lab.schedules import evenly
from dataguard.lab.seeds import SeedWatch
from dataguard.lab.walk import walk
from dataguard.variants import Loader

BLOCK = 4
"""Samples at the beginning that have to differ for a leaf to tell samples apart."""
PAIRS = 6
"""Pairs of samples, one period apart, that have to be equal all over the range."""
CLOSE = 1e-3
"""How far numbers may lie apart that are computed in other precisions."""
MOST_PERIODS = 12
MOST_FACTOR = 8
VARIOUS = 0.25
"""The share of samples of an epoch that differ in a leaf which is more than a class."""
FAR = 10
"""How many times the length below zero an index lies that only a dataset which looks nothing up has a sample for."""
MOST_READS = 2 * (BLOCK + 2 + MOST_PERIODS + 2 + 2 * PAIRS) + 12
_NEAREST = 400
"""Objects that are asked for their length, those nearest to the dataset first."""


@dataclass(frozen=True, slots=True)
class Period:
    """A dataset whose content repeats: where it is, its length, its period and the leaves that tell samples apart.

    `factor` names a number of its own that equals length / period, `virtual` one that equals the length, and `listed`
    tells that what it holds repeats by itself. `random` tells that random numbers have a say in those leaves.
    """

    where: str
    length: int
    period: int
    leaves: tuple[str, ...]
    pairs: int
    factor: str | None
    virtual: str | None
    listed: bool
    random: bool


@dataclass(frozen=True, slots=True)
class Typed:
    """What an index of another type gave: whether it is the same sample, or what it raised."""

    spelled: str
    index: int
    same: bool
    incident: Incident | None = None


@dataclass(frozen=True, slots=True)
class Spans:
    """Samples at the end of the range, and further on.

    `far` is the answer to an index far below zero; `seeded` tells that generators are seeded anew for a sample, as is
    done to draw by its index. `stable` are leaves that two reads of the last index share, and
    `unlike` those of them in which -1 is another sample. `typed` gives the answers to numbers of other types.

    `repeats` are the datasets whose content repeats, of those that torch's own `Subset` and `ConcatDataset` wrap.
    """

    last: Answer
    negative: Answer
    far: Answer
    seeded: bool
    unlike: tuple[str, ...]
    stable: tuple[str, ...]
    typed: tuple[Typed, ...]
    repeats: tuple[Period, ...]
    reads: int


def probe_spans(loader: Loader, folder: Path, hints: Hints) -> Spans:
    """Ask for samples all over the range.

    Raises NotApplicable for a dataset without length or without integer indices.
    """
    length = length_of_indexed(loader.dataset)
    need_integers(loader)
    reader = Reader(loader, folder)
    reader.ask(0)
    last, again = reader.ask(length - 1), reader.ask(length - 1)
    stable = tuple(path for path, digest in last.digests.items() if again.digests.get(path) == digest)
    typed = []
    for index in (length // 2, length - 1) if stable else ():
        typed += [_typed(reader, index, f"numpy.int64({index})", np.int64(index), stable)]
        typed += [_typed(reader, index, f"torch.tensor({index})", torch.tensor(index), stable)]
    found = [_repeats(reader, where, base, hints) for where, base in islice(_bases(loader.dataset), 2)]
    repeats = tuple(period for period in found if period)
    far = reader.ask(-FAR * length)
    negative, unlike = _negative(reader, length, stable) if stable else (Answer(-1), ())
    seeded = bool(unlike) and _seeds(reader, length - 1)
    return Spans(last, negative, far, seeded, unlike, stable, tuple(typed), repeats, reader.reads)


@dataclass(frozen=True, slots=True)
class Hints:
    """What an epoch showed: distances at which equal samples lie, and leaves that take many values."""

    distances: tuple[int, ...] = ()
    various: tuple[str, ...] = ()


def hints_of(samples: Sequence[SampleRecord]) -> Hints:
    """Where few samples are alike, by each leaf; the commonest distance first."""
    counts: Counter[int] = Counter()
    various = []
    for path in [leaf.path for sample in samples[:1] for leaf in sample.leaves]:
        alike: dict[bytes, set[int]] = {}
        for sample in samples:
            digest = next((leaf.digest for leaf in sample.leaves if leaf.path == path), None)
            if digest is not None and isinstance(sample.index, int):
                alike.setdefault(digest, set()).add(sample.index)
        if len(alike) >= VARIOUS * len(samples):
            various.append(path)
            places = [sorted(found) for found in alike.values()]
            counts.update(two - one for found in places for one, two in pairwise(found))
    return Hints(tuple(distance for distance, _ in counts.most_common(4)), tuple(various))


def _bases(dataset: Any, where: str = "dataset") -> Iterator[tuple[str, Any]]:
    """The dataset, or what torch's own wrappers hold, whose repetition the user spelled out."""
    if type(dataset) is Subset:
        yield from _bases(dataset.dataset, f"{where}.dataset")
    elif type(dataset) is ConcatDataset:
        parts = {id(part): (number, part) for number, part in reversed(list(enumerate(dataset.datasets)))}
        for number, part in sorted(parts.values(), key=lambda entry: entry[0]):
            yield from _bases(part, f"{where}.datasets[{number}]")
    else:
        yield where, dataset


def _typed(reader: Reader, index: int, spelled: str, value: Any, stable: Sequence[str]) -> Typed:
    """The answer to an index of another type. A number that is made from it may have its type, and be rounded."""
    plain = dict(walk_sample(reader.read(index)))
    try:
        answer = dict(walk_sample(reader.read(value)))
    except LoaderRaised as failure:
        return Typed(spelled, index, same=False, incident=failure.incident)
    return Typed(spelled, index, same=not _unlike(plain, answer, stable))


def _unlike(plain: Mapping[str, Any], answer: Mapping[str, Any], stable: Sequence[str]) -> tuple[str, ...]:
    """The stable leaves in which two samples differ; those that one of them lacks, too."""
    either = [path for path in stable if path in plain or path in answer]
    return tuple(path for path in either if not (path in plain and path in answer and _same(plain[path], answer[path])))


def _negative(reader: Reader, length: int, stable: Sequence[str]) -> tuple[Answer, tuple[str, ...]]:
    """The answer to -1, and the leaves in which it differs from the last sample."""
    plain = dict(walk_sample(reader.read(length - 1)))
    try:
        sample = reader.read(-1)
    except LoaderRaised as failure:
        return Answer(-1, incident=failure.incident), ()
    return Answer(-1, leaves_of(sample)), _unlike(plain, dict(walk_sample(sample)), stable)


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor | np.ndarray | np.generic | int | float):
        with contextlib.suppress(Exception):  # what is no array of numbers is compared by its digest
            first, second = (torch.as_tensor(part).detach().double() for part in (one, two))
            return first.shape == second.shape and torch.allclose(first, second, CLOSE, CLOSE, equal_nan=True)
    return [leaf.digest for leaf in leaves_of(one)] == [leaf.digest for leaf in leaves_of(two)]


def _seeds(reader: Reader, index: int) -> bool:
    """Whether the user's code gives a seed to a generator while it reads a sample."""
    with pinned(PIN), SeedWatch().watching(0) as seeds, contextlib.suppress(Exception):
        reader.dataset[index]
    return bool(seeds)


def _repeats(reader: Reader, where: str, dataset: Any, hints: Hints) -> Period | None:
    try:
        length = len(dataset)
    except Exception:  # noqa: BLE001 - a wrapped dataset need not have a length
        return None
    if length < 2 * BLOCK:
        return None
    block = [reader.ask(index, dataset=dataset) for index in range(BLOCK)]
    leaves = _telling(block, reader.ask(0, dataset=dataset), hints.various)
    if not leaves:
        return None
    for period in _candidates(dataset, length, hints.distances if dataset is reader.dataset else ()):
        if _equal(leaves, block[0], reader.ask(period, dataset=dataset)) and _equal(
            leaves, block[1], reader.ask(period + 1, dataset=dataset)
        ):
            starts = evenly(range(length - period), PAIRS)
            pairs = [(reader.ask(i, dataset=dataset), reader.ask(i + period, dataset=dataset)) for i in starts]
            if all(_equal(leaves, *pair) for pair in pairs):
                other = reader.ask(0, 1, dataset)
                own = _numbers(dataset)
                return Period(
                    where,
                    length,
                    period,
                    tuple(leaves),
                    len(pairs) + 2,
                    factor=next((name for name, number in own if number > 1 and number * period == length), None),
                    virtual=next((name for name, number in own if number == length), None),
                    listed=any(_is_periodic(held, period) for held in _held(dataset) if _size(held) == length),
                    random=not _equal(leaves, block[0], other),
                )
    return None


def _telling(block: Sequence[Answer], again: Answer, various: Sequence[str]) -> list[str]:
    """Leaves that stay from read to read and differ from sample to sample; a class or the index itself is none."""
    found = []
    for path, digest in block[0].digests.items():
        if (
            path not in various
            and math.prod(next(leaf.shape or () for leaf in block[0].leaves if leaf.path == path)) < 2
        ):
            continue
        series = [answer.digests.get(path) for answer in block]
        indices = [{leaf.digest for leaf in leaves_of(_spelled(number))} for number in range(len(block))]
        counts = all(one in numbers for one, numbers in zip(series, indices, strict=True))
        if again.digests.get(path) == digest and len(set(series)) == len(block) and not counts:
            found.append(path)
    return found


def _spelled(index: int) -> list[Any]:
    """An index in every type in which a sample may hold it."""
    return [index, str(index), float(index), np.int64(index), torch.tensor(index), torch.tensor([index])]


def _candidates(dataset: Any, length: int, suspected: Sequence[int]) -> list[int]:
    """Periods that could be: the lengths of what the dataset holds, parts of its own length, and distances seen."""
    sizes = list(dict.fromkeys(size for held in _held(dataset) if BLOCK <= (size := _size(held) or 0) < length))
    parts = [length // factor for factor in range(2, MOST_FACTOR + 1) if length % factor == 0]
    wanted = dict.fromkeys([*suspected[:4], *sizes[:MOST_PERIODS], *parts])
    return sorted([period for period in wanted if BLOCK <= period <= length - 2][:MOST_PERIODS])


def _held(dataset: Any) -> list[Any]:
    """What the dataset holds that may have a length, nearest first."""
    nodes = islice(walk({"dataset": dataset}, lambda _: True, enter=True), _NEAREST)
    held = [node.value for node in nodes if node.holder is not None]
    tensors = [value for node in [dataset, *held] for value in getattr(node, "__dict__", {}).values()]
    return [*held, *(value for value in tensors if isinstance(value, torch.Tensor))]


def _size(held: Any) -> int | None:
    if isinstance(held, str | bytes | type) or not hasattr(type(held), "__len__"):
        return None
    with contextlib.suppress(Exception):  # a length of the user's own, or of a 0-d array
        return len(held)
    return None


def _is_periodic(held: Any, period: int) -> bool:
    """Whether a list that names every sample repeats by itself: then the user has spelled the repetition out."""
    if not isinstance(held, list | tuple | np.ndarray | torch.Tensor):
        return False
    starts = evenly(range(len(held) - period), PAIRS)
    entries = [(leaves_of(held[start]), leaves_of(held[start + period])) for start in starts]
    return all(one == two for one, two in entries) and len({one for one, _ in entries}) == len(starts)


def _numbers(dataset: Any) -> list[tuple[str, int]]:
    state = getattr(dataset, "__dict__", {})
    return [(name, value) for name, value in state.items() if isinstance(value, int) and not isinstance(value, bool)]


def _equal(leaves: Sequence[str], one: Answer, two: Answer) -> bool:
    return all(path in one.digests and one.digests[path] == two.digests.get(path) for path in leaves)
