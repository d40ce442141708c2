"""States of generators: equal, later, or of another seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dataguard.training.randomness.replays import State, advanced, global_generators, state_of

MADE: dict[str, Callable[[int], Any]] = {
    "random.Random": random.Random,
    "RandomState": np.random.RandomState,
    "PCG64": np.random.default_rng,
    "PCG64DXSM": lambda seed: np.random.Generator(np.random.PCG64DXSM(seed)),
    "Philox": lambda seed: np.random.Generator(np.random.Philox(seed)),
    "MT19937": lambda seed: np.random.Generator(np.random.MT19937(seed)),
    "torch.Generator": lambda seed: torch.Generator().manual_seed(seed),
}


def state(generator: Any) -> State:
    found = state_of(generator)
    assert found is not None
    return found


def draw(generator: Any, count: int) -> None:
    if isinstance(generator, torch.Generator):
        torch.rand(count, generator=generator)
    elif isinstance(generator, random.Random):
        for _ in range(count):
            generator.random()
    else:
        generator.random(count)


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("count", [1, 311, 312, 700, 5000])
def test_draws_advance_a_state(kind: str, count: int) -> None:
    generator = MADE[kind](7)
    draw(generator, 3)
    before = state(generator)
    draw(generator, count)
    assert advanced(before, state(generator))


@pytest.mark.parametrize("kind", MADE)
def test_no_draw_and_another_seed_do_not(kind: str) -> None:
    before = state(MADE[kind](7))
    assert before == state(MADE[kind](7))
    assert not advanced(before, state(MADE[kind](7)))
    other = MADE[kind](8)
    draw(other, 5)
    assert not advanced(before, state(other))


def test_a_later_state_is_not_advanced_by_an_earlier_one() -> None:
    generator = random.Random(7)
    draw(generator, 1)
    before = state(generator)
    draw(generator, 2)
    after = state(generator)
    assert advanced(before, after)
    assert not advanced(after, before)


def test_unknown_generators_have_no_state() -> None:
    assert state_of(None) is None
    assert state_of(random.SystemRandom) is None
    assert state_of(np.random.Generator(np.random.SFC64(1))) is None


def test_the_global_generators_are_those_that_are_drawn_from() -> None:
    before = {name: state(generator) for name, generator in global_generators().items()}
    random.random()
    np.random.rand()
    torch.rand(1)
    assert all(advanced(before[name], state(generator)) for name, generator in global_generators().items())
