"""Benches built by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dataguard.measured import Bench, LoaderTimes, Setting, Timed

OWN = Setting(2, 2, persistent=False, pin=False)
FOUR = replace(OWN, workers=4)
NONE = Setting(0, None, persistent=False, pin=False)


def bench(*workers: Timed, batches: int | None = 100, **more: Any) -> Bench:
    loader = LoaderTimes("train", 8, batches, OWN, workers, **more)
    return Bench("pkg:make", {"name": "here", "cores": 2}, {"python": "3.11"}, (loader,), 12.0)


def timed(setting: Setting, *seconds: float) -> Timed:
    return Timed(setting, seconds, tuple(0.1 for _ in seconds))
