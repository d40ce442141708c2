"""Plant a step that differs from run to run in many pipelines: is it named? `python -m tests.bench.stages [COUNT]`."""

from __future__ import annotations

import os
import sys
import time

from dataguard.core.model import Result
from dataguard.engine import scan
from dataguard.settings.settings import Settings
from tests.loaders.reproducible import names

AT_ONCE = 6
"""Loaders in one target: each run builds them all."""


def is_named(result: Result) -> bool:
    """Whether the finding names the planted step, and the function that it calls; `id` and the pid have none."""
    kind, place, _, _, source, _ = result.loader.split("-")
    step = "first" if kind == "nested" and place == "1" else f"steps[{int(place) - 1 - (kind == 'nested')}]"
    words = " ".join(finding.message for finding in result.findings)
    return f"{step} (Planted)" in words and ("because of" in words) == (source not in ("id", "pid"))


def main(count: int = 33) -> int:
    """Print the pipelines whose step is not named, then the counts; returns how many there are."""
    started, planted, missed = time.monotonic(), list(names(count)), 0
    for first in range(0, count, AT_ONCE):
        os.environ["PLANTED"] = " ".join(planted[first : first + AT_ONCE])
        for result in scan("tests.loaders.reproducible:planted", Settings(select=("DG701",))).results:
            if result.code == "DG701" and not is_named(result):
                missed += 1
                print(result.loader, result.status, result.reason, [one.message for one in result.findings])  # noqa: T201
    print(f"{count - missed} of {count} planted steps named, {time.monotonic() - started:.0f} s")  # noqa: T201
    return missed


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
