"""The order of a stream in several epochs of one process, and whether a constant seed decides it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import Seeding
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.sample_reader import emulate_worker
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.lab.rng.seed_watch import SeedWatch
from dataguard.lab.spy.drive import announce_epoch
from dataguard.targets.variants import Loader

EPOCHS = 3
MOST = 400
"""The most samples of an epoch that are read."""
BURN = 5
"""How many numbers a generator skips after it was seeded with a constant, in the last epoch."""
COMMON = 0.5
"""The least share of samples that two orders have in common."""
FEWEST = 32
"""The fewest of them whose places correlate by more than 0.9 by no coincidence."""
MOST_SOURCES = 5
"""So many sources, each read in its order, may be interleaved by chance: that is no shuffling."""
DESCENT = 0.75
"""The longest descent of a shuffled order is about twice the square root of its length; that of sources is theirs."""


@dataclass(frozen=True, slots=True)
class StreamOrder:
    """A stream of so many `samples`, of which each epoch has the same order: the `seed` that it depends on, if any.

    It then has another order where generators skip some numbers after they were seeded with a constant, or once
    `set_epoch` is called: `awaits_epoch`. `correlation` is that of the places of samples in two epochs of different
    order, if most of the samples are in both.
    """

    samples: int
    replayed: bool
    seed: Seeding | None
    correlation: float | None = None
    awaits_epoch: bool = False


def find_stream_order(build: Callable[..., Loader], folder: Path, *, announce: bool = True) -> StreamOrder:
    """Read several epochs of a stream, each under another global seed, and one with constant seeds changed.

    If the loader has workers, this disposable process emulates the only one of each epoch. Unless epochs are
    `announce`d, `set_epoch` is called once, before another epoch at the end.
    """
    loader, recorder = build(), FlightRecorder(folder)
    watch = SeedWatch()
    epochs, seeds = [], []
    late = [] if announce else [(EPOCHS, 0)]
    for epoch, skipped in [*((number, 0) for number in range(EPOCHS)), (EPOCHS - 1, BURN), *late]:
        if announce or epoch == EPOCHS:
            announce_epoch(loader, epoch)
        torch.manual_seed(SEED + epoch)
        if loader.num_workers:
            emulate_worker(loader, recorder, 1)
        with gate("sample"), seeded(SEED + epoch), watch.watching(skipped) as given:
            epochs.append([leaves_of(sample) for sample in islice(iter(loader.dataset), MOST)])
        seeds.append([seeding for _, seeding in given])
    constant = [seed for seed in seeds[0] if all(seed in given for given in seeds[:EPOCHS])]
    replayed, awaits = [], []
    correlations: list[float] = []
    for path in dict.fromkeys(leaf.path for sample in epochs[0] for leaf in sample):
        orders = [[leaf.digest for sample in epoch for leaf in sample if leaf.path == path] for epoch in epochs]
        first, *others, changed = orders[: EPOCHS + 1]
        if len(set(first)) == len(first) and all(order == first for order in others):
            replayed.append(_is_shuffled(first, changed))
            awaits.append(not announce and _is_shuffled(first, orders[-1]))
        elif len(set(first)) == len(first):
            correlations += _correlation(first, others[0])
    # A seed near which the code names an epoch may be another one where training sets that.
    certain = constant if not (announce and any(seed.epochs for seed in constant)) else []
    seed = certain[0] if certain and any(replayed) else None
    return StreamOrder(len(epochs[0]), bool(replayed), seed, max(correlations, default=None), any(awaits))


def _correlation(one: Sequence[bytes], other: Sequence[bytes]) -> list[float]:
    """The correlation of the places of samples in two orders; none if too few samples are in both."""
    places = {identity: place for place, identity in enumerate(one)}
    pairs = [(places[identity], place) for place, identity in enumerate(other) if identity in places]
    if len(pairs) < max(COMMON * len(one), FEWEST):
        return []
    return [float(np.corrcoef(np.array(pairs).T)[0, 1])]


def _is_shuffled(one: Sequence[bytes], other: Sequence[bytes]) -> bool:
    """Whether two orders of the same samples differ by more than how a few sources are interleaved."""
    places = {identity: place for place, identity in enumerate(one)}
    common = [places[identity] for identity in other if identity in places]
    return len(common) >= COMMON * len(one) and _longest_descent(common) > max(
        MOST_SOURCES, DESCENT * len(common) ** 0.5
    )


def _longest_descent(places: Sequence[int]) -> int:
    """The length of the longest falling subsequence: no fewer rising ones hold all of the sequence."""
    ends: list[int] = []
    for place in places:
        at = bisect_left(ends, -place)
        ends[at : at + 1] = [-place]
    return len(ends)
