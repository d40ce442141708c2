"""The slope of memory that DG602 measures, and what watching costs: `python -m tests.bench.growth`.

Prints two tables. The first compares measured slopes with planted ones, for workers that keep so many bytes of each
sample, and a tensor around them. The second is the share of a worker's time that goes into readings:
throughput with and without them differs by less than the noise of most machines.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from dataguard.lab.machine.resource_observations import (
    BUDGET_SHARE,
    FEWEST_SAMPLES,
    MOST_SAMPLES,
    Usage,
    UsagePlan,
    measure_usage,
    read_usage,
)
from dataguard.lab.process.isolation import isolated
from dataguard.stats.trend import common, trend
from dataguard.targets.variants import Loader

PLANTED = (8_192, 16_384, 65_536, 262_144)
TURNS = 5


class Hoarding(Dataset):
    """Keeps so many bytes of each sample, and waits for each for so many seconds."""

    def __init__(self, kept: int, seconds: float = 0.0) -> None:
        self.kept, self.seconds = kept, seconds
        self.cache: dict[int, torch.Tensor] = {}

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> int:
        time.sleep(self.seconds)
        if self.kept:
            self.cache[index] = torch.full((self.kept,), index % 251, dtype=torch.uint8)
        return index


def build(kept: int, seconds: float) -> Callable[..., Loader]:
    """A factory whose index sampler can be replaced, as the lab's own can."""

    def make(schedule: Callable[..., object], **_: object) -> Loader:
        plain: Loader = DataLoader(Hoarding(kept, seconds), batch_size=4, num_workers=2)
        sampler = schedule(plain.batch_sampler, True)
        return DataLoader(plain.dataset, batch_sampler=sampler, num_workers=2)  # type: ignore[arg-type]

    return make


def watched(kept: int, seconds: float, samples: int) -> Usage:
    """What a measurement of two workers shows."""
    plan = UsagePlan(2, samples, samples, 4, own=False, reduced=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def run() -> object:
            return measure_usage(build(kept, seconds), folder, plan, None, 60, stream=False)

        answer = isolated(run, folder, timeout=20, allowed=60)
        return read_usage(folder, answer, plan)  # type: ignore[arg-type]


def slope(usage: Usage) -> float:
    """The bytes that a worker is seen to grow by for each sample."""
    found = common(trend(points, 0) for points in usage.points(lambda reading: reading.allocated))
    assert found is not None
    return found.rate


def share(usage: Usage) -> float:
    """The part of their time that workers spend on readings, those at the beginning and the end left out."""
    return statistics.mean(
        readings[-1].spent / (readings[-1].at - readings[0].at) for readings in usage.readings.values()
    )


def main() -> None:
    """Print both tables."""
    torch.set_num_threads(1)
    sys.stdout.write("| planted, bytes a sample | measured | off by | bar |\n|---|---|---|---|\n")
    for kept in PLANTED:
        seen = slope(watched(kept, 0.0, MOST_SAMPLES))
        sys.stdout.write(f"| {kept:,} | {seen:,.0f} | {seen / kept - 1:+.1%} | 10% |\n")
    sys.stdout.write("\n| a sample takes | samples of a worker | time spent on readings | bar |\n|---|---|---|---|\n")
    for seconds in (0.0, 0.001, 0.005, 0.02):
        count = round(min(max(FEWEST_SAMPLES, BUDGET_SHARE * 60 / max(seconds, 1e-9)), MOST_SAMPLES))
        shares = [share(watched(0, seconds, count)) for _ in range(TURNS)]
        spread = f"{min(shares):.1%} to {max(shares):.1%}"
        row = f"| {1000 * seconds:g} ms | {count} | {statistics.median(shares):.1%} ({spread}) | 2% |"
        sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
