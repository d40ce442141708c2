"""Generators that share their state between workers or epochs, and one that is free while all others are frozen."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dataguard.lab.core.records import Census, GeneratorState, WorkerEpoch
from dataguard.lab.rng.frozen_rng import RngFreezer, UnfrozenRng
from dataguard.lab.rng.rng_discovery import generator_states, overlapping_generators

Moments = dict[int, str]
"""The state of a generator by the fetches made."""


def suspected(one: Moments, two: Moments, *, epochs: bool = False) -> list[bool]:
    """Whether each suspect shares only the state before the first fetch; it is seen in two workers, or two epochs."""
    pair = WorkerEpoch(0, 0), WorkerEpoch(0, 1) if epochs else WorkerEpoch(1, 0)
    censuses = [
        Census(worker, epoch, fetches, (GeneratorState("dataset.rng", "random.Random", state.encode(), None),), ())
        for (worker, epoch), moments in zip(pair, (one, two), strict=True)
        for fetches, state in moments.items()
    ]
    return [at_start for _, at_start in overlapping_generators(censuses, pair)]


def test_a_generator_in_equal_states_is_suspected() -> None:
    assert suspected({0: "a", 1: "b", 9: "c"}, {0: "a", 1: "b", 9: "c"}) == [False]


def test_so_is_one_that_is_used_at_other_times() -> None:
    assert suspected({0: "a", 1: "a", 9: "c"}, {0: "a", 1: "b", 9: "d"}) == [True]
    assert suspected({1: "b", 2: "b", 3: "c"}, {1: "c", 2: "d", 3: "d"}) == [False]


def test_one_that_never_advances_is_not() -> None:
    assert suspected({0: "a", 1: "a", 9: "a"}, {0: "a", 1: "a", 9: "a"}) == []


def test_nor_is_one_of_its_own_in_each_worker() -> None:
    assert suspected({1: "b", 9: "c"}, {1: "d", 9: "e"}) == []


def test_nor_is_one_that_continues_in_a_persistent_worker() -> None:
    assert suspected({0: "a", 1: "b", 9: "c"}, {0: "c", 1: "c", 9: "d"}, epochs=True) == []
    assert suspected({0: "a", 1: "a", 9: "a"}, {0: "a", 1: "b", 9: "c"}, epochs=True) == []


SHARED: dict[str, Callable[[], float]] = {
    "global random": random.random,
    "global numpy.random": np.random.random,
    "global torch": lambda: torch.rand(()).item(),
}


@pytest.mark.parametrize("path", SHARED)
def test_an_unfrozen_global_generator_continues(path: str) -> None:
    freezer = RngFreezer([(1,)], UnfrozenRng(path, (((0, 7),), ((0, 8),))))

    def drawn(epoch: int) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {name: [] for name in SHARED}
        for fetch in range(3):
            with freezer.frozen(epoch, fetch, {}):
                for name, draw in SHARED.items():
                    found[name].append(draw())
        return found

    states = {state.path: state.state for _, state in generator_states({})}
    one, again, other = drawn(0), drawn(0), drawn(1)
    assert one == again
    assert {name for name in SHARED if one[name] != other[name]} == {path}
    assert {name for name in SHARED if len(set(one[name])) > 1} == {path}
    after = {state.path: state.state for _, state in generator_states({})}
    assert {name for name in states if states[name] != after[name]} == {path}


@pytest.mark.parametrize("path", ["dataset['rng']", "stream[0]"])
def test_a_held_generator_that_is_free_is_so_by_whatever_path_it_is_found(path: str) -> None:
    rng = np.random.default_rng()
    shared = {"dataset": {"rng": rng}}
    roots: dict[str, Any] = {"stream": [rng], **shared} if path.startswith("stream") else shared
    freezer = RngFreezer([(1,)], UnfrozenRng(path, (((0, 7),),)))
    drawn = []
    for fetch in range(3):
        with freezer.frozen(0, fetch, roots):
            drawn.append(rng.random())
    assert len(set(drawn)) == 3
    assert drawn[0] == np.random.default_rng(7).random()
