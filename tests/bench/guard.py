"""What a guard costs: `python -m tests.bench.guard [TURNS]` prints markdown.

The bare loader and the guarded one take turns in one process, so that the noise of the machine hits both alike.
"""

from __future__ import annotations

import datetime
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from dataguard.training.guard import guard
from tests.bench.loaders import folder_of_jpegs, write_jpegs

TURNS = 8
BATCHES = 2000


def trivial() -> DataLoader[Any]:
    """A shuffled loader whose batches cost next to nothing."""
    return DataLoader(TensorDataset(torch.rand(BATCHES * 4, 16), torch.arange(BATCHES * 4)), batch_size=4, shuffle=True)


def epoch(loader: Iterable[Any]) -> float:
    """Seconds that an epoch takes: of the process and its workers together, and by the clock."""
    started = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - started


def in_turns(turns: int, make: Callable[[], DataLoader[Any]]) -> tuple[list[float], list[float]]:
    """Epochs of a bare and of a guarded loader, after one warm-up of each."""
    bare, guarded = make(), guard(make(), on_violation="raise")
    pairs = [
        (epoch(bare), epoch(guarded)) if turn % 2 else (epoch(guarded), epoch(bare))[::-1] for turn in range(turns + 1)
    ]
    return [one for one, _ in pairs[1:]], [other for _, other in pairs[1:]]


def spread(values: list[float], digits: int) -> str:
    """The median, and the quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def main() -> None:
    """Print the table."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    load = os.getloadavg()[0]
    bare, guarded = in_turns(3 * turns, trivial)
    more = [1e6 * (two - one) / BATCHES for one, two in zip(bare, guarded, strict=True)]
    rows = [
        f"| microseconds that a guard adds to a batch of a trivial loader ({1e6 * min(bare) / BATCHES:.0f}) | {spread(more, 1)} | 20 |"
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_jpegs(folder, size=(224, 224))
        os.environ["DATAGUARD_BENCH"] = str(folder)
        bare, guarded = in_turns(turns, folder_of_jpegs)
    ratios = [two / one for one, two in zip(bare, guarded, strict=True)]
    rows.append(
        f"| an epoch of 1,000 JPEGs of 224 x 224 with a guard / without ({statistics.median(bare):.1f} s) | {spread(ratios, 3)} | 1.01 |"
    )
    when = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}"
    print(f"Measured {when}, {os.cpu_count()} cores, load {load:.1f}, {turns} turns; medians and quartiles.\n")  # noqa: T201 - the product
    print("\n".join(["| what | measured | bar |", "|---|---|---|", *rows]))  # noqa: T201


if __name__ == "__main__":
    main()
