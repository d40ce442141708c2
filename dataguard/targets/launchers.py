"""What starts the ranks of a script: inside `as_one_rank`, one of them runs in the calling process, and no other.

A process that `torch.multiprocessing.spawn`, torchrun, `accelerate launch`, Lightning or the script itself starts would
run its whole training loop. The first rank runs in their place, in a process group of all ranks whose collectives do
nothing; or the rank that this process really is, in a group that it joins when the script does.
"""

from __future__ import annotations

import inspect
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from dataguard.core.incident import is_library
from dataguard.core.model import NotTested, UsageError
from dataguard.settings.target_spelling import module_of
from dataguard.targets.spelling import program_named

_LAUNCHED = ("RANK", "LOCAL_RANK", "ACCELERATE_")
"""How the variables begin that a launcher gives to the process of a rank."""


class Ended(BaseException):
    """The only rank has ended. No `Exception`: the launcher must not start it again."""


@dataclass(frozen=True, slots=True)
class RankHere:
    """The rank that this process is of `world`; None: the first one of as many as the script starts."""

    number: int = 0
    world: int | None = None

    def require(self, started: int) -> None:
        """Raise NotTested if a script starts another number of ranks: they would share its samples otherwise."""
        if self.world is not None and started != self.world:
            raise NotTested(f"the script starts {started} ranks, not {self.world}: --ranks {started}")


@contextmanager
def as_one_rank(here: RankHere) -> Iterator[Callable[[], None]]:
    """Run processes of ranks here, inside the context; yields a function that runs those nobody has waited for."""
    launched = import_module("torch.distributed.launcher.api")
    spawning = import_module("torch.multiprocessing.spawn")
    torch_multiprocessing = import_module("torch.multiprocessing")
    distributed = import_module("torch.distributed")
    processes = _OwnProcesses(here)
    with ExitStack() as stack:

        def replace(owner: Any, name: str, other: Any) -> None:
            if hasattr(owner, name):
                stack.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, other)

        for owner in (spawning, torch_multiprocessing):
            for name in ("start_processes", "spawn"):
                replace(owner, name, _spawning(here))
        replace(launched.elastic_launch, "__call__", _launching(here))
        if subprocess.Popen in _Popen.__mro__:  # and no stand-in of somebody else
            replace(subprocess, "Popen", _Popen)
        replace(BaseProcess, "start", processes.starting(BaseProcess.start))
        replace(BaseProcess, "join", processes.joining(BaseProcess.join))
        if here.world is None:
            replace(distributed, "init_process_group", _joined(distributed))
        yield processes.run_own


def _spawning(here: RankHere) -> Callable[..., Any]:
    """In place of `torch.multiprocessing.spawn`."""

    def spawn(fn: Callable[..., Any], args: Sequence[Any] = (), nprocs: int = 1, *_: Any, **__: Any) -> Any:
        here.require(nprocs)
        return fn(here.number, *args)

    return spawn


def _launching(here: RankHere) -> Callable[..., Any]:
    """In place of torchrun's agent: the program of one rank."""

    def launch(launcher: Any, *args: Any) -> Any:
        config, entry = launcher._config, launcher._entrypoint
        ranks = config.max_nodes * config.nproc_per_node
        here.require(ranks)
        os.environ.update(
            RANK=str(here.number),
            LOCAL_RANK=str(here.number),
            WORLD_SIZE=str(ranks),
            LOCAL_WORLD_SIZE=str(config.nproc_per_node),
            GROUP_RANK="0",
            MASTER_ADDR="127.0.0.1",
        )
        os.environ.setdefault("MASTER_PORT", "29500")
        if callable(entry):
            return {here.number: entry(*args)}
        _run_program(args if _is_python(entry) else (entry, *args))
        raise Ended

    return launch


class _Popen(subprocess.Popen[Any]):
    """In place of a process that a launcher starts for a rank: the program of the first one runs here.

    What a script that is the first rank itself starts for another one, as Lightning does, does nothing.
    """

    def __init__(self, args: Any, *rest: Any, **named: Any) -> None:
        env = named.get("env")
        words = [os.fspath(word) for word in args] if isinstance(args, list | tuple) else []
        given = {name for name, value in (env or {}).items() if os.environ.get(name) != value}
        if env and words and _is_python(words[0]) and any(name.startswith(_LAUNCHED) for name in given):
            if env.get("RANK", env.get("LOCAL_RANK", "0")) == "0":
                os.environ.update(env)
                _run_program(words[1:])
                raise Ended
            args = [sys.executable, "-c", ""]
        super().__init__(args, *rest, **named)


def _is_python(word: str) -> bool:
    return Path(word).name.startswith("python")


def _run_program(words: Sequence[str]) -> None:
    """Run what follows `python` on a command line as the main program: [options] script, or -m module."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        rest.pop(0)
    path, *arguments = [" ".join(rest[:2]), *rest[2:]] if rest[0] == "-m" else rest
    run_main(path, arguments)


def run_main(path: str, arguments: Sequence[str]) -> Mapping[str, Any]:
    """Run a script, or `-m module`, with these arguments as the main program; returns its global variables.

    A script without a folder may also be a program such as torchrun.
    """
    module = module_of(path)
    if module is not None:
        sys.argv = [module, *arguments]
        sys.path.insert(0, str(Path.cwd()))
        top = module.partition(".")[0]
        if find_spec(top) is None:
            raise UsageError(f"{path}: no module named {top!r} in {Path.cwd()} or the installed packages")
        return runpy.run_module(module, run_name="__main__", alter_sys=True)
    file = path if Path(path).is_file() else program_named(path) or path
    sys.argv = [file, *arguments]
    sys.path.insert(0, str(Path(file).resolve().parent))
    return runpy.run_path(file, run_name="__main__")


class _OwnProcesses:
    """Processes of the user's own functions: they wait until one is joined, and then one of them runs here."""

    def __init__(self, here: RankHere) -> None:
        self._here = here
        self._waiting: list[BaseProcess] = []
        self._ran = False

    def starting(self, original: Callable[[BaseProcess], None]) -> Callable[[BaseProcess], None]:
        """In place of `start`."""

        def start(process: BaseProcess) -> None:
            if _runs_own_code(process):
                self._waiting.append(process)
            else:
                original(process)

        return start

    def joining(self, original: Callable[..., None]) -> Callable[..., None]:
        """In place of `join`."""

        def join(process: BaseProcess, timeout: float | None = None) -> None:
            if any(process is other for other in self._waiting):
                self.run_own()
            else:
                original(process, timeout)

        return join

    def run_own(self) -> None:
        """Run the process of this rank, unless it has run."""
        if self._waiting and not self._ran:
            self._ran = True
            self._here.require(len(self._waiting))
            self._waiting[self._here.number].run()


def _runs_own_code(process: BaseProcess) -> bool:
    """Whether a process runs a function of the user's code, or a class of it."""
    function = getattr(process, "_target", None) or type(process).run
    function = getattr(function, "func", function)  # of a partial
    code = getattr(inspect.unwrap(function), "__code__", None)
    return (
        code is not None
        and not is_library(code.co_filename)
        and code.co_filename != BaseProcess.run.__code__.co_filename
    )


def _joined(distributed: Any) -> Callable[..., None]:
    """In place of `init_process_group`: a group of as many ranks in which collectives do nothing."""
    original = distributed.init_process_group

    def init_process_group(*args: Any, **named: Any) -> None:
        given = inspect.signature(original).bind(*args, **named).arguments
        rank, ranks = (
            value if value is not None and value >= 0 else int(os.environ.get(variable, default))
            for value, variable, default in (
                (given.get("rank"), "RANK", 0),
                (given.get("world_size"), "WORLD_SIZE", 1),
            )
        )
        store = import_module("torch.testing._internal.distributed.fake_pg").FakeStore()
        original("fake", rank=rank, world_size=ranks, store=store)

    return init_process_group
