"""Samples of ranks that are recognised by content, where each rank has a dataset of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.ranks.rank_processes import run_ranks
from dataguard.lab.ranks.shares import SINGLE, Shards, Share, content_of
from dataguard.lab.reading.recorded_order import draw_epoch, recorder
from dataguard.lab.rng.frozen_rng import RngFreezer
from dataguard.lab.rng.global_rng import SEED
from dataguard.targets.variants import Loader

Contents = Sequence[Sequence[tuple[bytes, ...]]]
"""The digests of each sample of an epoch, by batch."""


def run_contents(build: Callable[..., Loader], facts: LoaderFacts) -> Contents:
    """Draw one epoch and read its samples, with seeded generators; return the digests of each, by batch."""
    recorded, schedule = recorder(facts.length)
    loader = build(num_workers=0, schedule=schedule)
    draw_epoch(loader, recorded, 0)
    freezer = RngFreezer([[SEED]])
    return tuple(
        tuple(content_of(loader.dataset, index, freezer) for index in batch)
        for order in recorded
        for batch in order.batches
    )


def by_content(found: Shards, alone: Contents, ranks: Sequence[Contents]) -> Shards:
    """The shares with samples recognised by their content, which has to be that of one sample of a single process."""
    known = {content: number for number, content in enumerate(chain.from_iterable(alone))}
    if len(known) < sum(map(len, alone)) or not all(known.keys() >= set(chain.from_iterable(rank)) for rank in ranks):
        return found

    def named(share: Share, contents: Contents) -> Share:
        workers = len(share.by_worker)
        dealt = (chain.from_iterable(contents[worker::workers]) for worker in range(workers))
        return replace(share, by_worker=tuple(tuple(known[content] for content in worker) for worker in dealt))

    shares = tuple(map(named, found.ranks, ranks))
    return Shards(shares, named(found.alone, alone), same_dataset=True, of=SINGLE)


def run_contents_on_ranks(build: Callable[..., Loader], folder: Path, world: int, facts: LoaderFacts) -> list[Contents]:
    """Read the samples of one epoch on every rank."""
    return run_ranks(world, folder, lambda rank: run_contents(partial(build, rank.arguments), facts))
