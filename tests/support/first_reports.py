"""The projects of `tests/projects`, with planted bugs: how long a new user waits for the first report.

`python -m tests.support.first_reports [PROJECT]...` copies each project, makes the files that it reads, gives the
command of a new user there, and prints a table: the seconds to the first report, the planted bugs that it reports, and
those that it says how to test.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

PROJECTS = Path(__file__).parents[1] / "projects"
ARGUMENTS = {"vision": ("--", "--data", "data")}
"""What `dataguard init` is given: the script of this project has a required argument."""
_PLANTED = re.compile(r"# planted: (DG\d{3})")
_COMMENT = re.compile(r"  # planted: .*")


def prepare(project: str, folder: Path) -> Path:
    """The folder of a fresh copy of a project with its data; nothing in it says where its bugs are."""
    shutil.copytree(PROJECTS / project, folder / project)
    for script in (folder / project).rglob("*.py"):
        script.write_text(_COMMENT.sub("", script.read_text("utf-8")), encoding="utf-8")
    files = {"vision": _photographs, "finetune": _conversations, "weather": _stations}.get(project)
    if files is not None:
        files(folder / project)
    return folder / project


def _photographs(project: Path) -> None:
    rng = np.random.default_rng(5)
    for split, count in (("train", 40), ("val", 12)):
        for name in ("beetle", "fern", "shell"):
            target = project / "data" / split / name
            target.mkdir(parents=True)
            for number in range(count):
                coarse = rng.integers(0, 256, size=(9, 9, 3), dtype=np.uint8)
                cv2.imwrite(str(target / f"{number:03}.png"), cv2.resize(coarse, (64, 64)))


def _conversations(project: Path) -> None:
    draw = random.Random(5)
    words = [
        f"{first}{second}" for first in ("ba", "ko", "mi", "su", "te") for second in ("la", "ne", "ri", "to", "vu")
    ]
    rows = [
        {
            "question": " ".join(draw.choices(words, k=draw.randint(3, 9))),
            "answer": " ".join(draw.choices(words, k=draw.randint(2, 12))),
        }
        for _ in range(220)
    ]
    (project / "conversations.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def _stations(project: Path) -> None:
    rng = np.random.default_rng(5)
    hours = np.arange(480)
    columns = {
        "temperature": 12 + 8 * np.sin(hours / 24) + rng.normal(0, 1, 480),
        "pressure": 1010 + rng.normal(0, 6, 480),
        "humidity": 60 + 20 * np.cos(hours / 24) + rng.normal(0, 4, 480),
        "wind": rng.gamma(2, 3, 480),
        "rain": (rng.random(480) < 0.3).astype(int),
    }
    lines = [
        ",".join(columns),
        *(",".join(f"{value:.6g}" for value in row) for row in zip(*columns.values(), strict=True)),
    ]
    (project / "data").mkdir()
    (project / "data" / "stations.csv").write_text("\n".join(lines) + "\n")


def planted(project: str) -> set[str]:
    """The codes of the bugs that a project has."""
    return {code for file in (PROJECTS / project).rglob("*.py") for code in _PLANTED.findall(file.read_text("utf-8"))}


def first_report(project: str, folder: Path) -> tuple[float, set[str], set[str], str]:
    """The seconds to the first report of a copy of a project, the codes that failed, those named, and the text."""
    started = time.monotonic()
    command = [sys.executable, "-m", "dataguard", "init", *ARGUMENTS.get(project, ())]
    done = subprocess.run(command, cwd=prepare(project, folder), capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started
    return seconds, set(_REPORTED.findall(done.stdout)), set(_NAMED.findall(done.stdout)), done.stdout


_REPORTED = re.compile(r"(DG\d{3})-[\w-]+\[")
"""The name of a check in a report: of those that failed or were not decided."""
_NAMED = re.compile(r"(DG\d{3})(?:\s+not\s+tested|\);)")
"""That of a check which something suspicious leads to: what to declare, or what to use, decides it."""


if __name__ == "__main__":
    rows = ["| project | first report | planted bugs found | named | missed |", "|---|---|---|---|---|"]
    for name in sys.argv[1:] or sorted(path.name for path in PROJECTS.iterdir()):
        with tempfile.TemporaryDirectory() as place:
            seconds, found, named, output = first_report(name, Path(place))
        sys.stdout.write(output)
        bugs = planted(name)
        named &= bugs - found
        missed = ", ".join(sorted(bugs - found - named)) or "none"
        found_of = f"{len(bugs & found)} of {len(bugs)}"
        rows.append(f"| {name} | {seconds:.0f} s | {found_of} | {', '.join(sorted(named)) or 'none'} | {missed} |")
    sys.stdout.write("\n".join(rows) + "\n")
