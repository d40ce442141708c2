"""What finding the sources of samples costs: `python -m tests.bench.provenance`.

Processor time is compared, so that other processes on the machine do not count. A sample takes a millisecond; its rows
are found in an array of 20,000, along either axis.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Dataset

from dataguard.lab.process.isolation import isolated
from dataguard.lab.provenance.held_rows import Questions, find_held_rows, find_rows
from dataguard.lab.provenance.provenance import ROW_SAMPLES, SEEN_SAMPLES, TRACED_SAMPLES, find_files
from dataguard.lab.reading.sample_reader import Reader
from dataguard.targets.variants import Construction
from tests.bench.loaders import folder_of_jpegs, write_jpegs

ROWS, COLUMNS, WINDOW, NEXT = 20_000, 8, 96, 24
SAMPLE_SECONDS = 1e-3
FILES = 1000
TURNS = 3


class Windows(Dataset[Any]):
    """Windows of a table, and what follows; each takes a millisecond of processor time."""

    def __init__(self, *, channels_first: bool) -> None:
        self.values = np.random.default_rng(0).random((ROWS, COLUMNS), np.float32)
        if channels_first:
            self.values = self.values.T.copy()
        self.channels_first = channels_first
        self.reads = 0

    def __len__(self) -> int:
        return ROWS - WINDOW - NEXT

    def __getitem__(self, index: int) -> Any:
        ends = time.process_time() + SAMPLE_SECONDS
        self.reads += 1
        while time.process_time() < ends:
            pass
        table = self.values.T if self.channels_first else self.values
        end = index + WINDOW
        return table[index:end].copy(), table[end : end + NEXT].copy()


def taken(question: Callable[[Windows, Path], object], folder: Path, *, channels_first: bool) -> tuple[float, int]:
    """The least processor seconds of a question, and the reads that it took, in a process that may change rows."""

    def answer() -> tuple[float, int]:
        dataset = Windows(channels_first=channels_first)
        started = time.process_time()
        question(dataset, folder)
        return time.process_time() - started, dataset.reads

    return min(isolated(answer, folder, timeout=300, allowed=300) for _ in range(TURNS))


def all_questions(dataset: Windows, folder: Path) -> object:
    """What the checks ask of rows in memory, in one process."""
    indices = tuple(np.linspace(0, len(dataset) - 1, ROW_SAMPLES).astype(int).tolist())
    asked = Questions(
        len(dataset), indices, indices[1:4], None, (), None, (), rows=True, in_windows=True, groups=True, reached=True
    )

    def build(*, reuse: bool = False, **wanted: Any) -> Any:
        del reuse
        return Construction(wanted).variant(DataLoader(dataset))

    return find_held_rows(build, folder, asked)


def rows_changed(folder: Path) -> list[str]:
    """What it costs to find the rows of a sample, of the samples that are looked at, and all that is asked of rows."""
    lines = []
    for name, channels_first in (("rows along the first axis", False), ("along the second", True)):
        for what, question in (
            ("the rows of one sample", lambda dataset, at: find_rows(Reader(DataLoader(dataset), at), [777])),
            (
                f"the rows of {ROW_SAMPLES} samples",
                lambda dataset, at: find_rows(Reader(DataLoader(dataset), at), range(0, 18_001, 3600)),
            ),
            ("all questions about rows", all_questions),
        ):
            seconds, reads = taken(question, folder, channels_first=channels_first)
            bar = "" if question is all_questions else "1 s"
            lines.append(f"| {what}, {name}: {reads} reads | {seconds:.2f} s | {bar} |")
    return lines


def reads_seen(folder: Path) -> str:
    """The share of a scan of a folder of JPEGs that is spent on seeing what samples are read from."""
    os.environ["DATAGUARD_BENCH"] = str(folder / "images")
    write_jpegs(folder / "images", FILES)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "dataguard", "scan", "-q", "tests.bench.loaders:folder_of_jpegs"]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    scan = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def see() -> tuple[float, float]:
        loader = folder_of_jpegs()
        indices = [number * (FILES // SEEN_SAMPLES) for number in range(SEEN_SAMPLES)]
        _ = loader.dataset[0]
        started = time.process_time()
        for index in 2 * indices:
            _ = loader.dataset[index]
        plain = time.process_time() - started
        started = time.process_time()
        find_files(loader, folder, indices, TRACED_SAMPLES)
        return time.process_time() - started, plain

    seconds, plain = isolated(see, folder, timeout=300, allowed=300)
    return (
        f"| reads seen of {SEEN_SAMPLES} samples ({seconds:.2f} s, of which {plain:.2f} s are two reads of each), "
        f"of a scan of {FILES} JPEGs ({scan:.1f} s) | {seconds / scan:.1%} | 3% |"
    )


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        rows = [*rows_changed(Path(name)), reads_seen(Path(name))]
    print("\n".join(["| processor time | measured | target |", "|---|---|---|", *rows]))  # noqa: T201


if __name__ == "__main__":
    main()
