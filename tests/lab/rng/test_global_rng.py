"""The global random generators of Python, numpy and torch."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

from dataguard.lab.rng.rng_discovery import SEED, seeded

COINS: list[Callable[[], object]] = [
    lambda: np.random.randint(2),
    lambda: np.random.rand() < 0.5,
    lambda: np.random.choice([0, 1]),
    lambda: random.randint(0, 1),
    lambda: random.random() < 0.5,
    lambda: random.getrandbits(1),
    lambda: torch.rand(1) < 0.5,
    lambda: torch.randint(0, 2, (1,)),
]


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("toss", COINS)
def test_coins_fall_on_both_sides_in_a_few_states(toss: Callable[[], object], place: int) -> None:
    sides = set()
    for draw in range(3):
        with seeded(SEED + draw):
            sides.add([bool(toss()) for _ in range(3)][place])
    assert len(sides) == 2
