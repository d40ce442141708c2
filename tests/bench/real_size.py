"""Default scans of loaders of real size: `python -m tests.bench.real_size [--many]`, a markdown table.

Seconds are those beyond `import torch, torchvision`, measured in the same run. `--many` adds a folder of 400,000 files.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Subset

from tests.bench.loaders import write_jpegs

HOME = "DATAGUARD_REAL_SIZE"
"""The environment variable with the folder of images, and of the file that counts calls and reads."""
TARGETS = {
    "cheap": 3,
    "slow_to_build": 13,
    "slow_to_read": 13,
    "jpegs": 4,
    "pair": 6,
    "many_files": 11,
    "heavy": 60,
    "heavy_held": 60,
    "heavy_in_place": 60,
    "volumes": 120,
}
"""Seconds that each scan may take."""
WORDS = {
    "cheap": "a cheap dataset",
    "slow_to_build": "5 s to build",
    "slow_to_read": "50 ms a sample",
    "jpegs": "1,000 JPEGs",
    "pair": "train and val of 1,000 JPEGs",
    "many_files": "400,000 JPEGs in 400 folders, 4 workers",
    "heavy": "0.35 s of CPU a sample, 4 workers",
    "heavy_held": "the same, with a generator that the dataset holds",
    "heavy_in_place": "the same, with an image that is changed in place",
    "volumes": "train and val of volumes, 1.2 s of CPU a sample",
}
MOST_CALLS, MOST_READS = 3, 450
FOLDERS, FILES = 400, 1000


def home() -> Path:
    return Path(os.environ[HOME])


def note(letter: str) -> None:
    with (home() / "noted").open("a") as file:
        file.write(letter)


class Noisy(Dataset[tuple[torch.Tensor, int]]):
    """Noisy pictures that take `build` seconds in all and `read` seconds each."""

    def __init__(self, build: float = 0.0, read: float = 0.0) -> None:
        note("F")
        time.sleep(build)
        self.read = read
        self.pictures = torch.rand(200, 3, 32, 32)

    def __len__(self) -> int:
        return 5000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        note("r")
        time.sleep(self.read)
        return self.pictures[range(5000)[index] % 200] + index / 5000 + 0.1 * torch.rand(3, 32, 32), index % 10


def cheap(**costs: float) -> dict[str, DataLoader[Any]]:
    return {"train": DataLoader(Noisy(**costs), batch_size=16, shuffle=True, num_workers=2)}


def slow_to_build() -> dict[str, DataLoader[Any]]:
    return cheap(build=5.0)


def slow_to_read() -> dict[str, DataLoader[Any]]:
    return cheap(read=0.05)


def pictures(folder: str, *, train: bool) -> Any:
    from torchvision import datasets, transforms

    first = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
    plain = [transforms.Resize(256), transforms.CenterCrop(224)]
    last = [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    return datasets.ImageFolder(str(home() / folder), transforms.Compose([*(first if train else plain), *last]))


def jpegs() -> DataLoader[Any]:
    return DataLoader(pictures("jpegs", train=True), batch_size=32, shuffle=True, num_workers=2)


def pair() -> dict[str, DataLoader[Any]]:
    kept = [number for number in range(1000) if number % 5]
    train, val = Subset(pictures("jpegs", train=True), kept), Subset(pictures("jpegs", train=False), range(0, 1000, 5))
    return {
        "train": DataLoader(train, batch_size=32, shuffle=True, num_workers=2),
        "val": DataLoader(val, batch_size=32, num_workers=2),
    }


def many_files() -> DataLoader[Any]:
    data = pictures("many", train=True)
    return DataLoader(data, 64, shuffle=True, num_workers=4, pin_memory=True, persistent_workers=True)


class Heavy(Dataset[Any]):
    """Random crops of images in memory that keep a core busy for `seconds` each, with a constant mask."""

    def __init__(self, size: int = 60, seconds: float = 0.35, held: bool = False, in_place: bool = False) -> None:
        note("F")
        self.size, self.seconds, self.in_place = size, seconds, in_place
        self.images = torch.rand(size, 3, 96, 128)
        self.generator = torch.Generator().manual_seed(7) if held else None

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        index = range(self.size)[index]
        note("r")
        until, block = time.thread_time() + self.seconds, torch.rand(64, 64)
        while time.thread_time() < until:
            block = torch.tanh(block @ block.T / 64)
        if self.in_place:
            self.images[index] *= 1.05
        top, left = (int(torch.randint(0, most, (), generator=self.generator)) for most in (32, 48))
        light = 0.7 + 0.6 * torch.rand((), generator=self.generator)
        return self.images[index, :, top : top + 64, left : left + 80] * light, torch.ones(64, 80)


def heavy(**bug: bool) -> dict[str, DataLoader[Any]]:
    return {"train": DataLoader(Heavy(**bug), 10, shuffle=True, num_workers=4, drop_last=True, pin_memory=True)}


def heavy_held() -> dict[str, DataLoader[Any]]:
    return heavy(held=True)


def heavy_in_place() -> dict[str, DataLoader[Any]]:
    return heavy(in_place=True)


def volumes() -> dict[str, DataLoader[Any]]:
    return {
        "train": DataLoader(Heavy(24, 1.2), batch_size=2, shuffle=True, num_workers=4),
        "val": DataLoader(Heavy(24, 1.2), batch_size=1, num_workers=2),
    }


def link_many() -> None:
    """Fill a folder with hard links to the images."""
    images = itertools.cycle(sorted((home() / "jpegs").rglob("*.jpg")))
    for number in range(FOLDERS):
        folder = home() / "many" / f"class{number:03}"
        folder.mkdir(parents=True)
        for count in range(FILES):
            os.link(next(images), folder / f"{count}.jpg")


def imports() -> float:
    """The fastest of three imports."""
    took = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import torch, torchvision"], check=True)
        took.append(time.perf_counter() - started)
    return min(took)


def row(name: str) -> str:
    """The row of one loader."""
    (home() / "noted").write_text("")
    base, started = imports(), time.perf_counter()
    command = [sys.executable, "-m", "dataguard", "scan", f"tests.bench.real_size:{name}", "--format", "json"]
    ran = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started - base
    results = json.loads(ran.stdout)["results"]
    statuses = [result["status"] for result in results]
    found = ", ".join(sorted({result["code"] for result in results if result["status"] == "failed"}))
    noted = (home() / "noted").read_text()
    counts = [str(noted.count(letter)) if noted else "" for letter in "Fr"]
    undecided = statuses.count("inconclusive")
    decided = len(statuses) - statuses.count("skipped") - undecided
    figures = [f"{seconds:.1f} s", f"{TARGETS[name]} s", *counts, str(decided), str(undecided), found]
    return f"| {WORDS[name]} | {' | '.join(figures)} |"


def main(*options: str) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[HOME] = folder
        write_jpegs(home() / "jpegs")
        if "--many" in options:
            link_many()
        calls, reads = f"calls (at most {MOST_CALLS})", f"reads (at most {MOST_READS})"
        print(f"| loader | seconds | target | {calls} | {reads} | decided | inconclusive | found |\n|{'---|' * 8}")  # noqa: T201
        for name in TARGETS:
            if name != "many_files" or "--many" in options:
                print(row(name), flush=True)  # noqa: T201 - the product


if __name__ == "__main__":
    main(*sys.argv[1:])
