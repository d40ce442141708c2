"""Start reaper processes: each on its own, or all of a run forked from one zygote. Standard library only.

`start` returns a `Reaper`, the handle of one. `shared_zygote` and `exported_zygote` keep a process that has imported
torch, from which later reapers are forked. `command` is how any process of ours is started: `python -m` and `python -c`
import from the working folder first, where a `queue.py` would replace the module that our processes need, and would be
executed even where no target is loaded from that folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path

from dataguard.machine.units import counted

ROOT = str(Path(__file__).parents[2])
"""The folder that this package is imported from."""
_BOOT = """
import sys
if sys.path[:1] == [""]:  # the working folder; with PYTHONSAFEPATH or -P, Python puts none there
    del sys.path[0]
from importlib import import_module, util
from importlib.machinery import PathFinder
root, module, *arguments = sys.argv[1:]
spec = PathFinder.find_spec("dataguard", [root])
package = sys.modules["dataguard"] = util.module_from_spec(spec)
spec.loader.exec_module(package)
if root not in sys.path:  # spawned workers look for it there
    sys.path.append(root)
import_module(module).main(*arguments)
"""
"""Calls `main` of a module of this dataguard, even where the process can import another one, or none."""


def command(module: str, *arguments: object) -> list[str]:
    """The command that calls `main` of a module of ours with these arguments, as strings, in a new process.

    Spawned workers of such a process have no main module to import.
    """
    return [sys.executable, "-c", _BOOT, ROOT, module, *map(str, arguments)]


_INHERITED = ("PYTHON", "TORCH", "PYTORCH", "CUDA", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "NUMEXPR_", "LD_", "DYLD_")
"""Prefixes of environment variables that are read at process start; a fork cannot apply them later."""
_LARGEST_PID = 20
"""Bytes of the answer of a zygote, a PID."""
ADDRESS = "DATAGUARD_ZYGOTE"
"""The environment variable with the socket of a zygote that other processes of the run share."""


def new_folder() -> Path:
    """The path of a temporary folder that nobody can guess.

    It is made once the process runs that removes it: whoever is killed in between leaves nothing behind.
    """
    return Path(tempfile.gettempdir(), f"dataguard-{secrets.token_hex(8)}")


class Reaper:
    """The reporting process's handle of a reaper: closing `stdin` stops it, and it closes `stdout` when it is done.

    `left` are the names of shared tensors that it has left, once it is done: they may be those of other programs.
    """

    def __init__(self, pid: int, stdin: int, stdout: int, process: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self.stdin = os.fdopen(stdin, "wb", buffering=0)
        self.stdout = os.fdopen(stdout, "rb", buffering=0)
        self.left: tuple[str, ...] = ()
        self._said = b""
        self._process = process
        _alive.add(self)

    def status(self, seconds: float) -> str | None:
        """The exit code of the observing process, as soon as it is reported, or empty if the reaper itself ended.

        None if neither has happened after so many seconds.
        """
        while b"\n" not in self._said:
            if not wait([self.stdout.fileno()], seconds):
                return None
            if not self._hears():
                return ""
        return self._said.partition(b"\n")[0].decode()

    def dismiss(self, seconds: float) -> None:
        """Stop it together with all its descendants, and wait until they have ended."""
        self.stdin.close()
        while wait([self.stdout.fileno()], seconds):
            if not self._hears():
                break
        else:  # a descendant cannot even be killed, for instance because of a dead network mount
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        with contextlib.suppress(ChildProcessError):  # one that was forked by the zygote is no child of this process
            os.waitpid(self.pid, 0)
        self.stdout.close()
        self.left = tuple(self._said.decode(errors="replace").splitlines()[1:])
        _alive.discard(self)

    def _hears(self) -> bool:
        """Read what it has written; False if it is done."""
        said = self.stdout.read(1 << 16)
        self._said += said
        return bool(said)


Here = Callable[[Path, int, int, int], None]
"""Turns a fork of this process into a reaper, given its folder, its standard input and output, and the socket."""


def start(folder: Path, descriptor: int, patience: float, here: Here | None = None) -> Reaper:
    """Start a reaper with the socket `descriptor`; it waits for its session folder to be made.

    `patience` are the seconds that a zygote may take to answer, which it does once it has imported torch. With `here`,
    the reaper is a fork of this process, and so is the observing process, which then has what is in memory here.
    """
    stdin, own_in = os.pipe()
    own_out, stdout = os.pipe()
    try:
        if here:
            mine = [own_in, own_out, *(pipe.fileno() for reaper in _alive for pipe in (reaper.stdin, reaper.stdout))]
            return Reaper(_fork_here(partial(here, folder, stdin, stdout, descriptor), mine), own_in, own_out)
        descriptors = (stdin, stdout, descriptor)
        for fork in (_forked_by_address, *(zygote.fork for zygote in _open)):
            with contextlib.suppress(OSError, EOFError, ValueError):  # the zygote died: start the reaper on its own
                pid = fork(folder, descriptors, patience)
                if pid is not None:
                    return Reaper(pid, own_in, own_out)
        process = subprocess.Popen(
            command("dataguard.process.reaper", folder, descriptor),
            pass_fds=[descriptor],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return Reaper(process.pid, own_in, own_out, process)
    finally:
        os.close(stdin)
        os.close(stdout)


_alive: set[Reaper] = set()
"""The reapers of this process that were not dismissed."""


def _fork_here(reap: Callable[[], None], mine: list[int]) -> int:
    """Call `reap` in a fork without the descriptors that are only `mine`, and return its PID."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: this process has threads; so have notebooks
        pid = os.fork()
    if pid == 0:
        try:
            for descriptor in mine:
                os.close(descriptor)
            reap()
        finally:
            os._exit(1)
    return pid


def missing_threads() -> Iterator[str]:
    """A note about the threads of this process, which a fork of it lacks, if there are any."""
    count = sum(not thread.daemon for thread in threading.enumerate()) - 1
    if count > 0:
        yield (
            f"{counted(count, 'other threads')} of this process did not run where the loader was observed, as in its "
            "own forked workers: code that waits for one hangs"
        )


class Zygote:
    """The reporting side of `dataguard.observer.zygote`; its process is started with the first reaper."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""
        """Where it is asked: a socket that any process of the user may connect to."""

    def fork(self, folder: Path, descriptors: tuple[int, ...], patience: float) -> int | None:
        """Fork a reaper and return its PID. Raises OSError or EOFError when the zygote does not answer for so long.

        `descriptors` are the reaper's standard input and output, and the socket to the observing process.
        """
        with self._lock:
            alive = self._process is not None and self._process.poll() is None
            pid = _forked(self.address, folder, descriptors, patience) if alive else None
            if pid is None:
                self.close()
                self.start()
                pid = _forked(self.address, folder, descriptors, patience)
            return pid

    def start(self) -> None:
        """Start its process, which imports torch."""
        folder = new_folder()
        self.address = str(folder / "zygote")
        with socket.socket(socket.AF_UNIX) as listener:
            self._process = subprocess.Popen(
                command("dataguard.observer.zygote", listener.fileno(), folder),
                pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                folder.mkdir(mode=0o700)
                _started_with(self.address).write_text(json.dumps(_inherited()), encoding="utf-8")
                listener.bind(self.address)
                listener.listen(128)
            except OSError:  # such a path is at most 100 bytes long
                self.close()
                raise

    def close(self) -> None:
        """Stop the zygote; the reapers that it forked keep running."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(1)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            shutil.rmtree(Path(self.address).parent, ignore_errors=True)


def _forked(address: str, folder: Path, descriptors: tuple[int, ...], patience: float) -> int | None:
    """The PID of a reaper that a zygote forked; None if it was started with other variables than this process has."""
    if json.loads(_started_with(address).read_text(encoding="utf-8")) != _inherited():
        return None
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(address)
        socket.send_fds(control, [b"."], descriptors)
        with Connection(os.dup(control.fileno())) as pipe:
            pipe.send_bytes(json.dumps([str(folder), dict(os.environ), str(Path.cwd())]).encode())
            if not pipe.poll(patience):
                raise EOFError("the zygote does not answer")
            return int(pipe.recv_bytes(_LARGEST_PID))


def _forked_by_address(folder: Path, descriptors: tuple[int, ...], patience: float) -> int | None:
    """The PID of a reaper forked by the zygote of the run, if there is one."""
    address = os.environ.get(ADDRESS)
    return _forked(address, folder, descriptors, patience) if address else None


def _inherited() -> dict[str, str]:
    """The interpreter, and the variables that it and its libraries read at start."""
    variables = {name: value for name, value in os.environ.items() if name.startswith(_INHERITED)}
    return {"": sys.executable, **variables}


def _started_with(address: str) -> Path:
    """The file with what a zygote inherited: its own variables change, as libraries set some."""
    return Path(address).with_name("inherited.json")


_open: list[Zygote] = []
"""The zygote in use, if any."""


@contextlib.contextmanager
def shared_zygote() -> Iterator[None]:
    """Fork all reapers started inside the context from one process that imports torch once, if fork is available."""
    if _open or not hasattr(os, "fork"):
        yield
        return
    _open.append(Zygote())
    try:
        yield
    finally:
        _open.pop().close()


@contextlib.contextmanager
def exported_zygote() -> Iterator[None]:
    """The same for all processes that are started inside the context too, if their variables are those of this one."""
    if os.environ.get(ADDRESS) or not hasattr(os, "fork"):
        yield
        return
    zygote = Zygote()
    with contextlib.suppress(OSError):
        zygote.start()
        os.environ[ADDRESS] = zygote.address
    try:
        yield
    finally:
        os.environ.pop(ADDRESS, None)
        zygote.close()
