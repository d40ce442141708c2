"""What a guard costs: `python -m tests.bench.guard [TURNS]` prints markdown.

The bare loader and the guarded one take turns in one process, so that the noise of the machine hits both alike. The
time on CPUs, of the process and its workers, is steady on a busy machine as well.
"""

from __future__ import annotations

import datetime
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, TensorDataset

from dataguard.training.guard import guard
from tests.bench.loaders import folder_of_jpegs, write_jpegs

TURNS = 8
BATCHES = 2000


class Cost(NamedTuple):
    """Seconds of an epoch: by the clock, and on all CPUs."""

    wall: float
    cpu: float


def trivial() -> DataLoader[Any]:
    """A shuffled loader whose batches cost next to nothing."""
    data = TensorDataset(torch.rand(BATCHES * 4, 16), torch.arange(BATCHES * 4))
    return DataLoader(data, batch_size=4, shuffle=True)


def cpu_seconds() -> float:
    """What this process and its ended children took so far."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def epoch(loader: Iterable[Any]) -> Cost:
    """What an epoch costs."""
    started, used = perf_counter(), cpu_seconds()
    for _ in loader:
        pass
    return Cost(perf_counter() - started, cpu_seconds() - used)


def in_turns(turns: int, make: Callable[[], DataLoader[Any]]) -> list[tuple[Cost, Cost]]:
    """Epochs of a bare and of a guarded loader, after one warm-up of each; each goes first in half of the turns."""
    bare, guarded = make(), guard(make(), on_violation="raise")
    epoch(bare), epoch(guarded)
    found = []
    for turn in range(turns):
        if turn % 2:
            found.append((epoch(bare), epoch(guarded)))
        else:
            other = epoch(guarded)
            found.append((epoch(bare), other))
    return found


def spread(values: Sequence[float], digits: int) -> str:
    """The median, and the quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def main() -> None:
    """Print the table."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    load = os.getloadavg()[0]
    small = in_turns(4 * turns, trivial)
    each = 1e6 * statistics.median(bare.wall for bare, _ in small) / BATCHES
    more = [1e6 * (other.wall - bare.wall) / BATCHES for bare, other in small]
    with tempfile.TemporaryDirectory() as name:
        write_jpegs(Path(name), size=(224, 224))
        os.environ["DATAGUARD_BENCH"] = name
        large = in_turns(turns, folder_of_jpegs)
    seconds = statistics.median(bare.wall for bare, _ in large)
    (note,) = [note for note in guard.report().notes if note.startswith("loader-2")]
    jpegs = f"an epoch of 1,000 JPEGs of 224 x 224 ({seconds:.1f} s), guarded / bare"
    rows = [
        f"| what a guard adds to a batch of a trivial loader ({each:.0f} µs) | {spread(more, 1)} µs | 20 µs |",
        f"| {jpegs} | {spread([other.wall / bare.wall for bare, other in large], 3)} | 1.01 |",
        f"| the same, time on CPUs | {spread([other.cpu / bare.cpu for bare, other in large], 3)} | 1.01 |",
        f"| the same, what the guard measures of itself | {note.rpartition(' ')[2]} | 1 % |",
    ]
    when = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}"
    print(f"Measured {when}, {os.cpu_count()} cores, load {load:.1f}, {turns} turns; medians and quartiles.\n")  # noqa: T201 - the product
    print("\n".join(["| what | measured | bar |", "|---|---|---|", *rows]))  # noqa: T201


if __name__ == "__main__":
    main()
