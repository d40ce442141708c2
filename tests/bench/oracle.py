"""Examine many generated loaders and count right and wrong verdicts: `python -m tests.bench.oracle [COUNT] [SEED]`.

One loader in 25 has workers that are spawned, and one in 25 such from a forkserver, which start slowly.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from dataguard.core.model import Status
from tests.loaders.generated import Description, uses_cv2
from tests.support.descriptions import drawn, grid
from tests.support.oracle import Case, examined, measured, nature, shrunk

BATCH = 25
"""Loaders in one target: each observation of one builds them all."""
SLOW = ("spawn", "forkserver")


def chosen(count: int, seed: int) -> Iterator[list[Description]]:
    """The loaders, batch by batch; those that use cv2 together, because a target imports it for all its loaders."""
    slow = dict.fromkeys(SLOW, count // 25)
    for method, number in {"fork": count - sum(slow.values()), **slow}.items():
        loaders = sorted(drawn(number, seed, (method,)), key=uses_cv2)
        yield from (loaders[start : start + BATCH] for start in range(0, number, BATCH))


def counted(cases: Sequence[Case], seconds: float) -> list[str]:
    """The table."""
    loaders = len({case.loader for case in cases})
    rows = [f"{loaders} loaders, {seconds:.0f} s\n", "| check | what is true | loaders | right | wrong | left open |"]
    rows.append("|---|---|---|---|---|---|")
    kinds = Counter((case.code, case.truth.kind) for case in cases)
    for (code, kind), number in sorted(kinds.items()):
        same = [case for case in cases if (case.code, case.truth.kind) == (code, kind)]
        unclear = sum(case.status is Status.INCONCLUSIVE for case in same)
        wrong = sum(not case.right for case in same)
        rows.append(f"| {code} | {kind} | {number} | {number - wrong - unclear} | {wrong} | {unclear} |")
    return rows


def main(count: int = 500, seed: int = 0) -> int:
    """Print each wrong verdict with the simplest loader that gets it, then the table; returns how many were wrong."""
    for loader in grid():
        if measured(loader) != nature(loader.sources[0], loader):
            print(f"the rules are wrong about {loader}: {measured(loader)}")  # noqa: T201 - the product
    started = time.monotonic()
    cases: list[Case] = []
    for loaders in chosen(count, seed):
        found = examined(loaders)
        cases += found
        for case in found:
            if not case.right:
                print(f"{case}\nthe simplest: {shrunk(case)}\n", flush=True)  # noqa: T201 - the product
        wrong = sum(not case.right for case in cases)
        done = len({case.loader for case in cases})
        print(f"{done} of {count} loaders, {wrong} wrong, {time.monotonic() - started:.0f} s", file=sys.stderr)  # noqa: T201
    print("\n".join(counted(cases, time.monotonic() - started)))  # noqa: T201
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(*map(int, sys.argv[1:])), 1))
