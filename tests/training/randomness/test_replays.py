"""DG101 and DG102 live: real workers that draw the same numbers, and loaders that look as if they did."""

from __future__ import annotations

import functools
import gc
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Sampler, get_worker_info

from dataguard.training.guard import guard, watch_of
from dataguard.training.randomness.replays import found_at, is_simple
from tests.support.training_loops import Items, codes, train

pytestmark = pytest.mark.scan
Init = Callable[[int], Any] | None


def noisy(index: int) -> torch.Tensor:
    return torch.tensor([index, np.random.rand(), random.random()]) + torch.rand(3)


class Held(Items):
    """Draws from a generator of its own."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, self.rng.random()])  # type: ignore[attr-defined]


class Lazy(Items):
    """Makes its generator in the worker."""

    rng: np.random.Generator | None = None

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.rng is None:
            self.rng = np.random.default_rng(torch.initial_seed())
        return torch.tensor([index, self.rng.random()])


class Pipeline:
    """A transform of a transform, with a generator."""

    def __init__(self) -> None:
        self.steps = [None, {"crop": random.Random(3)}]

    def __call__(self, index: int) -> torch.Tensor:
        step: Any = self.steps[1]
        return torch.tensor([index, step["crop"].random()])


def constant(_: int) -> None:
    np.random.seed(0)


def by_id(worker: int) -> None:
    random.seed(worker)


def torch_by_id(worker: int) -> None:
    torch.manual_seed(worker)


def loader(dataset: Any, init: Init = None, **options: Any) -> DataLoader:
    settings = {"batch_size": 4, "shuffle": True, "num_workers": 2, **options}
    return DataLoader(dataset, worker_init_fn=init, **settings)


@pytest.mark.parametrize(
    ("dataset", "init", "options", "expected"),
    [
        (Items(noisy), constant, {}, {"DG101", "DG102"}),
        (Items(noisy), by_id, {}, {"DG102"}),
        (Items(noisy), torch_by_id, {}, {"DG102"}),
        (Items(noisy), constant, {"persistent_workers": True}, {"DG101"}),
        (Held(noisy, rng=np.random.default_rng(1)), None, {}, {"DG101", "DG102"}),
        (Held(noisy, rng=random.Random(1)), None, {"persistent_workers": True}, {"DG101"}),
        (Items(Pipeline()), None, {}, {"DG101", "DG102"}),
    ],
    ids=["constant", "by id", "torch by id", "persistent", "held", "held persistent", "in a pipeline"],
)
def test_replayed_draws(dataset: Any, init: Init, options: dict[str, Any], expected: set[str]) -> None:
    assert codes(loader(dataset, init, **options), epochs=2) == expected


def test_spawned_workers_replay_draws_and_have_the_users_dataset() -> None:
    dataset = Held(noisy, rng=np.random.default_rng(1))
    spawned = loader(dataset, uses_own_dataset, multiprocessing_context="spawn", persistent_workers=True)
    assert codes(spawned, epochs=2) == {"DG101"}


def uses_own_dataset(_: int) -> None:
    info: Any = get_worker_info()
    assert type(info.dataset) is Held


def test_the_generator_is_named() -> None:
    train(guard(loader(Items(Pipeline())), on_violation="record"), epochs=2)
    first, second = guard.report().failed
    name = "dataset.make.steps[1]['crop']"
    assert first.findings[0].message == f"workers 0 and 1 draw the same random numbers from {name}"
    assert second.findings[0].message == f"worker 0 draws the same random numbers from {name} in epochs 0 and 1"


def reseeded(index: int) -> torch.Tensor:
    np.random.seed(index + os.getpid())
    return torch.tensor([index, np.random.rand()])


def with_unused_numpy(index: int) -> torch.Tensor:
    return index + torch.rand(3)


def drawn_in_vain(index: int) -> torch.Tensor:
    np.random.rand()
    return torch.full((3,), float(index))


def renewed(worker: int) -> None:
    info: Any = get_worker_info()
    info.dataset.rng = np.random.default_rng(torch.initial_seed())


def distinct(worker: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)


class Balanced(Sampler):
    """An order that is random, by a sampler of no known kind."""

    def __iter__(self) -> Iterator[int]:
        yield from random.sample(range(40), 40)

    def __len__(self) -> int:
        return 40


def test_any_order_but_that_of_the_dataset_is_judged() -> None:
    balanced = loader(Items(noisy), constant, shuffle=False, sampler=Balanced())
    assert codes(balanced, epochs=2) == {"DG101", "DG102"}


def numpy_noise(index: int) -> torch.Tensor:
    return torch.tensor([index, np.random.rand()])


def test_evaluation_in_a_fixed_order_with_fixed_seeds_is_the_same_in_every_epoch() -> None:
    by_length = loader(Items(numpy_noise), constant, shuffle=False, sampler=list(range(40))[::-1])
    assert codes(by_length, epochs=2) == set()


HEALTHY: dict[str, Callable[[], DataLoader]] = {
    "seeded by torch": lambda: loader(Items(noisy)),
    "seeded from the seed of torch": lambda: loader(Items(noisy), distinct),
    "seeded in each sample": lambda: loader(Items(reseeded), constant),
    "a constant seed of a generator that nobody draws from": lambda: loader(Items(with_unused_numpy), constant),
    "draws that change no sample": lambda: loader(Items(drawn_in_vain), constant),
    "no random numbers": lambda: loader(Items(float), constant),
    "made in the worker": lambda: loader(Lazy(float)),
    "made again in worker_init_fn": lambda: loader(Held(float, rng=np.random.default_rng(1)), renewed),
    "a sequential loader": lambda: loader(Items(noisy), constant, shuffle=False),
    "one persistent worker": lambda: loader(Items(noisy), by_id, num_workers=1, persistent_workers=True),
    "no worker": lambda: loader(Items(noisy), num_workers=0),
    "a partial": lambda: loader(Items(noisy), functools.partial(lambda seed, worker: distinct(worker), 3)),
}


@pytest.mark.parametrize("make", HEALTHY.values(), ids=HEALTHY)
def test_healthy_loaders_are_silent(make: Callable[[], DataLoader]) -> None:
    assert codes(make(), epochs=2) == set()


@torch.no_grad()
def test_evaluation_may_draw_the_same_numbers_in_every_epoch() -> None:
    assert codes(loader(Items(noisy), constant), epochs=2) == set()


def test_the_first_epoch_alone_decides_nothing() -> None:
    train(guard(loader(Items(noisy), constant), on_violation="record"))
    statuses = {result.code: result.status.value for result in guard.report().results}
    assert statuses["DG101"] == statuses["DG102"] == "inconclusive"


def test_records_are_removed_with_the_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    guarded = guard(loader(Items(noisy)), on_violation="record")
    train(guarded, epochs=4)
    (folder,) = tmp_path.glob("dataguard-guard-*")
    assert {path.name.split("-")[0] for path in folder.iterdir()} <= {"1", "3", "4"}
    assert watch_of(guarded).replays.follows
    guard.reset()
    del guarded
    gc.collect()
    assert list(tmp_path.glob("dataguard-guard-*")) == []


def test_paths_are_followed_without_running_user_code() -> None:
    roots = {"dataset": Items(Pipeline()), "collate_fn": None}
    path = "dataset.make.steps[1]['crop']"
    assert is_simple(path)
    assert isinstance(found_at(path, roots), random.Random)
    assert found_at("dataset.gone[3]", roots) is None
    assert not is_simple("dataset.<closure rng>")
