"""Whether `dataguard bench` finds the best worker count of loaders that were made to have one.

`python -m tests.bench.throughput [RUNS]` prints markdown. The bar is no wrong word in 20 runs.
"""

from __future__ import annotations

import datetime
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.throughput.timing_observations import Sweep
from dataguard.stats.timing_comparison import rank

COUNTS = (0, 1, 2, 4)
SECONDS = 42.0
"""What `dataguard bench` gives to a race of worker counts; one that is clear ends before."""
PLANTED = {
    4: {0: 4, 1: 4, 2: 4, 4: 4},
    2: {0: 4, 1: 4, 2: 4, 4: 16},
    1: {0: 8, 1: 4, 2: 12, 4: 30},
    0: {0: 2, 1: 6, 2: 12, 4: 24},
}
"""By the best number of workers: milliseconds that reading a sample takes with each number of them."""


class Planted(Dataset[torch.Tensor]):
    """Samples that take longer to read the more workers there are, or not."""

    def __init__(self, milliseconds: Mapping[int, float]) -> None:
        self.milliseconds = milliseconds

    def __len__(self) -> int:
        return 2000  # so many, that starting workers does not decide what is best

    def __getitem__(self, index: int) -> torch.Tensor:
        worker = get_worker_info()
        time.sleep(self.milliseconds[worker.num_workers if worker else 0] / 1e3)
        return torch.zeros(3, 32, 32)


def found(best: int) -> str:
    """What a race says of a loader whose best number of workers is known."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loader: DataLoader[Any] = DataLoader(Planted(PLANTED[best]), batch_size=4, num_workers=1)
        sweep = Sweep(loader, folder, FlightRecorder(folder), 20.0, time.monotonic() + SECONDS)
        settings = [replace(sweep.own, workers=count, prefetch=2 if count else None) for count in COUNTS]
        timed = sweep.run(settings, len(loader), SECONDS)
    ranking = rank({str(one.setting.workers): one.costs(len(loader)) for one in timed if one.per_batch})
    return "cannot tell" if ranking.best is None else "right" if ranking.best == str(best) else "wrong"


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)  # a fork of a process that computes in several threads may hang
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    counts = Counter(found(list(PLANTED)[run % len(PLANTED)]) for run in range(runs))
    rows = [f"| {word} | {counts[word]} |" for word in ("right", "cannot tell", "wrong")]
    head = f"Measured {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}, {os.cpu_count()} cores, {runs} runs."
    print("\n".join([head, "", "| the best worker count | runs |", "|---|---|", *rows]))  # noqa: T201 - the product


if __name__ == "__main__":
    main()
