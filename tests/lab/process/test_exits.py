"""How forks exit: with what they registered themselves, once, and within a deadline."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataguard.lab.process import isolation
from dataguard.lab.process.isolation import in_fork, isolated

pytestmark = [pytest.mark.scan, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")]


def run(function: Callable[[], Any], folder: Path) -> Any:
    folder.mkdir(exist_ok=True)
    return isolated(function, folder, timeout=20, allowed=60)


class Thing:
    """What a finalizer can refer to weakly."""


def test_a_fork_runs_what_it_registered_and_nothing_that_it_inherited(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    ended.touch()

    def note(who: str) -> None:
        with ended.open("a") as file:
            file.write(f"{who}\n")

    held = [Thing()]
    inherited = weakref.finalize(held[0], note, "inherited")
    atexit.register(note, "inherited")

    def work() -> str:
        assert inherited.alive
        held.clear()
        atexit.register(note, "own handler")
        weakref.finalize(run, note, "own finalizer")
        return "answer"

    try:
        assert run(work, tmp_path / "isolated") == "answer"
        assert in_fork(work) == "answer"
    finally:
        atexit.unregister(note)
        inherited.detach()
    assert sorted(ended.read_text().splitlines()) == ["own finalizer"] * 2 + ["own handler"] * 2


def test_an_exit_that_takes_too_long_is_cut_short_and_the_answer_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "GRACE", 0.2)

    def work() -> str:
        atexit.register(time.sleep, 60)
        return "answer"

    started = time.monotonic()
    assert run(work, tmp_path) == "answer"
    assert time.monotonic() - started < 20
