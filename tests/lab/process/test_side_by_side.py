"""Jobs side by side in one thread, and the observations that run in them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dataguard.checks import CATALOGUE
from dataguard.core.incident import LoaderRaised
from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.lab.core.observation_cache import ObservationCache
from dataguard.lab.process.side_by_side import (
    MOST_BEGUN,
    ConcurrencySlots,
    pause,
    seconds_waited,
    side_by_side,
    wait_until,
)
from dataguard.process.session import Session
from dataguard.settings.settings import Settings


def test_each_job_runs_while_the_others_pause() -> None:
    seen: list[tuple[str, int]] = []

    def work(name: str) -> str:
        for step in range(3):
            seen.append((name, step))
            pause(0.01)
        return name

    assert sorted(side_by_side([partial(work, "a"), partial(work, "b")])) == [(0, "a"), (1, "b")]
    assert seen == [(name, step) for step in range(3) for name in "ab"]


def test_a_job_waits_for_what_another_brings_about() -> None:
    done: list[str] = []

    def wait() -> float:
        wait_until(lambda: "made" in done)
        done.append("used")
        return seconds_waited()

    def make() -> float:
        pause(0.01)
        done.append("made")

        return seconds_waited()

    results = dict(side_by_side([wait, make]))
    assert list(results) == [1, 0]
    assert results[0] >= 0.01 > results[1]
    assert done == ["made", "used"]


def test_outside_a_job_a_pause_sleeps_and_nothing_is_waited_for() -> None:
    started = time.monotonic()
    pause(0.02)
    wait_until(lambda: False)
    assert time.monotonic() - started >= 0.02


def test_what_must_be_alone_is_alone_and_the_rest_shares_the_turns() -> None:
    turns, at_once, most = ConcurrencySlots(2), 0, {True: 0, False: 0}

    def work(exclusive: bool) -> bool:
        nonlocal at_once
        with turns.taken(exclusive=exclusive) as turn:
            at_once += 1
            most[exclusive] = max(most[exclusive], at_once)
            pause(0.01)
            at_once -= 1
        return turn.accompanied

    accompanied = dict(side_by_side([partial(work, exclusive) for exclusive in (True, False, False, False, True)]))
    assert most == {True: 1, False: 2}
    assert (accompanied[0], accompanied[1], accompanied[4]) == (False, True, False)


@pytest.mark.scan
class TestObservations:
    def run(self, folder: Path, *observations: Callable[[Path], object], most: int = 2) -> ObservationCache:
        cache = ObservationCache(Settings(), folder, ConcurrencySlots(most))
        jobs = [partial(cache.observe, number, one) for number, one in enumerate(observations)]
        for number, result in side_by_side(jobs):
            assert result == number
        return cache

    def test_the_budget_runs_down_once_for_those_that_run_at_the_same_time(self, tmp_path: Path) -> None:
        def sleep(number: int, _: Path) -> int:
            time.sleep(1)
            return number

        started = time.monotonic()
        cache = self.run(tmp_path, partial(sleep, 0), partial(sleep, 1))
        assert time.monotonic() - started < 1.9  # one after the other, they take 2 s
        assert 1 <= Settings().budget - cache.left < 1.9

    def test_one_that_two_jobs_request_is_made_once(self, tmp_path: Path) -> None:
        made = tmp_path / "made"

        def make(_: Path) -> int:
            with made.open("a") as file:
                file.write("made\n")
            time.sleep(0.05)
            return 7

        cache = ObservationCache(Settings(), tmp_path, ConcurrencySlots(2))
        assert dict(side_by_side([lambda: cache.observe("one", make)] * 2)) == {0: 7, 1: 7}
        assert made.read_text() == "made\n"

    def test_one_that_fails_beside_another_is_repeated_alone(self, tmp_path: Path) -> None:
        lock = tmp_path / "lock"

        def hold(number: int, _: Path) -> int:
            descriptor = os.open(lock, os.O_CREAT | os.O_EXCL)
            time.sleep(0.1)
            os.close(descriptor)
            lock.unlink()
            return number

        self.run(tmp_path, partial(hold, 0), partial(hold, 1))

    def test_one_that_fails_alone_fails(self, tmp_path: Path) -> None:
        def fail(_: Path) -> int:
            raise ValueError("broken")

        with pytest.raises(LoaderRaised, match="broken"):
            self.run(tmp_path, fail)

    def test_the_end_of_one_leaves_the_processes_of_another_alone(self, tmp_path: Path) -> None:
        def short(_: Path) -> int:
            return 0

        def long(_: Path) -> int:
            if (child := os.fork()) == 0:
                time.sleep(0.2)
                os._exit(3)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) - 2

        self.run(tmp_path, short, long)


@pytest.mark.scan
def test_results_come_in_the_order_of_checks_and_loaders() -> None:
    report = scan("tests.loaders.standing:make_two", Settings(select=("DG0", "DG301", "DG303", "DG501")))
    order = list(dict.fromkeys((result.loader, result.code) for result in report.results))
    loaders = list(dict.fromkeys(loader for loader, _ in order))
    assert order == [(loader, code) for loader in loaders for code in sorted({code for _, code in order})]
    assert not report.count(Status.BROKEN)


@pytest.mark.scan
def test_planned_checks_may_be_asked_for_in_any_order() -> None:
    wanted = [check for check in CATALOGUE if check.code in ("DG001", "DG303", "DG501")]
    with Session("tests.loaders.standing:make_plain", Settings()) as session:
        session.plan([(check, "make_plain") for check in wanted])
        results = [session.judge(check, "make_plain") for check in reversed(wanted)]
        again = session.judge(wanted[0], "make_plain")
    assert [result.code for result in results] == ["DG501", "DG303", "DG001"]
    assert {result.status for result in (*results, again)} == {Status.PASSED}


def test_only_some_of_many_jobs_have_begun_at_a_time() -> None:
    begun: set[int] = set()
    most = 0

    def work(number: int) -> int:
        nonlocal most
        begun.add(number)
        most = max(most, len(begun))
        pause(0.001)
        begun.remove(number)
        return number

    count = 10 * MOST_BEGUN
    results = [result for _, result in side_by_side([partial(work, number) for number in range(count)])]
    assert sorted(results) == list(range(count))
    assert 1 < most <= MOST_BEGUN
