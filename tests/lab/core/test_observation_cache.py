"""Observations that were made are read again for figures, and no others are made for them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch

from dataguard.core.model import Undecided
from dataguard.lab.core.observation_cache import ObservationCache, recalling
from dataguard.lab.process.side_by_side import counted
from dataguard.settings.settings import Settings

LONG = 1e6
"""Seconds that no budget affords."""


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)  # as in the host: a fork hangs otherwise


@pytest.mark.scan
def test_what_was_made_is_recalled_and_nothing_else_is_made(tmp_path: Path) -> None:
    cache = ObservationCache(Settings(), tmp_path)
    assert cache.observe("made", lambda _: 1) == 1
    with recalling():
        assert cache.observe("made", lambda _: 2) == 1
        cache.afford("other", LONG)
        with pytest.raises(Undecided, match="was not observed"):
            cache.observe("other", lambda _: 3)
        with recalling(only=False):
            assert cache.observe("third", lambda _: 4) == 4
    assert cache.observe("other", lambda _: 3) == 3
    with pytest.raises(Undecided, match="ran out before this check"):
        cache.afford("other", LONG)
    cache.afford("short", 0.5)
    with pytest.raises(Undecided, match=f"--budget {(round(1.1 * (60 + LONG + 100)) + 9) // 10 * 10}"):
        cache.afford("one more", 100)  # the budget would be enough for both


@pytest.mark.scan
def test_a_cache_beside_another_has_its_own_budget_and_observations(tmp_path: Path) -> None:
    cache = ObservationCache(Settings(budget=10), tmp_path)
    beside = cache.beside(5)
    assert beside.observe("made", lambda _: 1) == 1
    assert cache.observe("made", lambda _: 2) == 2
    assert cache.left > beside.left
    assert cache.left == pytest.approx(10, abs=5)


def test_loaders_use_what_others_left_of_their_budgets(tmp_path: Path) -> None:
    first = ObservationCache(Settings(budget=10), tmp_path)
    second = first.beside(20)
    first.afford("reads", 9)
    with pytest.raises(Undecided, match="ran out before this check"):
        first.afford("more", 25)
    assert [cache.ran_out for cache in (first, second)] == [True, False]
    assert first.share([second]).left == pytest.approx(30)
    assert [cache.ran_out for cache in (first, second)] == [False, False]
    first.afford("more", 25)
    for cache in (first, second):
        with pytest.raises(Undecided, match="ran out before this check"):
            cache.afford("too much", 31)


def endless(*_: object) -> None:
    while True:
        sum(range(1000))


@pytest.mark.scan
def test_the_budget_ends_reading_what_was_observed(tmp_path: Path) -> None:
    cache = ObservationCache(Settings(budget=0.5), tmp_path)
    with counted(), pytest.raises(Undecided, match="too short to read what was observed: use --budget 1"):
        cache.observe("long", lambda _: 1, endless)
    assert cache.observe("next", lambda _: signal.getsignal(signal.SIGVTALRM)) is signal.SIG_DFL
    with pytest.raises(Undecided, match="too short to read"):
        cache.observe("long", lambda _: 2)


def test_the_timer_of_the_users_code_is_left_alone() -> None:
    signal.signal(signal.SIGVTALRM, signal.SIG_IGN)
    try:
        with counted():
            assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
        assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
