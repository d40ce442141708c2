"""Which seeds are constants, and which belong to one sample."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dataguard.lab.core.records import Seeding, Seedings
from dataguard.lab.randomness.constant_seeds import EPOCHS, ITEMS, SKIPS, _constant, _indexed

SEED = Seeding("numpy.random.Generator", "7", "data.py", 12, "__getitem__")


def fetches(seeding_at: set[int]) -> list[Seedings]:
    """Two epochs of rounds over the items, in which the fetches at these places of a round seed."""
    return [
        Seedings(None, epoch, batch, (SEED,) if batch % ITEMS in seeding_at else ())
        for epoch in range(EPOCHS)
        for batch in range(ITEMS * len(SKIPS))
    ]


@pytest.mark.parametrize("item", range(ITEMS))
@pytest.mark.parametrize("size", [1, 4])
def test_one_sample_that_seeds_by_its_index_is_no_constant(item: int, size: int) -> None:
    assert _constant(fetches({(item - before) % ITEMS for before in range(size)}), size) == ()


@pytest.mark.parametrize("size", [1, 4])
def test_a_seed_of_every_fetch_is_a_constant(size: int) -> None:
    assert _constant(fetches(set(range(ITEMS))), size) == (SEED,)


def test_a_seed_that_several_samples_share_is_a_constant() -> None:
    assert _constant(fetches({0, 1, 3, 4}), 1) == (SEED,)


def indexed(seeds: list[str]) -> tuple[Seeding, ...]:
    """What is found where a line gives these seeds, one in a fetch, again and again."""
    every = [replace(SEED, seed=seed) for seed in seeds * (EPOCHS * len(SKIPS) * ITEMS // len(seeds))]
    rounds = ITEMS * len(SKIPS)
    return _indexed([Seedings(None, at // rounds, at % rounds, (seed,)) for at, seed in enumerate(every)])


def test_seeds_of_their_own_are_found() -> None:
    (found,) = indexed([str(item) for item in range(ITEMS)])
    assert found.place == SEED.place


@pytest.mark.parametrize(
    "seeds", [["7"], ["0", "1", "2"], [str(fetch) for fetch in range(ITEMS * len(SKIPS) * EPOCHS)]]
)
def test_seeds_that_items_share_or_that_change_are_none_of_their_own(seeds: list[str]) -> None:
    assert indexed(seeds) == ()
