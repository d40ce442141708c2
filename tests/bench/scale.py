"""Scans from a thousand to ten million samples: `python -m tests.bench.scale [OPTION]`, markdown.

Without options: default scans of a cheap dataset; with `--all`, of all its samples. `--files` reads a million small
files. `--large` scans loaders that are large in one respect: leaves, entries, bytes, or the number of loaders.
`--ranks` shares a scan of all samples between 1, 2 and 4 ranks of torchrun; its samples wait, so that ranks do not
compete for cores. Seconds include the imports. Memory is that of the largest process, sampled ten times a second.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

SIZES = (1_000, 100_000, 10_000_000)
FILES, PER_FOLDER = 1_000_000, 1_000
WAITING, WAIT = 6_000, 0.01
LARGE = {
    "samples of 5,000 leaves, 2 workers": ("leaves", "count=5000"),
    "samples of 5,000 leaves, no workers": ("leaves", "count=5000", "workers=0"),
    "a list of 10,000,000 strings": ("strings",),
    "a list of 10,000,000 paths": ("paths",),
    "a dict of 10,000,000 strings": ("entries",),
    "samples of 2 GB, no workers": ("volumes",),
    "samples of 2 GB, 1 worker": ("volumes", "workers=1"),
    "500 loaders": ("loaders",),
}
"""Factories of `tests.loaders.large`, with their arguments."""


class Cheap(Dataset[tuple[Tensor, int]]):
    """Samples that cost next to nothing; `wait` seconds each."""

    def __init__(self, size: int, wait: float = 0.0) -> None:
        self.rows = torch.randn(1_000, 8)
        self.size = size
        self.wait = wait

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.wait:
            time.sleep(self.wait)
        if not 0 <= index < self.size:
            raise IndexError(index)
        return self.rows[index % 1_000] + index, index % 10


class Files(Dataset[tuple[Tensor, int]]):
    """A file of 32 bytes per sample, 1,000 in each folder."""

    def __init__(self, folder: str) -> None:
        self.names = [str(file) for part in sorted(Path(folder).iterdir()) for file in sorted(part.iterdir())]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        with open(self.names[index], "rb") as file:  # noqa: PTH123 - what most users write
            return torch.frombuffer(bytearray(file.read()), dtype=torch.float32), index % 10


def cheap(size: int, wait: float = 0.0) -> DataLoader[tuple[Tensor, int]]:
    """What a user has: shuffled, two workers."""
    return DataLoader(Cheap(size, wait), batch_size=256, shuffle=True, num_workers=2)


def files(folder: str) -> DataLoader[tuple[Tensor, int]]:
    return DataLoader(Files(folder), batch_size=256, shuffle=True, num_workers=2)


def measured(*arguments: str, ranks: int = 0) -> tuple[float, float, str]:
    """Seconds, the largest process in MB, and the last line of a scan of `cheap` or `files`."""
    own = [sys.executable, "-m"]
    runner = [*own, "torch.distributed.run", f"--nproc-per-node={ranks}", "-m"] if ranks else own
    root = Path(__file__).parents[2]
    started, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as said:
        command = [*runner, "dataguard", "scan", "--exit-zero", *arguments]
        process = psutil.Popen(command, cwd=root, stdout=said, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            for one in [process, *process.children(recursive=True)]:
                try:
                    peak = max(peak, one.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue
            time.sleep(0.1)
        said.seek(0)
        last = said.read().strip().rpartition("\n")[2]
    return time.perf_counter() - started, peak / 1e6, last


def write_files(folder: Path) -> None:
    for part in range(FILES // PER_FOLDER):
        (folder / f"{part:04}").mkdir()
        for number in range(PER_FOLDER):
            content = struct.pack("<8f", *[PER_FOLDER * part + number] * 8)
            (folder / f"{part:04}" / f"{number:04}").write_bytes(content)


def row(name: str, *arguments: str, ranks: int = 0) -> None:
    seconds, peak, last = measured(*arguments, ranks=ranks)
    sys.stdout.write(f"| {name} | {seconds:.1f} s | {peak:.0f} MB | {last} |\n")
    sys.stdout.flush()


def main(options: list[str]) -> None:
    sys.stdout.write("| scan | time | largest process | result |\n|---|---|---|---|\n")
    if "--files" in options:
        with tempfile.TemporaryDirectory() as folder:
            write_files(Path(folder))
            row(f"`--all`, {FILES:,} files", "tests.bench.scale:files", "--arg", f"folder={folder}", "--all")
    elif "--ranks" in options:
        for ranks in (1, 2, 4):
            loader = ("tests.bench.scale:cheap", "--arg", f"size={WAITING}", "--arg", f"wait={WAIT}")
            row(
                f"`--all`, {WAITING:,} samples of 10 ms, {ranks} ranks",
                *loader,
                "--all",
                "--select",
                "DG5",
                ranks=ranks,
            )
    elif "--large" in options:
        for name, (factory, *given) in LARGE.items():
            row(name, f"tests.loaders.large:{factory}", *(word for one in given for word in ("--arg", one)))
    elif "--all" in options:
        for size in SIZES[1:]:
            row(f"`--all`, {size:,} samples", "tests.bench.scale:cheap", "--arg", f"size={size}", "--all")
    else:
        for size in SIZES:
            row(f"default, {size:,} samples", "tests.bench.scale:cheap", "--arg", f"size={size}")


if __name__ == "__main__":
    main(sys.argv[1:])
