"""Memory of the ledger of a stream's samples: `python -m tests.bench.ledger`.

A stream of numbered samples is taken down as a worker does, and read back in a process of its own, whose growth counts.
"""

from __future__ import annotations

import hashlib
import resource
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

from dataguard.lab.core.records import LeafRecord, SampleRecord
from dataguard.lab.spy.sample_ledger import Ledger, read_ledgers, resolution_for

SIZES = (100_000, 1_000_000, 4_000_000)
LEAVES = 3


def record(number: int) -> SampleRecord:
    """A sample of a few leaves, all of which differ from those of any other."""
    digests = (hashlib.blake2b(f"{number} {leaf}".encode(), digest_size=8).digest() for leaf in range(LEAVES))
    leaves = tuple(LeafRecord(f"[{place}]", "Tensor", "float32", (8,), digest) for place, digest in enumerate(digests))
    return SampleRecord(0, 0, 0, 0, None, None, 0.0, leaves)


def measure(samples: int, folder: Path) -> str:
    """Write a ledger of so many samples, and say what reading it takes."""
    ledger = Ledger(folder, 0, resolution_for(samples))
    numbers = iter(range(samples))
    while batch := list(islice(numbers, 256)):
        ledger.enter(0, map(record, batch))
    grown = subprocess.run(
        [sys.executable, "-m", __spec__.name, str(folder)], capture_output=True, text=True, check=True
    ).stdout
    held, peak, counted = map(int, grown.split())
    return f"| {samples:,} samples of {LEAVES} leaves | {held / samples:.0f} | {peak / samples:.0f} | {counted:,} |"


def read(folder: Path) -> str:
    """The bytes that a ledger holds, those by which the process grew in reading it, and how many samples it counts."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (account,) = read_ledgers(folder, 0).values()
    peak = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return f"{8 * sum(map(len, account.columns.values()))} {peak} {account.samples}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(read(Path(sys.argv[1])))
    else:
        sys.stdout.write("| ledger | bytes a sample, held | at most, while it is read | counted |\n|---|---|---|---|\n")
        for size in SIZES:
            with tempfile.TemporaryDirectory() as name:
                sys.stdout.write(measure(size, Path(name)) + "\n")
