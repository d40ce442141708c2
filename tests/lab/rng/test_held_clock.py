"""The clock of a worker that shows the second of its epoch until the first batch is read."""

from __future__ import annotations

import datetime
import time
from datetime import datetime as imported
from pathlib import Path

from dataguard.lab.core.instrument import Fetch, Hooks, Process
from dataguard.lab.rng.held_clock import SameSecond


def clocks(folder: Path, epoch: int) -> list[Hooks]:
    """The hooks of two workers that start in this epoch."""
    return [SameSecond().start(Process(folder, worker, epoch)) for worker in (0, 1)]


def seconds(hooks: Hooks) -> list[int]:
    """What each clock shows in whole seconds to lines that ask for the first time, as one of the minute."""
    with hooks.around_init():
        times = [time.time()]
        times.append(time.time_ns() / 1e9)
        times.append(imported.now().timestamp())
        times.append(datetime.datetime.now(datetime.timezone.utc).timestamp())
        times.append(imported.today().timestamp())
    with hooks.around_fetch(Fetch(0, 0, {}, [])):
        times.append(time.time())
    return [int(shown) % 60 for shown in times]


def test_every_clock_shows_the_second_of_the_epoch(tmp_path: Path) -> None:
    before = time.time, time.time_ns, imported
    assert [seconds(hooks) for hooks in clocks(tmp_path, 3)] == [[3] * 6] * 2
    assert (time.time, time.time_ns, imported) == before


def test_a_loop_that_waits_for_a_time_goes_on(tmp_path: Path) -> None:
    hooks = clocks(tmp_path, 0)[0]
    with hooks.around_init():
        until = time.monotonic() + 0.02
        shown = [time.time() for _ in range(3) if time.monotonic() < until]
        assert isinstance(imported(2024, 2, 29), imported)
    with hooks.around_fetch(Fetch(0, 0, {}, [])):
        pass
    assert shown[0] % 60 < 1
    assert abs(shown[-1] - time.time()) < 5


def test_the_main_process_keeps_its_clock(tmp_path: Path) -> None:
    hooks = SameSecond().start(Process(tmp_path, None, 0))
    with hooks.around_init():
        assert abs(time.time() - time.time_ns() / 1e9) < 1
