"""Measure the bars of the default scan and print them as markdown: `python -m tests.bench`.

Ratios come from runs that take turns, so that the noise of a machine hits both sides alike; medians are quoted.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.bench.loaders import write_jpegs
from tests.bench.walk import DATA

TURNS = 5


def seconds(command: list[str], folder: Path, **variables: str) -> float:
    """Wall time of one command, under more environment variables."""
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env={**environment(folder), **variables})
    return time.perf_counter() - started


def environment(folder: Path) -> dict[str, str]:
    """The environment of a command: finds the tests from anywhere, and the images."""
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": root, "DATAGUARD_BENCH": str(folder / "images")}


def in_turns(turns: int, folder: Path, **commands: list[str]) -> dict[str, float]:
    """The median wall time of each command, run in turns after one warm-up."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(turns + 1):
        for name, command in commands.items():
            taken = seconds(command, folder)
            if turn:
                times[name].append(taken)
    return {name: statistics.median(taken) for name, taken in times.items()}


def start_up(folder: Path) -> str:
    """Bare pytest with the plugin installed but not asked, against pytest without it."""
    (folder / "test_nothing.py").write_text("def test_nothing(): pass\n")
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_nothing.py"]
    without = [*run, "-p", "no:dataguard_loaders"]
    times = in_turns(4 * TURNS, folder, installed=run, without=without)
    ratio = times["installed"] / times["without"]
    return f"| pytest start-up, installed but unused / not installed | {ratio:.3f} | 1.01 |"


def default_scan(folder: Path) -> list[str]:
    """A scan of 1,000 JPEGs beyond `import torch`, and the same with 100,000 indices."""
    write_jpegs(folder / "images")
    scan = [sys.executable, "-m", "dataguard", "scan", "-q"]
    times = in_turns(
        3,
        folder,
        torch=[sys.executable, "-c", "import torch"],
        few=[*scan, "tests.bench.loaders:folder_of_jpegs"],
        many=[*scan, "tests.bench.loaders:folder_of_many_jpegs"],
    )
    few, many = (times[name] - times["torch"] for name in ("few", "many"))
    return [
        f"| default scan of 1,000 JPEGs (500 x 375), beyond `import torch` | {few:.1f} s | 10 s |",
        f"| the same with 100,000 indices / with 1,000 | {many / few:.2f} | 1.3 |",
    ]


FAMILIES = {
    "family 1, a cheap dataset, forked workers": ("sample_datasets.dg101_cloned_worker_rng:good --select DG1", 3),
    "one pass with spawned workers (DG104)": (
        "sample_datasets.dg101_cloned_worker_rng:good --select DG104 --start-method spawn",
        8,
    ),
    "family 1 with spawned workers": (
        "sample_datasets.dg101_cloned_worker_rng:good --select DG1 --start-method spawn",
        8,
    ),
    "family 2, a stream on 2 ranks of 2 workers": ("tests.bench.loaders:stream_on_ranks --select DG2 --ranks 2", 8),
    "families 3 and 4, 10,000 cheap samples": ("tests.bench.loaders:cheap_train --select DG3,DG4", 3),
    "family 2 on 4 ranks": ("tests.bench.loaders:stream_on_ranks --select DG2 --ranks 4", 15),
    "family 5, JPEGs of 224 x 224": ("tests.bench.loaders:folder_of_jpegs --select DG5", 4),
}
"""What to scan, and the bar in seconds."""


def families(folder: Path) -> list[str]:
    """One family of checks alone, beyond `import torch`."""
    shutil.rmtree(folder / "images", ignore_errors=True)
    write_jpegs(folder / "images", size=(224, 224))
    scan = [sys.executable, "-m", "dataguard", "scan", "-q"]
    commands = {name: [*scan, *words.split()] for name, (words, _) in FAMILIES.items()}
    times = in_turns(3, folder, torch=[sys.executable, "-c", "import torch"], **commands)
    return [f"| {name} | {times[name] - times['torch']:.1f} s | {bar} s |" for name, (_, bar) in FAMILIES.items()]


def protocol(folder: Path) -> list[str]:
    """How many samples families 3 and 4 read outside workers, and what they do with a dataset of 200 ms a sample."""
    log = folder / "reads"
    scan = [sys.executable, "-m", "dataguard", "scan", "--select", "DG3,DG4", "--format", "json", "--fail-on", "error"]
    run = [*scan, "tests.bench.loaders:counted_train"]
    seconds(run, folder, DATAGUARD_BENCH_READS=str(log))
    started = time.perf_counter()
    run = [*scan, "tests.bench.loaders:slow_train"]
    output = subprocess.run(run, cwd=folder, check=True, capture_output=True, env=environment(folder)).stdout
    taken = time.perf_counter() - started
    counts = Counter(result["status"] for result in json.loads(output)["results"])
    return [
        f"| samples that families 3 and 4 read outside workers, of 10,000 | {log.stat().st_size} | 300 |",
        f"| families 3 and 4, 200 ms per sample: {counts['passed']} passed, {counts['inconclusive']} inconclusive | "
        f"{taken:.0f} s | 60 s |",
    ]


def held_data(folder: Path) -> list[str]:
    """What a scan takes longer when the dataset holds a lot, beside one that made as much and holds nothing of it."""
    scan = [sys.executable, "-m", "dataguard", "scan", "-q", "tests.bench.walk:make_loader"]
    rows = []
    for what in DATA:
        more = []
        for _ in range(TURNS):
            without, held = (
                seconds(scan, folder, DATAGUARD_BENCH_DATA=what, DATAGUARD_BENCH_HELD=held) for held in ("", "1")
            )
            more.append(held - without)
        rows.append(f"| extra scan time if the dataset holds {what} | {statistics.median(more):+.1f} s | 2 s |")
    return rows


def memory(folder: Path) -> str:
    """The largest resident size of the reporting process: VmHWM, since ru_maxrss keeps that of the parent (Linux)."""
    code = (
        "import sys; from pathlib import Path; from dataguard.cli.main import main; "
        "sys.argv = ['dataguard', 'scan', '-q', 'tests.bench.loaders:folder_of_jpegs']; main(); "
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    run = [sys.executable, "-c", code]
    output = subprocess.run(run, cwd=folder, check=True, capture_output=True, text=True, env=environment(folder)).stdout
    return f"| memory of the reporting process | {int(output.split()[-1]) / 1e3:.0f} MB | 80 MB |"


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [
            start_up(folder),
            *default_scan(folder),
            *families(folder),
            *protocol(folder),
            *held_data(folder),
            memory(folder),
        ]
    print("\n".join(["| what | measured | target |", "|---|---|---|", *rows]))  # noqa: T201


if __name__ == "__main__":
    main()
