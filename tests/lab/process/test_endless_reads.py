"""Reads that never end: what ends them, and what is no such read."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from dataguard.core.model import Undecided
from dataguard.lab.process import endless_reads
from dataguard.lab.process.endless_reads import (
    FEWEST_CALLS,
    MOST_CALLS,
    TIMES_USUAL,
    EndlessRead,
    decoder_called,
    one_read,
)
from dataguard.lab.process.isolation import isolated


def calls(count: int) -> None:
    for _ in range(count):
        decoder_called()


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endless_reads, "CPU_SECONDS", 0.0)
    monkeypatch.setattr(endless_reads, "_reads", type(endless_reads._reads)())


@pytest.mark.usefixtures("_at_once")
def test_a_read_ends_after_many_times_the_calls_of_others() -> None:
    for count in (1, 3):
        with one_read():
            calls(count)
    with one_read():
        calls(FEWEST_CALLS - 1)
    with pytest.raises(EndlessRead), one_read():
        calls(TIMES_USUAL * FEWEST_CALLS)


@pytest.mark.usefixtures("_at_once")
def test_long_videos_and_calls_outside_a_read_are_not_ended() -> None:
    calls(2 * MOST_CALLS)
    for _ in range(2):
        with one_read():
            calls(MOST_CALLS - 1)


@pytest.mark.scan
@pytest.mark.usefixtures("_at_once")
def test_code_that_catches_everything_is_ended_too(tmp_path: Path) -> None:
    def read() -> None:
        with one_read():
            calls(1)
        with one_read():
            while True:
                with contextlib.suppress(BaseException):
                    decoder_called()

    with pytest.raises(Undecided, match="tries again forever"):
        isolated(read, tmp_path, timeout=30, allowed=60)
