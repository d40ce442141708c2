"""Whether the content of a dataset repeats inside its range, and with which period."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.object_graph import reachable
from dataguard.lab.core.records import SampleRecord
from dataguard.lab.core.wrapped_datasets import by_torch, innermost
from dataguard.lab.reading.sample_reader import Answer, Reader

BLOCK = 4
"""Samples at the beginning in which a leaf must differ to identify samples."""
PAIRS = 6
"""Pairs of samples, one period apart, that must be equal all over the range."""
TOY = 16
"""The shortest period without an object of that length: shorter ones are computed from the index."""
MOST_PERIODS = 12
MOST_FACTOR = 8
VARIOUS = 0.25
"""The share of distinct values over an epoch above which a leaf is more than a class."""
MOST_BASES = 2
_NEAREST = 400
"""How many objects, nearest to the dataset first, are considered for their length."""


@dataclass(frozen=True, slots=True)
class Period:
    """A dataset whose content repeats: where it is, its length, its period and the leaves that identify samples.

    `factor` names an attribute that equals length / period, `virtual` one that equals the length; `listed`: a list in
    the dataset repeats itself. `random`: those leaves depend on the RNG. `partner` is another leaf, drawn at random
    from data as long as the dataset, whatever the index.
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
    partner: str | None


@dataclass(frozen=True, slots=True)
class Hints:
    """What an epoch showed: distances between equal samples, and leaves that take many values."""

    distances: tuple[int, ...] = ()
    various: tuple[str, ...] = ()


def hints_of(samples: Sequence[SampleRecord]) -> Hints:
    """The distances between equal samples, by each leaf that rarely repeats; the most common distance first."""
    counts: Counter[int] = Counter()
    various = []
    content = [
        (one.index, {leaf.path: leaf.digest for leaf in one.leaves}) for one in samples if isinstance(one.index, int)
    ]
    for path in dict.fromkeys(leaf.path for sample in samples[:1] for leaf in sample.leaves):
        alike: dict[bytes, set[int]] = {}
        for index, digests in content:
            if path in digests:
                alike.setdefault(digests[path], set()).add(index)
        if len(alike) >= VARIOUS * len(samples):
            various.append(path)
            places = [sorted(found) for found in alike.values()]
            counts.update(two - one for found in places for one, two in pairwise(found))
    return Hints(tuple(distance for distance, _ in counts.most_common(4)), tuple(various))


def find_periods(reader: Reader, hints: Hints) -> tuple[Period, ...]:
    """The datasets whose content repeats, among those that torch's own `Subset` and `ConcatDataset` wrap."""
    bases = islice(innermost(reader.dataset, by_torch), MOST_BASES)
    found = [_period(reader, where, base, hints) for where, base in bases]
    return tuple(period for period in found if period)


def _period(reader: Reader, where: str, dataset: Any, hints: Hints) -> Period | None:
    try:
        length = len(dataset)
    except Exception:  # noqa: BLE001 - a wrapped dataset need not have a length
        return None
    if length < 2 * BLOCK:
        return None
    block = [reader.ask(index, dataset=dataset) for index in range(BLOCK)]
    leaves = _identifying(block, reader.ask(0, dataset=dataset), hints.various)
    if not leaves:
        return None

    def again(distance: int) -> bool:
        """Whether the first two samples repeat at this distance."""
        return all(_equal(leaves, block[i], reader.ask(i + distance, dataset=dataset)) for i in range(2))

    sizes = _sizes(dataset, length)
    for period in _candidates(sizes, length, hints.distances if dataset is reader.dataset else ()):
        if not again(period):
            continue
        if period not in sizes and any(period % few == 0 and again(few) for few in range(BLOCK, TOY)):
            continue
        starts = evenly(range(length - period), PAIRS)
        pairs = [(reader.ask(i, dataset=dataset), reader.ask(i + period, dataset=dataset)) for i in starts]
        if all(_equal(leaves, *pair) for pair in pairs):
            other = reader.ask(0, 1, dataset)
            own = _numbers(dataset)
            long = [held for held in _held(dataset) if _size(held) == length]
            return Period(
                where,
                length,
                period,
                tuple(leaves),
                len(pairs) + 2,
                factor=next((name for name, number in own if number > 1 and number * period == length), None),
                virtual=next((name for name, number in own if number == length), None),
                listed=any(_is_periodic(held, period) for held in long),
                random=not _equal(leaves, block[0], other),
                partner=_partner(block, other, leaves) if long else None,
            )
    return None


def _identifying(block: Sequence[Answer], again: Answer, various: Sequence[str]) -> list[str]:
    """Leaves that are stable between reads and differ between samples; not a class or the index itself."""
    found = []
    indices = [{leaf.digest for leaf in leaves_of(_spelled(number))} for number in range(len(block))]
    known = set(various)
    for leaf in block[0].leaves:
        path, digest = leaf.path, leaf.digest
        if path not in known and leaf.size < 2:
            continue
        series = [answer.digests.get(path) for answer in block]
        counts = all(one in numbers for one, numbers in zip(series, indices, strict=True))
        if again.digests.get(path) == digest and len(set(series)) == len(block) and not counts:
            found.append(path)
    return found


def _partner(block: Sequence[Answer], other: Answer, identifying: Sequence[str]) -> str | None:
    """A leaf as large as those that identify samples, drawn at random whatever the index."""
    sizes = {leaf.path: leaf.size for leaf in block[0].leaves}
    large = max(sizes[path] for path in identifying)
    for path, size in sizes.items():
        alike = all(_equal([path], block[0], answer) for answer in block)
        if size >= large and alike and not _equal([path], block[0], other):
            return path
    return None


def _spelled(index: int) -> list[Any]:
    """An index in every type in which a sample may hold it."""
    return [index, str(index), float(index), np.int64(index), torch.tensor(index), torch.tensor([index])]


def _sizes(dataset: Any, length: int) -> list[int]:
    """The lengths of the objects in the dataset."""
    return list(dict.fromkeys(size for held in _held(dataset) if BLOCK <= (size := _size(held) or 0) < length))


def _candidates(sizes: Sequence[int], length: int, suspected: Sequence[int]) -> list[int]:
    """Possible periods: lengths of objects in the dataset, fractions of its own length, and distances seen."""
    parts = [length // factor for factor in range(2, MOST_FACTOR + 1) if length % factor == 0]
    wanted = dict.fromkeys([*suspected[:4], *sizes[:MOST_PERIODS], *parts])
    return sorted([period for period in wanted if BLOCK <= period <= length - 2][:MOST_PERIODS])


def _held(dataset: Any) -> list[Any]:
    """The objects in the dataset that may have a length, nearest first."""
    nodes = islice(reachable({"dataset": dataset}, lambda _: True, enter=True), _NEAREST)
    held = [node.value for node in nodes if node.holder is not None]
    tensors = [value for node in [dataset, *held] for value in getattr(node, "__dict__", {}).values()]
    return [*held, *(value for value in tensors if isinstance(value, torch.Tensor))]


def _size(held: Any) -> int | None:
    if isinstance(held, str | bytes | type) or not hasattr(type(held), "__len__"):
        return None
    with contextlib.suppress(Exception):  # a user-defined length, or that of a 0-d array
        return len(held)
    return None


def _is_periodic(held: Any, period: int) -> bool:
    """Whether a list with an entry per sample repeats itself: the user then repeated it on purpose."""
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
