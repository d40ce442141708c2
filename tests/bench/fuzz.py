"""Try what users write on many cases: `python -m tests.bench.fuzz [CASES]`, 10,000 unless asked otherwise."""

from __future__ import annotations

import sys
import time

from tests.hostile.fuzz import PROPERTIES
from tests.hostile.test_fuzz import hold


def main(cases: int = 10_000) -> None:
    """Print the cases of each property; the first that fails is raised."""
    share = -(-cases // len(PROPERTIES))
    for prove in PROPERTIES:
        started = time.monotonic()
        hold(prove, share)
        print(f"{prove.__name__}: {share} cases, {time.monotonic() - started:.0f} s", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
