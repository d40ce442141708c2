"""Samples that take long: the urgent checks are decided with few reads, and the rest says which budget it needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dataguard.checks import CATALOGUE
from dataguard.core.model import Result, Status
from dataguard.engine import scan
from dataguard.lab.reading.epoch_trace import read_epoch, run_epoch
from dataguard.lab.spy.drive import _Pace
from dataguard.observer.judge import URGENT, _rank
from dataguard.settings.settings import Settings
from dataguard.targets.loading import load
from tests.loaders.slow import IMPORTING, LENGTH, Lazy

BUDGET = 14
"""Seconds: as many reads as a sample of a fifth of a second allows within the default budget."""


def judged(target: str, *select: str, budget: float = BUDGET) -> dict[str, Result]:
    settings = Settings(budget=budget, select=select)
    return {result.code: result for result in scan(f"tests.loaders.slow:{target}", settings).results}


@pytest.mark.scan
def test_a_glance_settles_a_healthy_loader() -> None:
    found = judged("right", "DG101", "DG102", "DG307")
    assert {code: one.status for code, one in found.items() if one.status is not Status.PASSED} == {}
    assert found["DG101"].exercised == {"draws": 4, "items": 3, "workers": 2}
    assert found["DG307"].exercised == {"samples": 2, "reads": 8}


@pytest.mark.scan
@pytest.mark.parametrize(("target", "codes"), [("held", {"DG101", "DG102"}), ("in_place", {"DG307"})])
def test_plain_bugs_are_found_with_few_draws(target: str, codes: set[str]) -> None:
    found = judged(target, "DG101", "DG102", "DG307")
    assert {code for code, one in found.items() if one.status is Status.FAILED} == codes


@pytest.mark.scan
def test_what_is_undecided_names_a_budget_that_decides_it() -> None:
    codes = ("DG103", "DG303", "DG512")
    short = judged("right", *codes, budget=1)
    undecided = {code: one.reason or "" for code, one in short.items() if one.status is Status.INCONCLUSIVE}
    assert undecided
    named = [int(match[1]) for reason in undecided.values() if (match := re.search(r"use --budget (\d+)", reason))]
    assert len(named) == len(undecided)
    enough = judged("right", *undecided, budget=max(named))
    assert {code for code, one in enough.items() if one.status is Status.INCONCLUSIVE} == set()


def test_what_ruins_a_training_is_judged_first() -> None:
    checks = sorted(CATALOGUE, key=_rank)
    codes = [check.code for check in checks]
    assert codes[: len(URGENT)] == list(URGENT)
    rest = checks[len(URGENT) :]
    assert [check.severity.rank for check in rest] == sorted(check.severity.rank for check in rest)


@pytest.mark.parametrize(
    ("workers", "forked", "arrivals", "late"),
    [
        (4, True, [7.0, 7.1, 7.2, 7.3], True),  # the next four would come after 14 seconds
        (4, True, [7.0, 7.1, 7.2], False),  # but each worker makes one
        (2, True, [1.0, 1.1], False),
        (2, True, [3.0, 3.1, 6.0, 6.1], True),
        (2, False, [6.0, 6.1], False),  # spawned workers started for some seconds
        (0, True, [5.0], True),
        (0, True, [3.0], False),
    ],
)
def test_an_epoch_ends_before_a_batch_that_comes_too_late(
    workers: int, forked: bool, arrivals: list[float], late: bool
) -> None:
    pace = _Pace(8.0, workers, forked)
    allowed = [pace.allows(count, arrivals[0], elapsed) for count, elapsed in enumerate(arrivals, 1)]
    assert allowed == [*[True] * (len(arrivals) - 1), not late]
    assert pace.late is late


@pytest.mark.parametrize(
    ("workers", "arrivals", "starting", "late"),
    [
        (0, [5.0], 4.9, False),  # nearly all of it were imports
        (0, [5.0], 0.5, True),
        (4, [4.5, 4.5, 4.5, 4.5], 4.0, False),
        (2, [4.5, 4.5, 7.9, 7.9], 3.0, True),
        (2, [8.5, 8.5], 8.0, True),
    ],
)
def test_what_the_first_reads_took_is_not_expected_of_others(
    workers: int, arrivals: list[float], starting: float, late: bool
) -> None:
    pace = _Pace(8.0, workers, forked=True, starting=lambda: starting)
    allowed = [pace.allows(count, arrivals[0], elapsed) for count, elapsed in enumerate(arrivals, 1)]
    assert allowed == [*[True] * (len(arrivals) - 1), not late]


@pytest.mark.scan
@pytest.mark.parametrize("factory", ["lazy", "lazy_single", "lazy_workers"])
def test_a_slow_first_sample_ends_no_epoch_and_counts_for_no_estimate(
    factory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lazy, "ready", False)
    target = load(f"tests.loaders.slow:{factory}")
    ridden = run_epoch(lambda **asked: target.build("train", {}, **asked), tmp_path, LENGTH, None, 1.8 * IMPORTING)
    trace = read_epoch(tmp_path, ridden, None)
    assert (trace.whole, len(trace.samples)) == (True, LENGTH)
    assert trace.seconds_per_sample < IMPORTING / 4
