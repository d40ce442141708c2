"""Whether the content of a dataset repeats inside its range, and with which period."""

from __future__ import annotations

import contextlib
import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
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
LARGEST_FACTOR = 1 << 20
"""The largest prime factor of a distance that is looked for."""
VARIOUS = 0.25
"""The share of distinct values over an epoch above which a leaf is more than a class."""
MOST_BASES = 2
_NEAREST = 400
"""How many objects, nearest to the dataset first, are considered for their length."""


@dataclass(frozen=True, slots=True)
class Period:
    """A dataset whose content repeats: where it is, its length, its period and the leaves that identify samples.

    `unequal` are other leaves, such as labels, that do not repeat with any period; `numbered` is one of them that is
    constant within a period. `factor` names an attribute that equals length / period, `virtual` one that equals the
    length; `listed`: a list in the dataset repeats itself. `random`: those leaves depend on the RNG. `partner` is
    another leaf, drawn at random from data as long as the dataset, whatever the index.
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
    unequal: tuple[str, ...] = ()
    numbered: str | None = None


@dataclass(frozen=True, slots=True)
class Hints:
    """What an epoch showed: distances between equal samples, and leaves that take many values."""

    distances: tuple[int, ...] = ()
    various: tuple[str, ...] = ()


def hints_of(samples: Sequence[SampleRecord]) -> Hints:
    """The distances between equal samples, by each leaf that rarely repeats.

    What divides all of them comes first, then the most common ones.
    """
    counts: Counter[int] = Counter()
    divisors = []
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
            distances = [two - one for found in places for one, two in pairwise(found)]
            counts.update(distances)
            divisors.append(math.gcd(*distances))
    common = [distance for distance, _ in counts.most_common(4)]
    return Hints(tuple(dict.fromkeys([*divisors, *common])), tuple(various))


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
    ask = functools.cache(lambda index: reader.ask(index, dataset=dataset))
    block = [ask(index) for index in range(BLOCK)]
    repeated = reader.ask(0, dataset=dataset)
    leaves = _identifying(block, repeated, hints.various)
    if not leaves:
        return None

    def again(period: int, paths: Sequence[str], more: int = 0) -> bool:
        """Whether the first two samples repeat at this distance, and so many more all over the range."""
        starts = (0, 1, *(evenly(range(length - period), more) if more else ()))
        return all(_equal(paths, ask(start), ask(start + period)) for start in starts)

    sizes = _sizes(dataset, length)
    computed: list[int] = []
    for candidate in _candidates(sizes, length, hints.distances if dataset is reader.dataset else ()):
        if candidate not in sizes and any(candidate % few == 0 for few in computed):
            continue
        if not again(candidate, leaves):
            continue
        period = _smallest(candidate, lambda distance: again(distance, leaves))
        if period < TOY and period not in sizes:
            if candidate not in sizes:
                computed.append(period)
                continue
            period = candidate
        period = next((one for one in (period, candidate) if again(one, leaves, PAIRS)), 0)
        if not period:
            continue
        stable = [leaf.path for leaf in block[0].leaves if repeated.digests.get(leaf.path) == leaf.digest]
        labels = [path for path in stable if path not in leaves and not _is_index(path, ask(period))]
        multiples = [period * times for times in range(1, MOST_FACTOR + 1) if period * times <= length - 2]
        whole = next((one for one in multiples if again(one, [*leaves, *labels], PAIRS)), None)
        period = whole or period
        unequal = [] if whole else [path for path in labels if not again(period, [path], PAIRS)]
        following = [ask(start + period) for start in range(min(BLOCK, length - period))]
        other = reader.ask(0, 1, dataset)
        own = _numbers(dataset)
        long = [held for held in _held(dataset) if _size(held) == length]
        return Period(
            where,
            length,
            period,
            tuple(leaves),
            PAIRS + 2,
            factor=next((name for name, number in own if number > 1 and number * period == length), None),
            virtual=next((name for name, number in own if number == length), None),
            listed=any(_is_periodic(held, period) for held in long),
            random=not _equal(leaves, block[0], other),
            partner=_partner(block, other, leaves) if long else None,
            unequal=tuple(unequal),
            numbered=next(
                (path for path in unequal if _is_constant(path, block) and _is_constant(path, following)), None
            ),
        )
    return None


def _smallest(period: int, holds: Callable[[int], bool]) -> int:
    """The smallest divisor of a period that is one; of a long sequence, the smallest period divides all others."""
    rest, factor = period, 2
    while rest > 1:
        if factor * factor > rest or factor > LARGEST_FACTOR:
            factor = rest
        while rest % factor == 0:
            rest //= factor
            if period // factor >= BLOCK and holds(period // factor):
                period //= factor
        factor += 1
    return period


def _is_constant(path: str, answers: Sequence[Answer]) -> bool:
    return all(_equal([path], answers[0], answer) for answer in answers)


def _identifying(block: Sequence[Answer], again: Answer, various: Sequence[str]) -> list[str]:
    """Leaves that are stable between reads and differ between samples; not a class or the index itself."""
    found = []
    known = set(various)
    for leaf in block[0].leaves:
        path, digest = leaf.path, leaf.digest
        if path not in known and leaf.size < 2:
            continue
        series = [answer.digests.get(path) for answer in block]
        counts = all(_is_index(path, answer) for answer in block)
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


def _is_index(path: str, answer: Answer) -> bool:
    """Whether a leaf holds the index that was requested."""
    return answer.digests.get(path) in {leaf.digest for leaf in leaves_of(_spelled(answer.index))}


def _spelled(index: Any) -> list[Any]:
    """An index in every type in which a sample may hold it."""
    return [index, str(index), float(index), np.int64(index), torch.tensor(index), torch.tensor([index])]


def _sizes(dataset: Any, length: int) -> list[int]:
    """The lengths of the objects in the dataset."""
    return list(dict.fromkeys(size for held in _held(dataset) if BLOCK <= (size := _size(held) or 0) < length))


def _candidates(sizes: Sequence[int], length: int, suspected: Sequence[int]) -> list[int]:
    """Possible periods: lengths of objects in the dataset, fractions of its own length, and distances seen."""
    parts = [length // factor for factor in range(2, MOST_FACTOR + 1) if length % factor == 0]
    wanted = dict.fromkeys([*suspected[:6], *sizes[:MOST_PERIODS], *parts])
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
