"""Whether workers of a stream yield the same samples: how samples are recognised, and which are duplicates.

Standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataguard.checks.streams.sources import read_from
from dataguard.core.model import Undecided

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab
    from dataguard.lab.streams.stream_trace import Identity, StreamTrace

FEWEST_SHINGLES = 64
"""The fewest shingles of each worker. Chosen: shares of fewer have a standard error of more than a sixteenth."""
_SAME_TEXT, _REPEATED = 0.5, 0.1
"""The shares of shingles in common of workers that read one text, and of those that each read their own."""
_LONG_RUN = 16
"""Samples in a row that two workers do not both yield by chance, if these have some variety."""


@dataclass(frozen=True, slots=True)
class Duplicates:
    """How many `samples` of what several processes share come from more than one, compared with a single process.

    `read`: samples were recognised by what they are read from, so that nothing generates them.
    """

    shared: StreamTrace
    single: StreamTrace
    samples: int
    read: bool = False

    @property
    def first(self) -> str | None:
        """The first sample of one process that several yield, by its position and a leaf that readers recognise."""
        owners = Counter(identity for ids in self.shared.by_worker for identity in set(ids))
        return self.single.first_of({identity for identity, count in owners.items() if count > 1})


def find_duplicates(several: Callable[..., StreamTrace], single_process: Callable[..., StreamTrace]) -> Duplicates:
    """What several processes yield, and how much of it is duplicated, compared with one process.

    Both are called with `seeded`. Samples are recognised by the first means that works: their whole content; else, if
    that is random, what they are read from; else the content with seeded generators, which freezes augmentation; else a
    single leaf that identifies samples; else, where samples
    are batches that each process fills in its own way, the content of their `rows`; else, where they are windows of
    text, shingles of their tokens. Raises Undecided when none works.
    """
    shared, single = several(seeded=False), single_process(seeded=False)
    recognised = _recognised(shared, single)
    doubled = _doubled(shared, single) if recognised else 0
    if doubled or (recognised and shared.same_samples(single)):
        return Duplicates(shared, single, doubled)
    # Of a stream that has not ended, new content in the second epoch may only be in another order.
    sources = read_from(several, single_process, single) if single.ended or not recognised else None
    if sources and _recognised(*sources):
        return Duplicates(*sources, _doubled(*sources), read=True)
    seeded_shared, seeded_single = several(seeded=True), single_process(seeded=True)
    # A process that repeats itself draws its samples.
    if _recognised(seeded_shared, seeded_single) and seeded_single.distinct > 0.5:
        return Duplicates(shared, single, _doubled(seeded_shared, seeded_single))
    leaves = [(shared.by_leaf(path), single.by_leaf(path)) for path in single.paths]
    verdicts = [
        _doubled(shared_leaf, single_leaf)
        for shared_leaf, single_leaf in leaves
        if _recognised(shared_leaf, single_leaf) and single_leaf.distinct > 0.9
    ]
    if not recognised and not verdicts:
        rows, single_rows = several(seeded=False, rows=True), single_process(seeded=False, rows=True)
        if _recognised(rows, single_rows) and single_rows.distinct > 0.5:
            return Duplicates(rows, single_rows, _doubled(rows, single_rows))
        shared_windows = _windows(several(seeded=False, shingles=True), single_process(seeded=False, shingles=True))
        if shared_windows is not None:
            return Duplicates(shared, single, int(shared_windows * min(shared.samples)))
        raise Undecided("samples cannot be recognised: they are random, or all identical")
    return Duplicates(shared, single, 0 if recognised or 0 in verdicts else max(verdicts))


def are_generated(lab: Lab, shared: StreamTrace, single: StreamTrace) -> bool:
    """Whether workers yield the same because a cloned generator makes their samples: nothing is read twice then.

    A leaf that the generator does not touch, and that is duplicated as well, shows that it is.
    """
    try:
        repeat = lab.randomness.shared_draws("workers").repeat
    except Undecided:
        repeat = None
    if repeat is None:
        return False
    advanced = _advanced(lab, repeat.suspects[0].path)
    untouched = [path for path in single.paths if advanced.by_leaf(path).same_samples(single.by_leaf(path))]
    return not any(
        _doubled(shared.by_leaf(path), single.by_leaf(path))
        for path in untouched
        if single.by_leaf(path).distinct > 0.5
    )


def _advanced(lab: Lab, path: str) -> StreamTrace:
    """What a single process yields if the generator at a path is advanced after the first batch."""
    if path.startswith("global "):
        return lab.streams.stream(0, seeded=False)
    return lab.streams.stream(0, seeded=True, advance=path)


def _recognised(shared: StreamTrace, single: StreamTrace) -> bool:
    """Whether samples can be recognised: much of what several workers yield is what one process yields."""
    yielded = {identity for ids in shared.by_worker for identity in ids}
    reference = {identity for ids in single.by_worker for identity in ids}
    return len(reference) > 1 and len(yielded & reference) > 0.5 * min(len(yielded), len(reference))


def _doubled(shared: StreamTrace, single: StreamTrace) -> int:
    """How many samples came from several workers.

    Either workers yield the same long sequence, or all that one process does, however often that repeats itself; or
    samples that one process yields once are yielded more often. As many as there are workers, less one, may be padding.
    """
    if len(shared.by_worker) < 2:
        return 0
    first, second = shared.by_worker[:2]
    length = min(len(first), len(second))
    if length >= _LONG_RUN and first[:length] == second[:length] and len(set(first)) > _LONG_RUN // 4:
        return shared.scaled(length)
    if not (shared.ended and single.ended):
        return shared.scaled(_overlap(set(first), set(second), single))
    reference = Counter(identity for ids in single.by_worker for identity in ids)
    if sum(Counter(ids) == reference for ids in shared.by_worker) > 1:
        return single.total
    yielded = Counter(identity for ids in shared.by_worker for identity in ids)
    excess = sum((yielded - reference).values())
    distinct = max(reference.values()) == 1 and not yielded.keys() - reference.keys()
    return shared.scaled(excess) if distinct and excess >= len(shared.by_worker) else 0


def _windows(shared: StreamTrace, single: StreamTrace) -> float | None:
    """The share of its text that a worker has in common with another one; None if that is not known.

    Both are traces of shingles of tokens. Windows of one text begin elsewhere in each worker, and share shingles. Text
    that one process repeats identifies nothing, and workers that have not ended may yet come to the same text.
    """
    if len(shared.by_worker) < 2:
        return None
    first, second = (set(ids) for ids in shared.by_worker[:2])
    one_process = [identity for ids in single.by_worker for identity in ids]
    fewest = min(len(first), len(second))
    if fewest < FEWEST_SHINGLES or len(set(one_process)) < (1 - _REPEATED) * len(one_process):
        return None
    share = len(first & second) / fewest
    if share > _SAME_TEXT:
        return share
    return 0.0 if share < _REPEATED and shared.ended and single.ended else None


def _overlap(first: set[Identity], second: set[Identity], single: StreamTrace) -> int:
    """How far what two workers began to yield overlaps, unless one process overlaps with itself as much."""
    one_process = [identity for ids in single.by_worker for identity in ids]
    middle = len(one_process) // 2
    by_itself = len(set(one_process[:middle]) & set(one_process[middle:]))
    across = len(first & second)
    return across if across > max(4 * by_itself, 0.1 * min(len(first), len(second)), 1) else 0
