"""Repeat measurements and write them into docs/benchmarks.md: `python -m tests.bench.page [WORD...]`.

A part of the page between `<!-- run: tests.bench.whole 4 400 -->` and `<!-- end -->` is the output of that command.
With words, only commands that contain one of them run. A command that fails leaves its part as it was.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
PART = re.compile(r"(<!-- run: (?P<command>[^\n]*) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)


def measured(part: re.Match[str]) -> str:
    """The part with a new body; unchanged if its command fails."""
    command = shlex.split(part["command"])
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(f"{part['command']} failed:\n{done.stderr}\n")
        return part[0]
    versions = f"Python {platform.python_version()}, torch {importlib.metadata.version('torch')}"
    today = datetime.datetime.now(datetime.timezone.utc)
    head = f"Measured {today:%Y-%m-%d}, {versions}, {os.cpu_count()} cores."
    return f"{part[1]}{head}\n\n{done.stdout.strip()}\n{part[4]}"


def main(words: list[str]) -> None:
    for part in list(PART.finditer(PAGE.read_text(encoding="utf-8"))):
        if not words or any(word in part["command"] for word in words):
            new = measured(part)
            PAGE.write_text(PAGE.read_text(encoding="utf-8").replace(part[0], new), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
