"""Predictions of DG601 in settings that are drawn at random, against plain runs: `python -m tests.bench.shm 30 1`.

Arguments are how many settings and a seed. Each gets a /dev/shm of its own, of a size around what its batches take
together. Prints a table, and how many predictions were right.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from tests.support.headroom import DRAWN, room
from tests.support.namespace import MIB, own_shared_memory

DTYPES = {"uint8": 1, "float16": 2, "int16": 2, "float32": 4, "float64": 8}
COLLATES = ("default", "custom", "list", "numpy")


def drawn(chance: random.Random) -> tuple[dict[str, Any], int]:
    """Settings of a loader, and the bytes of a /dev/shm that may or may not do."""
    dtype = chance.choice(list(DTYPES))
    workers, prefetch = chance.randint(1, 3), chance.randint(1, 4)
    batch_size, batches = chance.choice([1, 2, 3, 4, 8, 16]), chance.choice([3, 12, 30, 30])
    settings = {
        "workers": workers,
        "prefetch": prefetch,
        "batch_size": batch_size,
        "batches": batches,
        "collate": chance.choice(COLLATES),
        "dtype": dtype,
        "sharing": chance.choice(["file_descriptor", "file_descriptor", "file_system"]),
    }
    size = round(2 ** chance.uniform(10, 20)) // DTYPES[dtype] + 1
    batch = batch_size * size * DTYPES[dtype]
    flying = min(workers * prefetch + 2, batches)
    space = max(flying * batch, MIB) * chance.uniform(0.4, 1.6)
    return {**settings, "size": size}, round(space)


def main(count: int, seed: int) -> None:
    """Draw, predict, run and compare."""
    chance, right = random.Random(seed), 0
    sys.stdout.write("| settings | /dev/shm | predicted | ran | right |\n|---|---|---|---|---|\n")
    for _ in range(count):
        settings, size = drawn(chance)
        with own_shared_memory(size) as shared, room(shared) as own:
            ran = own.run(DRAWN, **settings).fits
            status = own.verdicts(DRAWN, **settings)["DG601"].status
        agrees = status == ("passed" if ran else "failed")
        right += agrees
        words = " ".join(f"{name}={value}" for name, value in settings.items())
        row = f"| {words} | {size:,} | {status} | {'yes' if ran else 'no'} | {'yes' if agrees else 'NO'} |"
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
    sys.stdout.write(f"\n{right} of {count} right\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
