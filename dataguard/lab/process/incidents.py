"""What the processes of one observation leave behind: marks, records, exceptions, stacks and output.

All of it is in files in the folder of the observation, because a process that died or hangs cannot report. Each process
marks its last action in the `FlightRecorder` and appends its records to a `Spool`. Exceptions of the user's code become
plain data in `incident_of`; `death_of` and `hang_of` describe a process that did not answer, by all of these.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import mmap
import re
import struct
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from errno import EMFILE
from pathlib import Path
from typing import IO, Any
from weakref import WeakValueDictionary

import psutil

from dataguard.core.incident import OWN, Frame, Incident, shown_index
from dataguard.core.model import Undecided, prevented
from dataguard.lab.process.answers import why_unwritten
from dataguard.lab.process.native_threads import threads_of_stuck
from dataguard.process.originals import os, pickle, signal, time
from dataguard.process.process_tree import how_it_ended, is_cleanup_process, process_and_descendants, signal_name
from dataguard.targets.loading import frames_of

SLOTS = 257
"""The main process and 256 workers; any further workers share the last slot."""
RECEIVE = "receive"
"""The stage of a main process that loads a batch."""
_SLOT = struct.Struct("<QI12s128s")  # marks so far, process id, stage, index
_COUNT = struct.Struct("<Q")  # samples so far, behind it
_WIDTH = _SLOT.size + _COUNT.size


@dataclass(frozen=True, slots=True)
class LastMark:
    """The last action that a process recorded, and what it works `on`: an index, or the classes of a batch."""

    worker: int | None
    pid: int
    stage: str
    on: str | None

    @property
    def index(self) -> str | None:
        """The index that it works on."""
        return None if self.stage == RECEIVE else self.on

    @property
    def classes(self) -> str:
        """The classes of the batch that it loads."""
        return (self.on or "") if self.stage == RECEIVE else ""


class FlightRecorder:
    """The recorder of one observation, backed by a file in its `folder` (created if missing).

    Raises Undecided if the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        self._mapped = _mapped.get(folder) or _mapped.setdefault(folder, self._made(folder))
        self._marks = 0

    @staticmethod
    def _made(folder: Path) -> mmap.mmap:
        size = SLOTS * _WIDTH
        try:
            with (folder / "flight_recorder").open("a+b") as file:
                if file.seek(0, os.SEEK_END) < size:
                    file.truncate(size)
                    if hasattr(os, "posix_fallocate"):  # on a full disk, writing to the mapping would be a bus error
                        os.posix_fallocate(file.fileno(), 0, size)
                return mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise why_unwritten(f"no file can be made in {folder.parent}", error) from error

    def mark(self, worker: int | None, stage: str, index: object = None, *, classes: str = "") -> None:
        """Record that this process now does `stage`, with the index or the `classes` it works on."""
        self._marks += 1
        shown = (classes if index is None else shown_index(index)).encode(errors="replace")[:128]
        _SLOT.pack_into(self._mapped, _slot(worker) * _WIDTH, self._marks, os.getpid(), stage.encode()[:12], shown)

    def count(self, worker: int | None, samples: int) -> None:
        """Add to the number of samples that this worker has read."""
        offset = _slot(worker) * _WIDTH + _SLOT.size
        _COUNT.pack_into(self._mapped, offset, _COUNT.unpack_from(self._mapped, offset)[0] + samples)

    def counted(self) -> int:
        """How many samples all processes have read together."""
        return sum(_COUNT.unpack_from(self._mapped, slot * _WIDTH + _SLOT.size)[0] for slot in range(SLOTS))

    def progress(self) -> int:
        """A number that grows while any process makes progress."""
        return sum(_SLOT.unpack_from(self._mapped, slot * _WIDTH)[0] for slot in range(SLOTS))

    def last(self) -> list[LastMark]:
        """The last mark of every process that made one, main process first."""
        marks = []
        for slot in range(SLOTS):
            count, pid, stage, index = _SLOT.unpack_from(self._mapped, slot * _WIDTH)
            if count:
                shown = index.rstrip(b"\0").decode(errors="replace") or None
                marks.append(LastMark(slot - 1 if slot else None, pid, stage.rstrip(b"\0").decode(), shown))
        return marks


_mapped: WeakValueDictionary[Path, mmap.mmap] = WeakValueDictionary()
"""The mappings of this process by folder. A fork has those of its parent, whatever becomes of the path."""


def _slot(worker: int | None) -> int:
    return 0 if worker is None else min(worker + 1, SLOTS - 1)


class Spool:
    """An append-only file of records, one for each writing process; records survive a crash.

    A record is any plain data: a reader picks the types it knows.
    """

    def __init__(self, folder: Path, worker: int | None) -> None:
        name = "main" if worker is None else f"worker{worker}"
        self._path = folder / f"{name}.spool"
        self._spare = os.open(os.devnull, os.O_RDONLY)

    def write(self, *records: object) -> None:
        """Append records. Raises Undecided if the disk is full.

        The file is reopened each time: user code may close descriptors that are not its own, or hold all that there
        are; then the spare one makes room.
        """
        content = b"".join(pickle.dumps(record, protocol=pickle.HIGHEST_PROTOCOL) for record in records)
        try:
            self._append(content)
        except OSError as error:
            if error.errno != EMFILE:
                raise why_unwritten("what was observed could not be written", error) from None
            self.make_room()
            self._append(content)
            self._spare = os.open(os.devnull, os.O_RDONLY)

    def make_room(self) -> None:
        """Close the spare descriptor, so that this process can open one more file."""
        with contextlib.suppress(OSError):
            os.close(self._spare)

    def _append(self, content: bytes) -> None:
        with self._path.open("ab", buffering=0) as file:
            file.write(content)


def read_spools(folder: Path) -> Iterator[object]:
    """Every complete record that the processes of one observation wrote, process by process."""
    for path in sorted(folder.glob("*.spool")):
        with path.open("rb") as file:
            while True:
                try:
                    yield pickle.load(file)
                except (EOFError, pickle.UnpicklingError):  # the end, or a record cut short by a kill
                    break


def incident_of(
    error: BaseException, stage: str, index: Any = None, batch: Sequence[Any] = (), worker: int | None = None
) -> Incident:
    """Describe an exception of the user's code as plain data."""
    words = _words(error)
    bases = [cls.__name__ for cls in type(error).__mro__[1:-1]]
    return Incident(
        stage=stage,
        message=f"{type(error).__name__}: {words}" if words else type(error).__name__,
        frames=frames_of(error),
        index=None if index is None else shown_index(index),
        batch=shown_batch(batch),
        worker=worker,
        error_type=type(error).__name__,
        error_bases=tuple(bases),
    )


def shown_batch(indices: Sequence[Any]) -> tuple[str, ...]:
    """The first indices of a batch for the reader; none in a stream."""
    return tuple(shown_index(item)[:40] for item in indices[:16] if item is not None)


def raised_by_dataguard(error: BaseException, gate: str) -> bool:
    """Whether the innermost frame of an exception is dataguard's own, in a worker if torch sent it from there.

    `gate` is the file of the function that called the user's code: an object that this call itself refuses, such as one
    that is no iterator, is the user's.
    """
    files = [entry.filename for entry in traceback.extract_tb(error.__traceback__)]
    sent = _IN_WORKER.findall(_words(error)) if _SENT.match(_words(error)) else []
    innermost = (sent or files)[-1]
    return innermost.startswith(OWN) and innermost != gate


_SENT = re.compile(r"Caught \w+ in .*\nOriginal Traceback")
"""How torch's message begins that brings a worker's exception to the main process."""
_IN_WORKER = re.compile(r'^  File "(.+)", line \d+', re.MULTILINE)


def _words(error: BaseException) -> str:
    """The `str` of a user-defined exception, whose `__str__` may raise."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - see above; SystemExit would end the process that describes it
        return f"<{type(error).__name__} that cannot be shown>"


_SCARCE = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""Errors of the system that say that it has no more disk, files, memory or processes."""


def is_scarcity(error: BaseException) -> bool:
    """Whether an exception says that the machine has too little of something."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SCARCE)


def too_deep(error: RecursionError) -> str:
    """What a recursion of dataguard, or of a library that it calls, did not get to the end of."""
    *_, innermost = traceback.extract_tb(error.__traceback__)
    return (
        "samples or other objects of the loader are nested too deeply to be examined, or contain themselves: "
        f"RecursionError in {innermost.name}"
    )


def scarcity(error: BaseException) -> Undecided:
    """What is raised for what an observation had too little of."""
    words = ": ".join(filter(None, (type(error).__name__, str(error).partition("\n")[0])))
    return prevented(f"it ran out of resources during an observation: {words}")


DUMP_SIGNAL = getattr(signal, "SIGRTMIN", signal.SIGUSR2)
"""Asks a process to write its Python stacks; a real-time signal, which user code hardly ever claims."""

_LINE = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')
_SCAFFOLD = re.compile(
    rf"{re.escape(OWN)}|^<frozen runpy>|^<string>|[/\\]threading\.py:(run|_bootstrap\w*)$"
    r"|[/\\]multiprocessing[/\\](context|popen_\w+|process|spawn|forkserver)\.py"
)
"""Frames in every stack, `file:function`, which do not concern the user's loader."""
_kept_open: list[IO[str]] = []


def register_stack_dumps(folder: Path) -> None:
    """Let this process write its stacks into a file of its own when `DUMP_SIGNAL` arrives, or when it crashes."""
    file = (folder / f"{os.getpid()}.stacks").open("w", encoding="utf-8")
    faulthandler.register(DUMP_SIGNAL, file=file, all_threads=True, chain=False)
    faulthandler.disable()  # enabling twice keeps the handlers, which torch replaces in every worker
    faulthandler.enable(file)
    _kept_open.append(file)  # faulthandler holds only the descriptor


def ask_for_stacks(process: psutil.Process, folder: Path) -> str:
    """The stacks of a running process; empty if it never registered: the signal would only kill it."""
    file = folder / f"{process.pid}.stacks"
    if not file.exists():
        return ""
    with contextlib.suppress(psutil.Error):
        process.send_signal(DUMP_SIGNAL)
    deadline = time.monotonic() + 1  # a process that does not run, as one that waits for a disk, never writes them
    while not file.stat().st_size and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.02)  # the rest of the stacks follows the first bytes at once
    return stacks_left_by(process.pid, folder)


def stacks_left_by(pid: int, folder: Path) -> str:
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


def frames_of_stacks(stacks: str) -> tuple[Frame, ...]:
    """The frames of the thread that crashed, else of the oldest one, outermost first."""
    sections = re.split(r"\n(?=Thread|Current thread)", stacks)
    chosen = next((section for section in sections if "Current thread" in section), sections[-1])
    matches = [match for line in chosen.splitlines() if (match := _LINE.fullmatch(line))]
    return tuple(Frame(match["file"], int(match["line"]), match["function"]) for match in reversed(matches))


OUTPUT = "output"
"""The file in the folder of an observation into which its processes print."""


def death_of(pid: int, status: int, recorder: FlightRecorder, folder: Path) -> Incident:
    """The incident of a main process that ended without an answer."""
    mark = recorder.last()[0]
    left = stacks_left_by(pid, folder)
    return Incident(
        stage=mark.stage,
        message=f"the main process {how_it_ended(status)}",
        frames=frames_of_stacks(left),
        index=mark.index,
        classes=mark.classes,
        signal=signal_name(-status) if status < 0 else None,
        exit_code=status if status >= 0 else None,
        stacks=left,
        output=end_of_output(folder),
    )


def hang_of(pid: int, recorder: FlightRecorder, folder: Path, seconds: float) -> Incident:
    """The incident of a loader without progress: what each process did and its stacks, the stuck one first."""
    marks = recorder.last()
    working = (mark for mark in marks if mark.worker is not None and mark.stage in _WORKING)
    stuck = marks[0] if marks[0].stage == RECEIVE else next(working, marks[0])
    first = stuck.pid if stuck.worker is not None else pid
    workers = {mark.pid: mark.worker for mark in marks}
    asked = {
        process.pid: ask_for_stacks(process, folder)
        for process in process_and_descendants(pid)
        if not is_cleanup_process(process)
    }
    order = sorted((number for number in asked if asked[number]), key=lambda number: (number != first, number))
    return Incident(
        stage=stuck.stage,
        message=f"no progress for {seconds:.0f} s",
        frames=frames_of_stacks(asked.get(first, "")),
        index=stuck.index,
        worker=stuck.worker,
        classes=stuck.classes,
        stacks="\n\n".join(
            f"{_process_name(number, pid, workers)} (pid {number})\n{asked[number]}" for number in order
        ),
        output=end_of_output(folder),
        threads=threads_of_stuck(first, pid, folder) if first != pid else "",
    )


_WORKING = ("init", "sample", "collate")
"""The stages in which a worker runs the user's code."""


def _process_name(process: int, main: int, workers: dict[int, int | None]) -> str:
    worker = workers.get(process)
    return f"worker {worker}" if worker is not None else "main process" if process == main else "process"


def end_of_output(folder: Path, lines: int = 12, name: str = OUTPUT) -> str:
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
    words = end_of_output(folder, 1, name).strip()
    return f"; its last words: {words}" if words else ""


def end_of(output: Path) -> bytes:
    """The end of what was printed."""
    with output.open("rb") as file:
        file.seek(-min(8192, output.stat().st_size), os.SEEK_END)
        return file.read()
