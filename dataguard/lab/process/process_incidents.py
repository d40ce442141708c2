"""Describes a process of an observation that died or hung: what it was doing, its stacks, and its last output."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from dataguard.incident import Incident
from dataguard.lab.process import stack_dumps
from dataguard.lab.process.flight_recorder import RECEIVE, FlightRecorder
from dataguard.process.originals import os
from dataguard.process.process_tree import how_it_ended, is_cleanup_process, process_and_descendants, signal_name

OUTPUT = "output"
"""The file in the folder of an observation into which its processes print."""


def death_of(pid: int, status: int, recorder: FlightRecorder, folder: Path) -> Incident:
    """The incident of a main process that ended without an answer."""
    mark = recorder.last()[0]
    left = stack_dumps.left(pid, folder)
    return Incident(
        stage=mark.stage,
        message=f"the main process {how_it_ended(status)}",
        frames=stack_dumps.frames(left),
        index=mark.index,
        classes=mark.classes,
        signal=signal_name(-status) if status < 0 else None,
        exit_code=status if status >= 0 else None,
        stacks=left,
        output=tail(folder),
    )


def hang_of(pid: int, recorder: FlightRecorder, folder: Path, seconds: float) -> Incident:
    """The incident of a loader without progress: what each process did and its stacks, the stuck one first."""
    marks = recorder.last()
    working = (mark for mark in marks if mark.worker is not None and mark.stage in _WORKING)
    stuck = marks[0] if marks[0].stage == RECEIVE else next(working, marks[0])
    first = stuck.pid if stuck.worker is not None else pid
    workers = {mark.pid: mark.worker for mark in marks}
    asked = {
        process.pid: stack_dumps.ask(process, folder)
        for process in process_and_descendants(pid)
        if not is_cleanup_process(process)
    }
    order = sorted((one for one in asked if asked[one]), key=lambda one: (one != first, one))
    return Incident(
        stage=stuck.stage,
        message=f"no progress for {seconds:.0f} s",
        frames=stack_dumps.frames(asked.get(first, "")),
        index=stuck.index,
        worker=stuck.worker,
        classes=stuck.classes,
        stacks="\n\n".join(f"{_who(one, pid, workers)} (pid {one})\n{asked[one]}" for one in order),
        output=tail(folder),
    )


_WORKING = ("init", "sample", "collate")


def _who(process: int, main: int, workers: dict[int, int | None]) -> str:
    worker = workers.get(process)
    return f"worker {worker}" if worker is not None else "main process" if process == main else "process"


def tail(folder: Path, lines: int = 12, name: str = OUTPUT) -> str:
    """The last lines that the user's code printed."""
    try:
        text = end_of(folder / name).decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def last_words(folder: Path, name: str = OUTPUT) -> str:
    """What this process printed last, as a script does before it exits: `; its last words: train.py: error: ...`."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the user's code may have replaced or closed it
            stream.flush()
    words = tail(folder, 1, name).strip()
    return f"; its last words: {words}" if words else ""


def end_of(output: Path) -> bytes:
    """The end of what was printed."""
    with output.open("rb") as file:
        file.seek(-min(8192, output.stat().st_size), os.SEEK_END)
        return file.read()
