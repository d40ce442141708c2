"""A scan of all samples beside the plain loader: `python -m tests.bench.whole [ROUNDS] [IMAGES]`, then its memory.

JPEGs of 500 x 375 are cropped to 224 x 224. Both are made in forks of one process, in turns, the order of the two
changing from round to round, and timed from `iter(loader)` to the last batch. Seconds of the CPU are those of the main
process and its workers together: they hardly hang on what else the machine does.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from dataguard.lab.epoch.full_epoch import read_portion, run_portion
from dataguard.lab.lab import Lab
from dataguard.lab.process.isolation import isolated
from dataguard.lab.spy.drive import shut
from dataguard.settings.settings import Settings
from tests.bench.loaders import write_jpegs
from tests.support import labs

HOUR = 3600.0
FIRST = 32
"""Samples that are looked at closely: so few, that they weigh as little here as in a large dataset."""
SIZES = (20_000, 200_000)


@dataclass(frozen=True)
class Taken:
    """What reading all samples once took: how many there were, seconds, CPU seconds, and the largest process in MB."""

    samples: int
    seconds: float
    cpu: float
    peak: float


def lab_of(spelling: str, folder: Path) -> Lab:
    """A lab for the only loader of a target."""
    return labs.lab_of(spelling, folder, Settings(all=True, timeout=60, samples=FIRST))


def plain(lab: Lab, folder: Path) -> int:
    """What a training loop does, without the training."""
    loader = lab.build()
    count = 0
    iterator = iter(loader)
    for batch in iterator:
        count += len(batch[0])
    shut(iterator)
    return count


def scanned(lab: Lab, folder: Path) -> int:
    """What a scan does."""
    return read_portion(folder, run_portion(lab, folder, None, lab.settings.samples, None)).read


def taken(read: Any, lab: Lab) -> Taken:
    """Read all samples in a fork, and say what it took."""
    with tempfile.TemporaryDirectory() as name:

        def run() -> Taken:
            started, before = time.perf_counter(), _used()
            samples = read(lab, Path(name))
            seconds = time.perf_counter() - started
            peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
            return Taken(samples, seconds, _used() - before, peak / 1024)

        return isolated(run, Path(name), timeout=60, allowed=HOUR)


def _used() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, whose))


def compared(lab: Lab, rounds: int) -> list[str]:
    """The table of rounds."""
    rows, speeds, efforts = [], [], []
    for number in range(rounds + 1):
        order = (plain, scanned) if number % 2 else (scanned, plain)
        found = {read: taken(read, lab) for read in order}
        one, two = found[plain], found[scanned]
        if not number:  # the first round warms the file cache up
            continue
        speeds.append(two.samples / two.seconds * one.seconds / one.samples)
        efforts.append(two.cpu / one.cpu)
        rates = f"{one.samples / one.seconds:.0f} | {two.samples / two.seconds:.0f}"
        rows.append(f"| {number} | {rates} | {speeds[-1]:.3f} | {efforts[-1]:.3f} |")
    spread = f"{statistics.median(speeds):.3f} ({min(speeds):.3f} to {max(speeds):.3f})"
    effort = f"{statistics.median(efforts):.3f} ({min(efforts):.3f} to {max(efforts):.3f})"
    head = ["| round | plain, samples/s | `--all`, samples/s | ratio | CPU seconds, ratio |", "|---|---|---|---|---|"]
    return [*head, *rows, f"| median | | | {spread} | {effort} |"]


class Many(Dataset[Tensor]):
    """Cheap samples."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((16,), float(index))


def many() -> DataLoader[Any]:
    """As many as DATAGUARD_BENCH_SAMPLES says, read by two workers."""
    return DataLoader(Many(int(os.environ["DATAGUARD_BENCH_SAMPLES"])), batch_size=256, num_workers=2)


def memory(folder: Path) -> list[str]:
    """What the largest process of a scan takes, by the number of samples."""
    rows = ["| cheap samples | largest process of a scan, MB |", "|---|---|"]
    for size in SIZES:
        os.environ["DATAGUARD_BENCH_SAMPLES"] = str(size)
        rows.append(f"| {size:,} | {taken(scanned, lab_of('tests.bench.whole:many', folder)).peak:.0f} |")
    return rows


def main(rounds: int = 5, images: int = 600) -> None:
    """Print both tables."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_jpegs(folder / "images", images)
        os.environ["DATAGUARD_BENCH"] = str(folder / "images")
        rows = compared(lab_of("tests.bench.loaders:folder_of_jpegs", folder), rounds)
        print("\n".join([*rows, "", *memory(folder)]))  # noqa: T201 - the product


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
