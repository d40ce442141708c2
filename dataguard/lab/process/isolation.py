"""Run a function in a fork of this process, with deadlines, crash reports, stacks of hangs, and cleanup.

`isolated` makes an observation, `fork_and_replace` lets the fork take the place of this process, and `in_fork` only
keeps what a function changes from lasting. A fork inherits the handlers of `atexit` and the finalizers of `weakref`,
which would remove the temporary folders that its parent still needs: it drops these and runs only those that were
registered in it, for a limited time.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import math
import select
import traceback
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import psutil
from greenlet import GreenletExit

from dataguard.core.incident import OWN, LoaderDied, LoaderHung, LoaderRaised, is_library
from dataguard.core.model import DataguardError, Undecided, prevented
from dataguard.lab.process.answers import (
    BUG,
    FAILED,
    RETURNED,
    STAYS,
    UNWRITTEN,
    answer_in,
    changed_surroundings,
    expect_answer,
    has_answered,
    kind_in,
    note_surroundings,
    why_unwritten,
    write_answer,
)
from dataguard.lab.process.endless_reads import EndlessRead, answer_by
from dataguard.lab.process.incidents import (
    OUTPUT,
    FlightRecorder,
    death_of,
    end_of,
    hang_of,
    incident_of,
    is_scarcity,
    last_words,
    register_stack_dumps,
    scarcity,
    too_deep,
)
from dataguard.lab.process.native_threads import note_threads
from dataguard.lab.process.side_by_side import pause, remove_handlers
from dataguard.lab.process.write_protection import WriteRefused, allow_writes
from dataguard.process.originals import os, pickle, signal, time
from dataguard.process.process_tree import (
    await_managers,
    descendants,
    die_with_parent,
    end_descendants,
    end_fork,
    handle_children_as_user,
    has_only,
    longest_wait,
    wait_for_children,
    work_done,
)
from dataguard.process.shm_cleanup import SharedTensors
from dataguard.settings.settings import PATIENCE

T = TypeVar("T")
DISMISSED = (KeyboardInterrupt, GreenletExit)
"""What is raised in this process, and in the other jobs of it, once nobody waits for its observations."""


class OutOfTime(DataguardError):
    """The observation was cut short by its budget; what it wrote remains."""


_running: dict[int, int | None] = {}
"""The observations that run now, by process id, which is that of their session, each with a descriptor that can be read
once it has ended, where the system has such."""
_bystanders: list[psutil.Process] = []
"""What ran before the first of them, such as a Manager of the user's module, which serves every observation."""


def isolated(
    function: Callable[[], T],
    folder: Path,
    *,
    timeout: float,
    allowed: float,
    meanwhile: Callable[[], None] = lambda: None,
) -> T:
    """Run `function` in a fork and return what it returns; `meanwhile` is called repeatedly until then.

    `folder` is the observation's scratch folder, which holds its `FlightRecorder`. `timeout` is the number of seconds
    without progress after which `LoaderHung` is raised; after `allowed` seconds in all, `OutOfTime`. A process that
    ends without an answer raises `LoaderDied`; a `DataguardError` raised by the function passes through.
    """
    recorder = FlightRecorder(folder)
    recorder.mark(None, "factory")
    slot = expect_answer(folder)
    if not _running:
        _bystanders[:] = [] if has_only(()) else descendants()
    parent, tensors = os.getpid(), SharedTensors()
    pid = _fork()
    if pid == 0:
        run_child(function, folder, parent)
    _running[pid] = _ending_of(pid)
    try:
        status = _await(pid, recorder, folder, timeout, allowed, meanwhile)
        meanwhile()
    except DISMISSED:
        interrupt(pid)
        raise
    finally:
        ending = _running.pop(pid)
        if ending is not None:
            os.close(ending)
        # Whatever left the session of its observation is ended with the last one that runs.
        others = {*_running, *(process.pid for process in _bystanders)}
        session = pid if _running else None
        ended = set() if has_only(others) else end_descendants(_bystanders, session, tensors.note_held)
        end_fork(pid)
        workers = {mark.pid for mark in recorder.last() if mark.worker is not None}
        tensors.remove({pid, *ended, *workers}, folder, folder.parent)
    answer: T = _answered(pid, status, recorder, folder)
    del slot  # here, as the answer is in it
    return answer


def fork_and_replace(function: Callable[[], T], stays: Callable[[T], bool], folder: Path, *, timeout: float) -> T:
    """Run `function` in a fork that replaces this process, if its result `stays`.

    The fork returns the result, and this process does not return: it waits for the fork to end, and ends in the same
    way. Otherwise, as with `isolated`, the fork ends and this process returns the result.
    """
    recorder = FlightRecorder(folder)
    recorder.mark(None, "factory")
    slot = expect_answer(folder)
    bystanders, parent, streams = descendants(), os.getpid(), (os.dup(1), os.dup(2))
    pid = _fork(replaces=True)
    if pid == 0:
        value: T = _run_replacement(function, stays, folder, parent)
        for number, stream in enumerate(streams, 1):
            os.dup2(stream, number)
            os.close(stream)
        return value
    for stream in streams:
        os.close(stream)
    try:
        status = _await(pid, recorder, folder, timeout, math.inf, lambda: None, until_answered=True)
        if has_answered(folder):
            if kind_in(folder) == STAYS:
                end_like(awaited(pid))
            let_exit(pid)
    except DISMISSED:
        interrupt(pid)
        raise
    finally:
        end_descendants(spare=bystanders)
        end_fork(pid)
    answer: T = _answered(pid, status, recorder, folder)
    del slot  # here, as the answer is in it
    return answer


replacing = [False]
"""Whether the fork that is being made takes the place of this process, and so keeps what other forks close."""


def _fork(*, replaces: bool = False) -> int:
    """`os.fork`. Raises Undecided where no process can be started."""
    replacing[0] = replaces
    try:
        return os.fork()
    except OSError as error:
        raise scarcity(error) from error
    finally:
        replacing[0] = False


def _ending_of(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:  # an old kernel, or a sandbox that forbids it
        return None


def _answered(pid: int, status: int, recorder: FlightRecorder, folder: Path) -> Any:
    """What a fork that has ended returned. Raises what it raised, or why there is no answer."""
    if has_answered(folder):
        return answer_in(folder)
    if status == UNWRITTEN:
        raise prevented(f"an observation could not write its result: is the disk of {folder.parent.parent} full?")
    raise LoaderDied(death_of(pid, status, recorder, folder))


def run_child(function: Callable[[], Any], folder: Path, parent: int) -> NoReturn:
    """The life of a fork: call the function, write the outcome into the folder, and run its own exit handlers."""
    try:
        child = _begin(folder, parent)
        for other, ending in _running.items():
            if ending is not None:
                os.close(ending)
                _running[other] = None
        _keep_inherited()
        allow_writes(folder)
        answer_by(lambda ended: write_answer((FAILED, Undecided(ended.in_words)), folder))
        answer = _outcome(function, folder)
        if os.getpid() == child:  # not in a fork that the user's code forgot to end
            write_answer(answer, folder)
            run_exit_handlers()
    finally:
        os._exit(0)


def _run_replacement(function: Callable[[], T], stays: Callable[[T], bool], folder: Path, parent: int) -> T:
    """In the fork: the result of the function, if it stays; otherwise this process ends."""
    stayed = False
    try:
        child, inherited = _begin(folder, parent), InheritedHandlers()
        answer = _outcome(function, folder)
        if os.getpid() == child:
            kind, value = answer
            stayed = kind == RETURNED and stays(value)
            wait_for_children()
            write_answer((STAYS, None) if stayed else answer, folder)
            if not stayed:
                inherited.drop()
                run_exit_handlers()
    finally:
        if not stayed:
            os._exit(0)
    return cast(T, value)


def _begin(folder: Path, parent: int) -> int:
    """Set up a fork, and return its process id: it ends with its parent, and its output goes into the folder."""
    os.setsid()
    remove_handlers()
    die_with_parent(parent)
    handle_children_as_user()
    register_stack_dumps(folder)
    note_threads(folder)
    note_surroundings()
    with (folder / OUTPUT).open("ab", buffering=0) as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    return os.getpid()


def _outcome(function: Callable[[], Any], folder: Path) -> tuple[str, Any]:
    try:
        return RETURNED, function()
    except DataguardError as error:
        if isinstance(error, LoaderRaised) and error.incident.error_type == "SystemExit":
            error.incident = replace(error.incident, message=error.incident.message + last_words(folder))
        return FAILED, error  # itself: its frames keep iterators alive, which would wait for their workers to end
    except (WriteRefused, EndlessRead) as ended:
        return FAILED, Undecided(ended.in_words)
    except BaseException as error:  # noqa: BLE001 - whatever it is must reach the report, not vanish with the process
        if not _is_theirs(error):
            if changed_surroundings():
                return FAILED, why_unwritten("what was observed could not be kept", error)
            if isinstance(error, RecursionError):
                return FAILED, Undecided(too_deep(error))
            return (FAILED, scarcity(error)) if is_scarcity(error) else (BUG, traceback.format_exc())
        mark = FlightRecorder(folder).last()[0]
        return FAILED, LoaderRaised(replace(incident_of(error, mark.stage), index=mark.index))


def _is_theirs(error: BaseException) -> bool:
    """Whether the user's code raised, called from ours: one of its frames is below our last."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    ours = max(depth for depth, file in enumerate(files) if file.startswith(OWN))
    return not all(map(is_library, files[ours + 1 :]))


def _await(
    pid: int,
    recorder: FlightRecorder,
    folder: Path,
    timeout: float,
    allowed: float,
    meanwhile: Callable[[], None],
    *,
    until_answered: bool = False,
) -> int:
    """Wait for the fork and return its exit status; raises without progress or when the time is up.

    `until_answered` returns 0 as soon as the fork has answered, even if it still runs; so does one that is due.

    A fork hangs if none of its processes made a mark for `timeout` seconds, nor computed or read much: a slow sample
    does either. One that works without a mark gets as much time again, up to `PATIENCE` times: a loop that never ends
    works, too. The time for which it waits for a core that others have does not count there: on a busy machine spawned
    workers import torch for a minute.
    """
    started = moved = busy_since = time.monotonic()
    progress = recorder.progress()
    spent: float | None = None  # slow to measure, and needed only without progress
    waited = 0.0
    looked, ending = False, _running.get(pid)
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        now = time.monotonic()
        if (current := recorder.progress()) != progress:
            progress, moved, busy_since, spent = current, now, now, None
        # What is cut short before the loader has begun shows nothing: it gets its marks first, or hangs.
        idle, late = now - moved, now - started > allowed and progress > 2
        if (until_answered or late or idle > timeout) and has_answered(folder):
            return 0
        if late:
            raise OutOfTime(f"cut short after {allowed:.0f} s")
        if spent is None and idle > _PAUSE * timeout:
            spent, waited = work_done(pid), longest_wait(pid)
        if spent is not None and idle > timeout and (idle > _TORCH_NOTICES or _all_alive(recorder)):
            before, spent = spent, work_done(pid)
            disturbed = max(0.0, longest_wait(pid) - waited)
            if spent - before < _WORKING * timeout or now - busy_since - disturbed > PATIENCE * timeout:
                raise LoaderHung(hang_of(pid, recorder, folder, now - busy_since))
            moved = now
        _keep_short(folder / OUTPUT)
        meanwhile()
        glance = _GLANCE if ending is not None else min(max(_PRECISION * (now - started), 0.001), _GLANCE)
        pause(glance, idle=looked, until=ending)
        looked = True


def _all_alive(recorder: FlightRecorder) -> bool:
    """Whether every worker that made a mark still runs."""
    workers = {mark.pid for mark in recorder.last() if mark.worker is not None}
    return workers <= {process.pid for process in descendants()}


_GLANCE = 0.02
"""The most seconds between two polls of a fork: more would delay short observations, fewer cost CPU time."""
_PRECISION = 0.05
"""The share of an observation's time that may pass before its end is noticed, where no descriptor says so."""
_PAUSE = 0.2
"""The share of the timeout without progress after which it matters whether the processes are busy.

Most loaders make a mark before, and their processes, which takes milliseconds to measure, are never looked at.
"""
_WORKING = 0.2
"""What a busy process does for each second of the timeout: CPU seconds, or megabytes read. A poll loop takes less."""
_TORCH_NOTICES = 6.0
"""Seconds after which torch's main process has noticed a worker that exited silently; it polls every 5 s."""
_MOST_OUTPUT = 64_000_000
"""Bytes of output from which on it is cut: only its last lines are shown, and the disk may be small."""


def _keep_short(output: Path) -> None:
    """Truncate the output file of the user's code to its end before it fills the disk.

    The code keeps appending; what it prints at this very moment may be lost.
    """
    with contextlib.suppress(OSError):
        if output.stat().st_size > _MOST_OUTPUT:
            words = end_of(output)
            os.truncate(output, 0)
            with output.open("ab") as file:
                file.write(words)


def in_fork(function: Callable[[], T], seconds: float | None = None) -> T | None:
    """What a function returns in a fork of this process; None if it raises, dies, or takes more `seconds`.

    Raises WriteRefused or EndlessRead if the function does.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _keep_inherited()
        try:
            os.close(reading)
            try:
                returned = pickle.dumps((function(), None))
            except (WriteRefused, EndlessRead) as ended:
                returned = pickle.dumps((None, ended))
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(returned)
            run_exit_handlers()
        finally:
            os._exit(0)
    os.close(writing)
    answer = _read(reading, seconds)
    os.close(reading)
    if answer is None:
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):  # user code that ignores SIGCHLD leaves nothing to wait for
        os.waitpid(pid, 0)
    result: T | None
    result, ended_ = pickle.loads(answer) if answer else (None, None)
    if ended_ is not None:
        raise ended_
    return result


def _read(pipe: int, seconds: float | None) -> bytes | None:
    """All that is written to a pipe; None if it is still open after so many seconds."""
    parts, written = [b""], select.poll()
    written.register(pipe, select.POLLIN | select.POLLHUP)
    due = time.monotonic() + (seconds or 0)
    while seconds is None or written.poll(1000 * max(0, due - time.monotonic())):
        parts.append(os.read(pipe, 1 << 16))
        if not parts[-1]:
            return b"".join(parts)
    return None


class InheritedHandlers:
    """The exit handlers and finalizers that are registered so far."""

    def __init__(self) -> None:
        self._finalizers = tuple(getattr(weakref.finalize, "_registry", {}).values())
        self._dropped = False
        atexit.register(self._stop)
        weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined] # it does so again, after this

    def drop(self) -> None:
        """Let none of them run in this process, nor when their objects are freed."""
        self._dropped = True
        for finalizer in self._finalizers:
            finalizer.func = _nothing

    def _stop(self) -> None:
        """Runs after the handlers that were registered later, and before these."""
        if self._dropped:
            gc.collect()  # a temporary file goes with its object, which nothing but a circle may hold
            os._exit(0)


def _keep_inherited() -> None:
    """Have this fork free and finalize only what it creates itself; the rest is its parent's.

    Without the freeze, the collection when it exits would walk the parent's heap: 0.1 s after imports of torchvision.
    """
    gc.freeze()
    InheritedHandlers().drop()


def _nothing(*_: Any, **__: Any) -> None:
    pass


GRACE = 2.0
"""Seconds that exit handlers may take: they remove temporary folders, while the answer is there already."""


def run_exit_handlers() -> None:
    """Run what is registered in this process, which the kernel ends if that takes longer than `GRACE`."""
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, GRACE)
    with contextlib.suppress(Exception):  # what they raise is written to the output
        atexit._run_exitfuncs()


def let_exit(pid: int, seconds: float = GRACE) -> None:
    """Wait at most so long for a fork to exit."""
    deadline = time.monotonic() + seconds
    with contextlib.suppress(ChildProcessError):
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < deadline:
            time.sleep(0.005)


_MOMENT = 0.5
"""Seconds in which an interrupted fork may exit: the user who pressed Ctrl-C waits for it."""


def interrupt(pid: int) -> None:
    """Interrupt a fork, and give it a moment to remove what it has made."""
    await_managers(descendants())
    os.kill(pid, signal.SIGINT)
    let_exit(pid, _MOMENT)


def awaited(pid: int) -> int:
    """Wait for the fork that replaced this process; returns its exit status. It is interrupted in place of this one."""
    while True:
        try:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except KeyboardInterrupt:
            os.kill(pid, signal.SIGINT)


def end_like(status: int) -> NoReturn:
    """End this process as another one ended, by its exit code or, if negative, its signal."""
    if status < 0:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(abs(status))
