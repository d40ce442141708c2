"""The report that the README shows, drawn as SVG from a scan of one of the projects."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from html import escape, unescape
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.support.first_reports import prepare

COMMAND = ("dataguard", "run", "train.py", "--data", "data")
WIDTH = 96
_FONTS = re.compile(r"@font-face \{.*?\}\n", re.DOTALL)
_DESCRIPTION = re.compile(r"<desc>(.*?)</desc>", re.DOTALL)
_SECONDS = re.compile(r"[\d.]+ s\b")
_ESCAPES = re.compile(r"\x1b\[[\d;]*m")


def scanned() -> str:
    """What a scan of the photographs of `tests/projects` prints, of the checks that find something there."""
    with tempfile.TemporaryDirectory() as folder:
        script, *arguments = COMMAND[2:]
        command = [sys.executable, "-m", *COMMAND[:2], "-q", "--select", "DG101,DG102,DG211,DG505", script, *arguments]
        surroundings = os.environ | {"COLUMNS": str(WIDTH), "FORCE_COLOR": "1", "COLORTERM": "truecolor"}
        done = subprocess.run(
            command,
            cwd=prepare("vision", Path(folder)),
            env=surroundings,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    return done.stdout


def shortened(report: str) -> str:
    """The first finding with its place and its fix, and the summary: what a reader looks at first."""
    lines = report.rstrip().splitlines()
    plain = [_ESCAPES.sub("", line) for line in lines]
    first = next(at for at, line in enumerate(plain) if line.startswith("✗ error"))
    last = next(at for at, line in enumerate(plain) if line.startswith("    leaves "))
    summary = max(at for at, line in enumerate(plain) if line.startswith("━"))
    return "\n".join([*lines[first:last], "    …", *lines[summary:]])


def drawn(report: str) -> str:
    """The short report as an image, which loads nothing, and has its text as description."""
    console = Console(file=StringIO(), record=True, width=WIDTH, force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(shortened(report)))
    title = " ".join(COMMAND)
    image = _FONTS.sub("", console.export_svg(title=title, unique_id="report"))
    image = image.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    words = _ESCAPES.sub("", shortened(report))
    description = f"<title>{escape(title)}</title>\n<desc>{escape(words)}</desc>\n"
    lines = re.sub(r"(<svg [^>]*>\n)", lambda head: head[1] + description, image, count=1).splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def described(image: str) -> str:
    """The text of a drawn report, without how long the scan took."""
    found = _DESCRIPTION.search(image)
    assert found, "the image has no description"
    return _SECONDS.sub("… s", unescape(found[1]))
