"""Run a function in a fork of this process: deadlines, crashes, stacks of what hangs, and nothing left behind."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import select
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import psutil

from dataguard.lab.blackbox import BlackBox
from dataguard.model import DataguardError, Incident, LoaderDied, LoaderHung
from dataguard.processes import die_with_parent, end_descendants, family, how_it_ended, is_janitor, signal_name

T = TypeVar("T")

DUMP_SIGNAL = getattr(signal, "SIGRTMIN", signal.SIGUSR2)
"""Asks a process to write its Python stacks; a real-time signal, which user code hardly ever claims."""

PATIENCE = 3
"""A loader that makes no progress but burns CPU or reads files gets this many times the timeout."""


class OutOfTime(DataguardError):
    """The observation was cut short by its budget; what it wrote so far is there."""


class Broke(DataguardError):
    """Code of dataguard's own raised inside an observation; the message is the traceback."""


def register_stack_dump(folder: Path) -> None:
    """Let this process write its stacks into a file of its own when `DUMP_SIGNAL` arrives."""
    file = (folder / f"{os.getpid()}.stacks").open("w", encoding="utf-8")
    faulthandler.register(DUMP_SIGNAL, file=file, all_threads=True, chain=False)
    _kept_open.append(file)  # faulthandler holds only the descriptor


_kept_open: list[IO[str]] = []


def isolated(function: Callable[[], T], folder: Path, *, timeout: float, allowed: float) -> T:
    """Run `function` in a fork and return what it returns.

    `folder` is the observation's scratch folder, which holds its `BlackBox`. `timeout` is the number of seconds
    without progress after which `LoaderHung` is raised; after `allowed` seconds in all, `OutOfTime`. A process that
    ends without an answer raises `LoaderDied`; a `DataguardError` raised by the function passes through.
    """
    box = BlackBox(folder / "blackbox")
    box.mark(None, "factory")
    receiving, sending = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receiving)
        _child(function, sending, folder)
    os.close(sending)
    try:
        answer = _await(receiving, pid, box, folder, timeout, allowed)
        status = _reap(pid)
    finally:
        os.close(receiving)
        end_descendants(psutil.Process())
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    try:
        kind, value = pickle.loads(answer)
    except (EOFError, pickle.UnpicklingError):  # it ended before it could answer, or in the middle of answering
        raise LoaderDied(_death(status, box, folder)) from None
    if kind == "returned":
        result: T = value
        return result
    if kind == "failed":
        raise value
    raise Broke(value)


def _child(function: Callable[[], Any], sending: int, folder: Path) -> None:
    """The life of the fork; never returns."""
    os.setsid()
    die_with_parent()
    register_stack_dump(folder)
    with (folder / "output").open("wb", buffering=0) as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    try:
        answer: tuple[str, Any] = ("returned", function())
    except DataguardError as error:
        answer = ("failed", error)
    except BaseException:  # noqa: BLE001 - a bug of ours: it must reach the report as BROKEN, not vanish
        answer = ("broke", traceback.format_exc())
    with contextlib.suppress(BrokenPipeError), os.fdopen(sending, "wb") as pipe:
        pickle.dump(answer, pipe)
    os._exit(0)


def _await(receiving: int, pid: int, box: BlackBox, folder: Path, timeout: float, allowed: float) -> bytes:
    """Collect the answer until the pipe closes; raises when nothing moves or the time is up."""
    received = bytearray()
    started = moved = time.monotonic()
    progress, effort, busy_since = box.progress(), _effort(pid), moved
    while True:
        if select.select([receiving], [], [], 0.05)[0]:
            chunk = os.read(receiving, 1 << 20)
            received += chunk
            if not chunk:
                return bytes(received)
        now = time.monotonic()
        if (current := box.progress()) != progress:
            progress, moved, busy_since = current, now, now
            effort = _effort(pid)
        if now - started > allowed and progress > 2:
            raise OutOfTime(f"cut short after {allowed:.0f} s")
        if now - moved > timeout:
            spent = _effort(pid)
            if spent - effort < 0.2 * timeout or now - busy_since > PATIENCE * timeout:
                raise LoaderHung(_hang(pid, box, folder, now - busy_since))
            moved, effort = now, spent
        if _ended(pid) and not select.select([receiving], [], [], 0.1)[0]:
            return bytes(received)  # a stray descendant still holds the pipe open


def _effort(pid: int) -> float:
    """CPU seconds plus megabytes read by the process and its descendants: grows while something is being done."""
    total = 0.0
    for process in family(pid):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
            if hasattr(process, "io_counters"):
                total += process.io_counters().read_chars / 1e6
    return total


def _ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def _reap(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _death(status: int, box: BlackBox, folder: Path) -> Incident:
    """What is known of a main process that ended without an answer."""
    mark = box.last()[0]
    name = signal_name(-status) if status < 0 else None
    return Incident(
        stage=mark.stage,
        message=f"the main process {how_it_ended(status)}",
        index=mark.index,
        signal=name,
        exit_code=status if status >= 0 else None,
        output=tail(folder),
    )


def _hang(pid: int, box: BlackBox, folder: Path, seconds: float) -> Incident:
    """Who was doing what, and every stack, when the loader stopped moving."""
    marks = box.last()
    stuck = next((mark for mark in marks if mark.worker is not None and mark.stage in _WORKING), marks[0])
    return Incident(
        stage=stuck.stage,
        message=f"no progress for {seconds:.0f} s",
        index=stuck.index,
        worker=stuck.worker,
        stacks=_stacks(pid, {mark.pid: mark.worker for mark in marks}, folder),
        output=tail(folder),
    )


_WORKING = ("init", "sample", "collate")


def _stacks(pid: int, workers: dict[int, int | None], folder: Path) -> str:
    """Ask every process of the observation for its Python stacks."""
    sections = []
    for process in family(pid):
        if is_janitor(process):
            continue
        worker = workers.get(process.pid)
        who = f"worker {worker}" if worker is not None else "main process" if process.pid == pid else "process"
        file = folder / f"{process.pid}.stacks"
        if not file.exists():  # it never reached our registration: the signal would only kill it
            continue
        with contextlib.suppress(psutil.Error):
            process.send_signal(DUMP_SIGNAL)
        deadline = time.monotonic() + 1
        while not file.stat().st_size and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.02)
        sections.append(f"{who} (pid {process.pid})\n{file.read_text(encoding='utf-8', errors='replace').strip()}")
    return "\n\n".join(sections)


def tail(folder: Path, lines: int = 12) -> str:
    """The last lines that the user's code printed."""
    try:
        text = (folder / "output").read_bytes()[-8192:].decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
