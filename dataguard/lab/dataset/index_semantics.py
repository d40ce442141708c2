"""What the indices of a dataset mean, in one process: at the ends of its range, inside it, and beyond.

`probe_ends` reads the dataset at and beyond the ends. `probe_semantics` asks in addition what -1 is, and what indices
of other types return, and calls `find_periods`, which finds content that repeats inside the range, and its period.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.core.incident import Incident, LoaderFailed, LoaderRaised
from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.core.index_schedules import evenly
from dataguard.lab.core.leaves import VALUES_AT_ONCE, describe, iter_leaves, leaves_of
from dataguard.lab.core.loader_facts import by_torch, innermost, length_of_indexed, need_integers
from dataguard.lab.core.object_graph import reachable
from dataguard.lab.core.records import Index, SampleRecord
from dataguard.lab.reading.sample_reader import Answer, Reader
from dataguard.lab.rng.rng_discovery import SEED, seeded
from dataguard.lab.rng.seed_watch import SeedWatch
from dataguard.lab.subject import Subject
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

_SIZED = (list, tuple, dict, np.ndarray)  # a user-defined `__len__` may do anything
NEAR_SAMPLES, FEW_NEAR_SAMPLES = 5, 3
"""How many samples at the beginning are read, and how many of those that are slow."""
SLOW_SAMPLE = 0.2
"""The seconds above which a sample is slow."""
MOST_LEFT_OUT = 0.1
"""The share of the length that may follow it by mistake. Chosen: if more follow, it is an epoch or a split that is
shorter on purpose."""
Shapes = tuple[tuple[object, ...], ...]
"""The shapes of a sample's leaves, as in `Answer.shapes`."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Results at the ends of the index range.

    `first_failing` is the smallest index of the failing tail inside `range(length)`, None if the last index works.
    `inside` are samples within the range, `beyond` the results at `length`, `length + 1` and `length + 2`.
    `first_again` is a second read of the first sample of `inside`, to separate stable leaves from random ones.
    `left_out` samples from `length` on have the shapes of those inside, and the next one does not; 0 if there are none,
    if there are many, or if no end was found. `counted`: the dataset holds that length, or something that long.
    """

    length: int
    first_failing: int | None
    last: Answer
    inside: tuple[Answer, ...]
    first_again: Answer
    beyond: tuple[Answer, ...]
    left_out: int
    counted: bool
    reads: int

    @property
    def identifying(self) -> list[str]:
        """Leaves that do not depend on the random state and differ between samples."""
        first, again = self.inside[0].digests, self.first_again.digests
        paths = [path for path, digest in again.items() if first.get(path) == digest]
        values = {path: len({inside.digests.get(path) for inside in self.inside}) for path in paths}
        return [path for path in paths if values[path] > 0.8 * len({inside.index for inside in self.inside})]


def find_ends(subject: Subject) -> Ends:
    """What the dataset returns at and beyond the ends of its index range (map-style only).

    Raises Undecided if it dies or hangs beyond the end, which no loader requests.
    """
    subject.need_map("a stream has no indices")
    try:
        return subject.cache.observe("ends", lambda folder: probe_ends(subject.build(), folder))
    except LoaderFailed as failure:
        index, length = failure.incident.index or "", subject.facts.length
        if length is not None and index.isdigit() and int(index) >= length:
            raise Undecided(f"dataset[{index}], beyond the end: {failure.incident.headline}") from failure
        raise


def first_failing(subject: Subject) -> int | None:
    """The smallest index of a tail that does not exist, None if there is no such tail."""
    try:
        return find_ends(subject).first_failing
    except (LoaderFailed, NotApplicable, Undecided):
        return None


def probe_ends(loader: Loader, folder: Path) -> Ends:
    """Read the loader's dataset at and beyond the ends of its range, with every generator frozen.

    Raises NotApplicable for a dataset without a length or without integer indices.
    """
    dataset: Any = loader.dataset
    length = length_of_indexed(dataset)
    need_integers(loader)
    reader = Reader(loader, folder)
    first = reader.ask(0)
    started = time.perf_counter()
    last = reader.ask(length - 1)
    slow = time.perf_counter() - started > SLOW_SAMPLE
    beyond = tuple(reader.ask(length + step) for step in (0, 1, 2))
    first_failing = None
    if last.incident and not first.incident and _means_out_of_range(last.incident, beyond):
        first_failing = _boundary(reader, length)
        last = reader.ask(first_failing)
    near = FEW_NEAR_SAMPLES if slow else NEAR_SAMPLES
    nothing_beyond = slow and all(answer.incident for answer in beyond)  # so that no sample can be one of those inside
    wanted = range(1, min(near, length - 1)) if nothing_beyond else _indices_inside(dataset, length, near)
    inside = [first, *map(reader.ask, wanted), last]
    shapes = {answer.shapes for answer in inside}
    left_out = _left_out(reader, length, *shapes) if shapes == {beyond[0].shapes} and not beyond[0].incident else 0
    again = reader.ask(0)
    counted = length in (held if isinstance(held, int) else len(held) for held in _countable(dataset))
    return Ends(length, first_failing, last, tuple(inside), again, beyond, left_out, counted, reader.reads)


def _left_out(reader: Reader, length: int, shapes: Shapes) -> int:
    """How many samples of these shapes follow the range, by bisection; 0 if more than a share of its length do."""

    def exists(extra: int) -> bool:
        answer = reader.ask(length + extra)
        return not answer.incident and answer.shapes == shapes

    good, bad = 0, max(2, int(MOST_LEFT_OUT * length))
    if exists(bad):
        return 0
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if exists(middle) else (good, middle)
    return bad


def _countable(dataset: Any) -> list[Any]:
    """The integers and containers that a dataset holds in its attributes."""
    return [held for held in getattr(dataset, "__dict__", {}).values() if isinstance(held, (int, *_SIZED))]


def _indices_inside(dataset: Any, length: int, near: int) -> list[int]:
    """Indices that a wrapped or clamped index probably maps to: near both ends, and modulo lengths in the dataset."""
    lengths = {len(part) for part in _countable(dataset) if not isinstance(part, int)}
    landed = {(length + step) % period for period in lengths if period for step in (0, 1, 2)}
    wanted = {*range(1, near), *range(length - 3, length - 1), *sorted(landed)[:near]}
    return [index for index in sorted(wanted) if 0 < index < length - 1]


def _means_out_of_range(incident: Incident, beyond: tuple[Answer, ...]) -> bool:
    """Whether the error at the last index is that of an index that does not exist."""
    lookup = "LookupError" in (incident.error_type, *incident.error_bases)
    same = all(answer.incident and answer.incident.error_type == incident.error_type for answer in beyond)
    return lookup or same


def _boundary(reader: Reader, length: int) -> int:
    """The smallest index from which every read fails, by bisection: a tail that does not exist is contiguous."""
    good, bad = 0, length - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if reader.ask(middle).incident:
            bad = middle
        else:
            good = middle
    return bad


VALUE_TOLERANCE = 1e-3
"""The tolerance for values computed in different precisions."""
FAR_LENGTHS = 10
"""An index this many lengths below zero has a sample only in a dataset that looks nothing up."""
SEMANTICS_READS, FEW_SEMANTICS_READS = 14, 5
"""Samples that are read if nothing repeats, and of those that are slow: no question is asked twice."""


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


def probe_semantics(loader: Loader, folder: Path, hints: Hints, ends: Ends, *, few: bool = False) -> IndexSemantics:
    """Read samples all over the range, but those at its `ends` only once more; `few` if they are slow.

    Raises NotApplicable for a dataset without a length or without integer indices.
    """
    length = length_of_indexed(loader.dataset)
    need_integers(loader)
    reader = Reader(loader, folder)
    if not few:
        reader.ask(0)  # what a first read creates exists from here on
    last = ends.last
    plain = functools.cache(lambda index: dict(iter_leaves(reader.read(index))))
    again = {path: describe(path, leaf).digest for path, leaf in plain(length - 1).items()} if not last.incident else {}
    stable = tuple(path for path, digest in last.digests.items() if again.get(path) == digest)
    typed: list[TypedIndex] = []
    types = (torch.tensor,) if few else (np.int64, torch.tensor)  # what takes tensors takes numpy's integers
    for index in (length - 1, length // 2)[: 1 if few else 2] if stable else ():
        typed += [_typed(reader, plain(index), index, of, stable) for of in types]
        if not any(one.unlike or one.incident for one in typed):
            break
    repeats = find_periods(reader, hints, ends)
    far = reader.ask(-FAR_LENGTHS * length)
    negative, unlike = _negative(reader, length, plain(length - 1), stable) if stable else (Answer(-1), ())
    seeded = bool(unlike) and _seeds_generators(reader, length - 1)
    return IndexSemantics(last, negative, far, seeded, unlike, tuple(typed), repeats, reader.reads)


def _typed(
    reader: Reader, plain: Mapping[str, Any], index: int, of: Callable[[int], Any], stable: Sequence[str]
) -> TypedIndex:
    """The result of an index of another type than that of the `plain` sample: values may have it, and be rounded."""
    expression = f"{'numpy.int64' if of is np.int64 else 'torch.tensor'}({index})"
    try:
        answer = dict(iter_leaves(reader.read(of(index))))
    except LoaderRaised as failure:
        return TypedIndex(expression, index, incident=failure.incident)
    return TypedIndex(expression, index, _unlike(plain, answer, stable))


def _unlike(plain: Mapping[str, Any], answer: Mapping[str, Any], stable: Sequence[str]) -> tuple[str, ...]:
    """The stable leaves in which two samples differ, including those that one of them lacks."""
    either = [path for path in stable if path in plain or path in answer]
    return tuple(
        path for path in either if not (path in plain and path in answer and _is_close(plain[path], answer[path]))
    )


def _negative(
    reader: Reader, length: int, plain: Mapping[str, Any], stable: Sequence[str]
) -> tuple[Answer, tuple[str, ...]]:
    """The result of -1, and the leaves in which it differs from the last sample, which is `plain`."""
    try:
        sample = reader.read(-1)
    except LoaderRaised as failure:
        return Answer(-1, incident=failure.incident), ()
    negative = dict(iter_leaves(sample))
    indices = [path for path in stable if path in negative and _is_index(plain[path], length - 1, negative[path])]
    unlike = _unlike(plain, negative, [path for path in stable if path not in indices])
    inputs = _largest(plain, stable)
    differing = inputs & set(unlike)
    same = bool(differing) and _has_companions(reader, length, plain, inputs - differing, differing)
    return Answer(-1, leaves_of(sample)), unlike if differing and not same else ()


def _has_companions(
    reader: Reader, length: int, last: Mapping[str, Any], same: Iterable[str], differing: Iterable[str]
) -> bool:
    """Whether inputs that are the same say which sample it is, and all that differ are drawn at random beside them.

    The positive of a triplet is drawn from the images of a class but the anchor, whose index -1 does not equal.
    """
    if not same:
        return False
    first, again = (dict(iter_leaves(reader.read(*read))) for read in ((0, 0), (length - 1, 1)))
    identified = any(path in first and not _is_close(first[path], last[path]) for path in same)
    return identified and all(path in again and not _is_close(again[path], last[path]) for path in differing)


def _is_index(value: Any, index: int, negative: Any) -> bool:
    """Whether a leaf is the requested index itself."""
    with contextlib.suppress(Exception):
        return (int(value), int(negative)) == (index, -1)
    return False


def _largest(sample: Mapping[str, Any], stable: Sequence[str]) -> set[str]:
    """The leaves with the most values; all if each holds one value."""
    sizes = {path: math.prod(describe(path, sample[path]).shape or ()) for path in stable}
    return {path for path, size in sizes.items() if size == max(sizes.values())}


def _is_close(value: Any, other: Any) -> bool:
    if isinstance(value, torch.Tensor | np.ndarray | np.generic | int | float):
        with contextlib.suppress(Exception):  # non-numeric values are compared by digest
            first, second = (torch.as_tensor(part).detach() for part in (value, other))
            pieces = zip(*(part.reshape(-1).split(VALUES_AT_ONCE) for part in (first, second)), strict=False)
            return first.shape == second.shape and all(
                torch.allclose(
                    first_piece.double(), second_piece.double(), VALUE_TOLERANCE, VALUE_TOLERANCE, equal_nan=True
                )
                for first_piece, second_piece in pieces
            )
    return [leaf.digest for leaf in leaves_of(value)] == [leaf.digest for leaf in leaves_of(other)]


def _seeds_generators(reader: Reader, index: int) -> bool:
    """Whether the user's code seeds a generator while it reads a sample."""
    with seeded(SEED), SeedWatch().watching(0) as seeds, contextlib.suppress(Exception):
        reader.dataset[index]
    return bool(seeds)


BLOCK_SAMPLES = 4
"""Samples at the beginning in which a leaf must differ to identify samples."""
PERIOD_PAIRS = 6
"""Pairs of samples, one period apart, that must be equal all over the range."""
SHORTEST_COMPUTED = 16
"""The shortest period without an object of that length: shorter ones are computed from the index."""
MOST_PERIODS = 12
"""Most candidates for a period that are tried, each with a few reads."""
MOST_FACTOR = 8
"""The largest number of repeats that is guessed without a hint, and multiples of a period that labels may have."""
LARGEST_FACTOR = 1 << 20
"""The largest prime factor of a distance that is looked for."""
VARIOUS_SHARE = 0.25
"""The share of distinct values over an epoch above which a leaf is more than a class."""
MOST_BASES = 2
"""Most wrapped datasets that are searched for periods: the parts of a concatenation are often alike."""
_NEAREST_OBJECTS = 400
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
    """What an epoch showed: distances between equal samples, leaves that take many values, and digests by index."""

    distances: tuple[int, ...] = ()
    various: tuple[str, ...] = ()
    digests: Mapping[Index, Mapping[str, bytes]] = field(default_factory=dict)

    def set_apart(self, paths: Sequence[str], first: Answer, index: Index) -> bool:
        """Whether a sample differs from the `first`, whose leaves are the same in the epoch, and so do not vary."""
        here, there = self.digests.get(first.index, {}), self.digests.get(index, {})
        steady = all(here.get(path) == first.digests.get(path) for path in paths)
        return steady and any(path in there and there[path] != here.get(path) for path in paths)


def hints_of(samples: Sequence[SampleRecord]) -> Hints:
    """The distances between equal samples, by each leaf that rarely repeats.

    What divides all of them comes first, then the most common ones.
    """
    counts: Counter[int] = Counter()
    divisors = []
    various = []
    content = [
        (sample.index, {leaf.path: leaf.digest for leaf in sample.leaves})
        for sample in samples
        if isinstance(sample.index, int)
    ]
    for path in dict.fromkeys(leaf.path for sample in samples[:1] for leaf in sample.leaves):
        indices_by_digest: dict[bytes, set[int]] = {}
        for index, digests in content:
            if path in digests:
                indices_by_digest.setdefault(digests[path], set()).add(index)
        if len(indices_by_digest) >= VARIOUS_SHARE * len(samples):
            various.append(path)
            positions = [sorted(indices) for indices in indices_by_digest.values()]
            distances = [later - earlier for indices in positions for earlier, later in pairwise(indices)]
            counts.update(distances)
            divisors.append(math.gcd(*distances))
    common = [distance for distance, _ in counts.most_common(4)]
    return Hints(tuple(dict.fromkeys([*divisors, *common])), tuple(various), dict(content))


def find_periods(reader: Reader, hints: Hints, ends: Ends) -> tuple[Period, ...]:
    """The datasets whose content repeats, among those that torch's own `Subset` and `ConcatDataset` wrap."""
    bases = islice(innermost(reader.dataset, by_torch), MOST_BASES)
    periods = [_find_period(reader, where, base, hints, ends) for where, base in bases]
    return tuple(period for period in periods if period)


def _find_period(reader: Reader, where: str, dataset: Any, hints: Hints, ends: Ends) -> Period | None:
    try:
        length = len(dataset)
    except Exception:  # noqa: BLE001 - a wrapped dataset need not have a length
        return None
    if length < 2 * BLOCK_SAMPLES:
        return None
    known = {answer.index: answer for answer in ends.inside} if dataset is reader.dataset else {}
    ask = functools.cache(lambda index: known.get(index) or reader.ask(index, dataset=dataset))
    block = [ask(index) for index in range(BLOCK_SAMPLES)]
    repeated = ends.first_again if known else reader.ask(0, dataset=dataset)
    leaves = _identifying(block, repeated, hints.various)
    if not leaves:
        return None

    def again(period: int, paths: Sequence[str], more: int = 0) -> bool:
        """Whether the first two samples repeat at this distance, and so many more all over the range."""
        if dataset is reader.dataset and hints.set_apart(paths, block[0], period):
            return False
        starts = (0, 1, *(evenly(range(length - period), more) if more else ()))
        return all(_equal(paths, ask(start), ask(start + period)) for start in starts)

    sizes = _sizes(dataset, length)
    candidates = _candidates(sizes, length, hints.distances if dataset is reader.dataset else ())
    computed: list[int] = []
    for candidate in candidates:
        if candidate not in sizes and any(candidate % few == 0 for few in computed):
            continue
        # What does not repeat at a multiple of a distance does not repeat at that distance: one read for several.
        if not all(again(multiple, leaves) for multiple in reversed(candidates) if multiple % candidate == 0):
            continue
        period = _smallest(candidate, lambda distance: again(distance, leaves))
        if period < SHORTEST_COMPUTED and period not in sizes:
            if candidate not in sizes:
                computed.append(period)
                continue
            period = candidate
        period = next((each for each in (period, candidate) if again(each, leaves, PERIOD_PAIRS)), 0)
        if not period:
            continue
        stable = [leaf.path for leaf in block[0].leaves if repeated.digests.get(leaf.path) == leaf.digest]
        labels = [path for path in stable if path not in leaves and not _counts_up(path, ask(period))]
        multiples = [period * times for times in range(1, MOST_FACTOR + 1) if period * times <= length - 2]
        whole = next((multiple for multiple in multiples if again(multiple, [*leaves, *labels], PERIOD_PAIRS)), None)
        period = whole or period
        unequal = [] if whole else [path for path in labels if not again(period, [path], PERIOD_PAIRS)]
        following = [ask(start + period) for start in range(min(BLOCK_SAMPLES, length - period))]
        other = reader.ask(0, 1, dataset)
        numbers = _numbers(dataset)
        long = [held for held in _objects_in(dataset) if _size(held) == length]
        return Period(
            where,
            length,
            period,
            tuple(leaves),
            PERIOD_PAIRS + 2,
            factor=next((name for name, number in numbers if number > 1 and number * period == length), None),
            virtual=next((name for name, number in numbers if number == length), None),
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
    """The smallest divisor of a period that is one; of a long sequence, the smallest period divides all others.

    So prime factors are divided out one by one, as long as what remains is a period.
    """
    rest, factor = period, 2
    while rest > 1:
        if factor * factor > rest or factor > LARGEST_FACTOR:
            factor = rest
        while rest % factor == 0:
            rest //= factor
            if period // factor >= BLOCK_SAMPLES and holds(period // factor):
                period //= factor
        factor += 1
    return period


def _is_constant(path: str, answers: Sequence[Answer]) -> bool:
    return all(_equal([path], answers[0], answer) for answer in answers)


def _identifying(block: Sequence[Answer], again: Answer, various: Sequence[str]) -> list[str]:
    """Leaves that are stable between reads and differ between samples; not a class or the index itself."""
    identifying = []
    various_paths = set(various)
    for leaf in block[0].leaves:
        path, digest = leaf.path, leaf.digest
        if path not in various_paths and leaf.size < 2:
            continue
        series = [answer.digests.get(path) for answer in block]
        counts = all(_counts_up(path, answer) for answer in block)
        if again.digests.get(path) == digest and len(set(series)) == len(block) and not counts:
            identifying.append(path)
    return identifying


def _partner(block: Sequence[Answer], other: Answer, identifying: Sequence[str]) -> str | None:
    """A leaf as large as those that identify samples, drawn at random whatever the index."""
    sizes = {leaf.path: leaf.size for leaf in block[0].leaves}
    large = max(sizes[path] for path in identifying)
    for path, size in sizes.items():
        is_constant = all(_equal([path], block[0], answer) for answer in block)
        if size >= large and is_constant and not _equal([path], block[0], other):
            return path
    return None


def _counts_up(path: str, answer: Answer) -> bool:
    """Whether a leaf holds the index that was requested."""
    return answer.digests.get(path) in {leaf.digest for leaf in leaves_of(_spelled(answer.index))}


def _spelled(index: Any) -> list[Any]:
    """An index in every type in which a sample may hold it."""
    return [index, str(index), float(index), np.int64(index), torch.tensor(index), torch.tensor([index])]


def _sizes(dataset: Any, length: int) -> list[int]:
    """The lengths of the objects in the dataset."""
    return list(
        dict.fromkeys(size for held in _objects_in(dataset) if BLOCK_SAMPLES <= (size := _size(held) or 0) < length)
    )


def _candidates(sizes: Sequence[int], length: int, suspected: Sequence[int]) -> list[int]:
    """Possible periods: lengths of objects in the dataset, fractions of its own length, and distances seen."""
    parts = [length // factor for factor in range(2, MOST_FACTOR + 1) if length % factor == 0]
    wanted = dict.fromkeys([*suspected[:6], *sizes[:MOST_PERIODS], *parts])
    return sorted([period for period in wanted if BLOCK_SAMPLES <= period <= length - 2][:MOST_PERIODS])


def _objects_in(dataset: Any) -> list[Any]:
    """The objects in the dataset that may have a length, nearest first."""
    nodes = islice(reachable({"dataset": dataset}, lambda _: True, enter=True), _NEAREST_OBJECTS)
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
    starts = evenly(range(len(held) - period), PERIOD_PAIRS)
    entries = [(leaves_of(held[start]), leaves_of(held[start + period])) for start in starts]
    return all(entry == repeated for entry, repeated in entries) and len({entry for entry, _ in entries}) == len(starts)


def _numbers(dataset: Any) -> list[tuple[str, int]]:
    state = getattr(dataset, "__dict__", {})
    return [(name, value) for name, value in state.items() if isinstance(value, int) and not isinstance(value, bool)]


def _equal(leaves: Sequence[str], answer: Answer, other: Answer) -> bool:
    return all(path in answer.digests and answer.digests[path] == other.digests.get(path) for path in leaves)
