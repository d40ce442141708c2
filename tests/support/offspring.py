"""Processes below this one that a test has started and that should be gone."""

from __future__ import annotations

import time
from collections.abc import Collection

import psutil

from dataguard.process.process_tree import descendants

_PATIENCE = 5.0
"""Seconds: a process that has closed its pipes, by which it is known to have ended, has a few steps of exit to go."""


def left_over(before: Collection[psutil.Process]) -> list[psutil.Process]:
    """Those that run and did not before, as soon as there are none, or after a while."""
    deadline = time.monotonic() + _PATIENCE
    while (new := [one for one in descendants() if one not in before]) and time.monotonic() < deadline:
        time.sleep(0.01)
    return new
