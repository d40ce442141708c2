"""What the seeding functions cover, and what they do not: as their docstrings say."""

from __future__ import annotations

import random
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

import dataguard
from dataguard.training import make_generator, seed_everything, seed_worker
from tests.support.training_loops import Items


def from_cv2() -> float:
    return float(cv2.randu(np.empty((1, 1), np.float32), 0.0, 1.0)[0, 0])


def drawn() -> tuple[float, ...]:
    return random.random(), float(np.random.rand()), float(torch.rand(())), from_cv2()


def sample(index: int) -> Tensor:
    return torch.tensor([index, *drawn()], dtype=torch.float64)


def epochs(workers: int, **options: Any) -> list[list[list[float]]]:
    """The samples of two epochs, seeded as the recipe says."""
    seed_everything(3)
    loader: DataLoader[Tensor] = DataLoader(
        Items(sample, 16),
        batch_size=4,
        shuffle=True,
        num_workers=workers,
        worker_init_fn=seed_worker,
        generator=make_generator(3),
        **options,
    )
    return [torch.cat(list(loader)).tolist() for _ in range(2)]


def orders(found: list[list[list[float]]]) -> list[list[float]]:
    return [[row[0] for row in epoch] for epoch in found]


def test_seed_everything_covers_the_global_generators() -> None:
    seed_everything(5)
    first = drawn()
    seed_everything(5)
    assert drawn() == first
    seed_everything(6)
    assert not set(first) & set(drawn())


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_numpy_does_not_take_is_refused(seed: int) -> None:
    with pytest.raises(ValueError, match="between 0 and 4294967295"):
        seed_everything(seed)


def test_the_largest_seed_is_taken() -> None:
    seed_everything(2**32 - 1)
    assert torch.initial_seed() == 2**32 - 1
    assert np.random.rand() == np.random.RandomState(2**32 - 1).rand()


def test_the_names_are_in_the_package() -> None:
    assert dataguard.training.seed_worker is seed_worker


@pytest.mark.scan
def test_the_recipe_repeats_a_run_and_no_epoch() -> None:
    one, two = epochs(2)
    assert [one, two] == epochs(2)
    values = [value for epoch in (one, two) for row in epoch for value in row[1:]]
    assert len(set(values)) == len(values)


@pytest.mark.scan
def test_the_order_follows_from_the_generator_alone() -> None:
    found = [orders(epochs(workers)) for workers in (0, 1, 2)]
    assert found[0] == found[1] == found[2]


@pytest.mark.scan
def test_persistent_workers_change_later_epochs() -> None:
    fresh, kept = epochs(2), epochs(2, persistent_workers=True)
    assert fresh[0] == kept[0]
    assert fresh[1] != kept[1]


@pytest.mark.scan
def test_workers_share_the_draws_of_cv2_without_seed_worker() -> None:
    def values(init: Any) -> list[float]:
        loader: DataLoader[float] = DataLoader(Items(lambda _: from_cv2(), 2), num_workers=2, worker_init_fn=init)
        return [float(batch[0]) for batch in loader]

    first, second = values(None)
    assert first == second
    first, second = values(seed_worker)
    assert first != second
