"""Budgets of loaders that are observed at the same time."""

from __future__ import annotations

import pytest

from dataguard.lab.process.side_by_side import Budget, SharedTime
from dataguard.process import originals


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(originals.time, "monotonic", lambda: now[0])
    return now


def test_a_budget_runs_down_while_it_is_used(clock: list[float]) -> None:
    budget = Budget(60, SharedTime())
    clock[0] += 5
    assert budget.left == 60
    with budget:
        clock[0] += 5
        with budget:  # two observations of one loader take the time of one
            clock[0] += 5
        assert budget.left == 50
        budget.spend(3)
        assert budget.left == 50
    budget.spend(3)
    assert budget.left == 47


def test_two_budgets_share_the_time(clock: list[float]) -> None:
    time = SharedTime()
    one, other = Budget(60, time), Budget(60, time)
    with one:
        clock[0] += 10
        with other:
            clock[0] += 10
            assert (one.left, other.left) == (45, 55)
            assert (one.until_spent, other.until_spent) == (90, 110)
        clock[0] += 10
        assert one.until_spent == 35
    assert (one.left, other.left) == (35, 55)
