"""What processes were executing: Python stacks, requested by a signal or written by a crash."""

from __future__ import annotations

import contextlib
import faulthandler
import re
from pathlib import Path
from typing import IO

import psutil

from dataguard.incident import OWN, Frame
from dataguard.process.originals import os, signal, time

DUMP_SIGNAL = getattr(signal, "SIGRTMIN", signal.SIGUSR2)
"""Asks a process to write its Python stacks; a real-time signal, which user code hardly ever claims."""

_LINE = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')
_SCAFFOLD = re.compile(
    rf"{re.escape(OWN)}|^<frozen runpy>|^<string>|[/\\]threading\.py:(run|_bootstrap\w*)$"
    r"|[/\\]multiprocessing[/\\](context|popen_\w+|process|spawn|forkserver)\.py"
)
"""Frames in every stack, `file:function`, which do not concern the user's loader."""
_kept_open: list[IO[str]] = []


def register(folder: Path) -> None:
    """Let this process write its stacks into a file of its own when `DUMP_SIGNAL` arrives, or when it crashes."""
    file = (folder / f"{os.getpid()}.stacks").open("w", encoding="utf-8")
    faulthandler.register(DUMP_SIGNAL, file=file, all_threads=True, chain=False)
    faulthandler.disable()  # enabling twice keeps the handlers, which torch replaces in every worker
    faulthandler.enable(file)
    _kept_open.append(file)  # faulthandler holds only the descriptor


def ask(process: psutil.Process, folder: Path) -> str:
    """The stacks of a running process; empty if it never registered: the signal would only kill it."""
    file = folder / f"{process.pid}.stacks"
    if not file.exists():
        return ""
    with contextlib.suppress(psutil.Error):
        process.send_signal(DUMP_SIGNAL)
    deadline = time.monotonic() + 1
    while not file.stat().st_size and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.02)
    return left(process.pid, folder)


def left(pid: int, folder: Path) -> str:
    """The stacks that a process wrote; empty after SIGKILL and exit calls, which leave no time for it."""
    try:
        text = (folder / f"{pid}.stacks").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    sections = (_tidied(section) for section in re.split(r"\n(?=Thread|Current thread)", text))
    return "\n".join(section for section in sections if section)


def _tidied(section: str) -> str:
    """One thread's stack without these frames; empty if none remain."""
    kept = []
    for line in section.splitlines():
        frame = _LINE.fullmatch(line)
        if line.startswith(("Extension modules:", "  C", "  <", "Current thread's C")):
            break
        if line and not (frame and _SCAFFOLD.search(f"{frame['file']}:{frame['function']}")):
            kept.append(line)
    return "\n".join(kept) if any(_LINE.fullmatch(line) for line in kept) else ""


def frames(stacks: str) -> tuple[Frame, ...]:
    """The frames of the thread that crashed, else of the oldest one, outermost first."""
    sections = re.split(r"\n(?=Thread|Current thread)", stacks)
    chosen = next((section for section in sections if "Current thread" in section), sections[-1])
    matches = [match for line in chosen.splitlines() if (match := _LINE.fullmatch(line))]
    return tuple(Frame(match["file"], int(match["line"]), match["function"]) for match in reversed(matches))
