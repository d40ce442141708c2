"""Readings of memory and files inside a worker."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest

from dataguard.lab.core.instrument import Fetch, Process
from dataguard.lab.core.records import Reading
from dataguard.lab.machine.resource_observations import UsagePlan
from dataguard.lab.process.incidents import read_spools
from dataguard.lab.spy.usage_readings import READING_INTERVAL, UsageReadings, memory_in_use, memory_taken
from dataguard.stats.trend import trend

MB = 1 << 20


def seconds_of_reading() -> float:
    """How long a reading takes, which depends on how much memory this process uses."""
    before = time.thread_time()
    memory_taken(), memory_in_use()
    return time.thread_time() - before


def readings(folder: Path, asked: UsageReadings, fetches: int, pause_after: int) -> list[Reading]:
    hooks = asked.start(Process(folder, None))
    for number in range(fetches):
        with hooks.around_fetch(Fetch(0, number, {}, [2 * number, 2 * number + 1])):
            pass
        time.sleep(0.2 + 3 * READING_INTERVAL * seconds_of_reading() if number == pause_after else 0)
    return [record for record in read_spools(folder) if isinstance(record, Reading)]


def test_readings_are_made_when_they_are_due_and_wished_ones_seldom(tmp_path: Path) -> None:
    found = readings(tmp_path, UsageReadings(needed=(7, 20), wished=tuple(range(2000))), 1000, pause_after=5)
    assert (found[0].samples, found[0].pages, found[0].spent) == (0, None, 0)
    assert {8, 14, 20} <= {one.samples for one in found}
    pairs = [(one, after) for one, after in pairwise(found) if after.samples not in (8, 20)]
    assert all(after.at - one.at >= 100 * (after.spent - one.spent) for one, after in pairs)


def test_pages_are_counted_where_that_is_asked_for(tmp_path: Path) -> None:
    first, *found = readings(tmp_path, UsageReadings(needed=(4, 10), pages=True), 8, pause_after=8)
    assert first.pages is None
    assert [one.samples for one in found] == [4, 10]
    assert all(one.pages is not None for one in found)


def test_nothing_is_read_without_a_moment(tmp_path: Path) -> None:
    assert readings(tmp_path, UsageReadings(), 5, pause_after=5) == []


@pytest.mark.parametrize("size", [1, 4, 7])
def test_readings_of_a_partial_stream_suffice_for_a_trend(size: int) -> None:
    needed = UsagePlan(1, 1500, 1500, size, own=True, reduced=False).readings(1500, stream=True).needed
    for end in range(7 * size, 1500, size):
        allocated = [0] + [-(-moment // size) * size for moment in needed if moment <= end]
        assert trend([(x, x) for x in allocated], 0) is not None, end


def test_memory_is_measured() -> None:
    held = memory_taken()
    grown = bytearray(b"x" * (64 * MB))
    assert memory_taken() - held == pytest.approx(len(grown), rel=0.1)
