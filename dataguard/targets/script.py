"""A training script as a target: its loaders, as they are when the first of them is asked for a batch.

`Script` runs the script up to that point. Of a script that trains in several ranks, only rank 0 runs, and in this
process: one that `torch.multiprocessing.spawn`, torchrun, `accelerate launch` or the script itself starts would run its
whole training loop. Inside `as_rank_zero` the first of them runs in the calling process instead, and no other is
started; the process group that it joins has all ranks, and collectives in it do nothing.
"""

from __future__ import annotations

import inspect
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.process import BaseProcess
from pathlib import Path
from traceback import walk_tb
from types import FrameType, ModuleType
from typing import Any

import torch
from greenlet import getcurrent, greenlet
from torch.optim.optimizer import register_optimizer_step_pre_hook

from dataguard.core.incident import is_library
from dataguard.core.model import UsageError
from dataguard.settings.target_spelling import module_of, script_of
from dataguard.targets.discovery import is_loader, parts_of
from dataguard.targets.spelling import program_named
from dataguard.targets.variants import Loader, replaced

_LAUNCHED = ("RANK", "ACCELERATE_")
"""How the variables begin that a launcher gives to the process of a rank."""


class Ended(BaseException):
    """The only rank has ended. No `Exception`: the launcher must not start it again."""


@contextmanager
def as_rank_zero() -> Iterator[Callable[[], None]]:
    """Run processes of ranks here, inside the context; yields a function that runs those nobody has waited for."""
    launched = import_module("torch.distributed.launcher.api")
    spawning = import_module("torch.multiprocessing.spawn")
    torch_multiprocessing = import_module("torch.multiprocessing")
    distributed = import_module("torch.distributed")
    processes = _OwnProcesses()
    with ExitStack() as stack:

        def replace(owner: Any, name: str, other: Any) -> None:
            if hasattr(owner, name):
                stack.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, other)

        for owner in (spawning, torch_multiprocessing):
            replace(owner, "start_processes", _spawned)
            replace(owner, "spawn", _spawned)
        replace(launched.elastic_launch, "__call__", _launched)
        if subprocess.Popen in _Popen.__mro__:  # and no stand-in of somebody else
            replace(subprocess, "Popen", _Popen)
        replace(BaseProcess, "start", processes.starting(BaseProcess.start))
        replace(BaseProcess, "join", processes.joining(BaseProcess.join))
        replace(distributed, "init_process_group", _joined(distributed))
        yield processes.run_first


def _spawned(function: Callable[..., Any], args: Sequence[Any] = (), *_: Any, **__: Any) -> Any:
    """In place of `torch.multiprocessing.spawn`."""
    return function(0, *args)


def _launched(launcher: Any, *args: Any) -> Any:
    """In place of torchrun's agent: the program of its first rank."""
    config, entry = launcher._config, launcher._entrypoint
    ranks = config.max_nodes * config.nproc_per_node
    os.environ.update(
        RANK="0",
        LOCAL_RANK="0",
        WORLD_SIZE=str(ranks),
        LOCAL_WORLD_SIZE=str(config.nproc_per_node),
        GROUP_RANK="0",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="29500",
    )
    if callable(entry):
        return {0: entry(*args)}
    _run_program(args if _is_python(entry) else (entry, *args))
    raise Ended


class _Popen(subprocess.Popen[Any]):
    """In place of a process that a launcher starts for a rank: its program runs here."""

    def __init__(self, args: Any, *rest: Any, **named: Any) -> None:
        env = named.get("env")
        words = [os.fspath(word) for word in args] if isinstance(args, list | tuple) else []
        if env and words and _is_python(words[0]) and any(name.startswith(_LAUNCHED) for name in env):
            os.environ.update(env)
            _run_program(words[1:])
            raise Ended
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
    """Processes of the user's own functions: they wait until one is joined, and then the first of them runs here."""

    def __init__(self) -> None:
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
                self.run_first()
            else:
                original(process, timeout)

        return join

    def run_first(self) -> None:
        """Run the first process, unless it has run."""
        if self._waiting and not self._ran:
            self._ran = True
            self._waiting[0].run()


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


_EVALUATING, _TRAINING = ("sanity", "valid", "eval", "test", "predict"), ("train", "fit")
"""Parts of the names of functions that evaluate, and of those that train."""
_EVALUATION_MAKER = "get_eval_dataloader"
"""The method of a trainer that makes the loader of one of its evaluation datasets (transformers, trl and their kin)."""
_MOST_ENTRIES = 1000
"""A larger collection holds samples, not loaders."""


class Script:
    """Called, it runs a script up to the first batch that it asks for, and returns its loaders by name.

    The script is stopped there, with all that it holds: unwinding it would run its `finally` blocks, which may delete
    what the loaders read. It runs once in a process; further calls return the same loaders. If the first loader
    evaluates, as in a sanity check before the training, it yields nothing, and the script continues to the next one.
    A script that trains on what no loader made is stopped at its first step. One that raises has the loaders that
    existed then, and `notes` say so.
    """

    def __init__(self, path: str, arguments: Iterable[str]) -> None:
        with suppress(ImportError):  # its loaders have an __iter__ of their own, which must be known
            import_module("torchdata.stateful_dataloader")
        self.path = path
        self.arguments = tuple(arguments)
        self.notes: list[str] = []
        self._run = greenlet(self._main)
        self._process = 0
        self._watching = ExitStack()
        self._asked: list[tuple[str, Loader]] = []
        self._found: dict[str, Loader] | None = None
        self._trains_at = ""

    def __call__(self) -> dict[str, Loader]:
        """The loaders by name. Raises UsageError if the script ends without one, and what the script raises."""
        if self._found is None:
            self._process = os.getpid()
            variables = self._run.switch()
            if self._found is None:
                self._found = _named([variables], self._asked)
        if not self._found:
            raise UsageError(self._trains_at or f"{self.path} ended without a DataLoader: nothing to scan")
        return self._found

    def _main(self) -> Mapping[str, Any]:
        """Run the script to its end, and return its global variables."""
        variables: Mapping[str, Any] = {}
        with self._watching:
            self._watching.enter_context(_replaced_iter(self._passes))
            self._watching.enter_context(_before_steps(self._steps))
            run_waiting = self._watching.enter_context(as_rank_zero())
            try:
                variables = run_main(self.path, self.arguments)
                run_waiting()
            except Ended:
                pass
            except Exception as error:
                namespaces = [frame.f_locals for frame, _ in walk_tb(error.__traceback__) if _is_own(frame)]
                self._found = _named(namespaces, self._asked)
                if not self._found and _lacks_package(error):
                    hint = f"run it as `dataguard run -m pkg.{Path(self.path).stem}`"
                    raise UsageError(f"{self.path} is a module of a package: {hint}") from error
                if not self._found:
                    raise
                self.notes.append(f"{self.path} raised {_summary(error)}: its loaders are scanned as they were then")
        return variables

    def _passes(self, loader: Loader) -> bool:
        """Whether the script may continue past the first batch of a loader; if not, this never returns."""
        frames = list(_frames())
        evaluates = _evaluates(frame.f_code.co_name for frame in frames)
        again = any(loader is asked for _, asked in self._asked)
        self._asked.append(("val" if evaluates else "train", loader))
        loaders = self._held(frames)
        if evaluates and not again and not any("train" in name.lower() for name in loaders):
            return True
        self._asked += self._made_later(frames)
        self._found = self._held(frames)
        self._stop()
        raise AssertionError("a script that was stopped is running")

    def _made_later(self, frames: Sequence[FrameType]) -> list[tuple[str, Loader]]:
        """The loaders of an evaluation that a trainer on the stack makes only after its first steps."""
        owners = {id(frame.f_locals.get("self")): frame.f_locals.get("self") for frame in frames}
        trainers = [owner for owner in owners.values() if callable(getattr(type(owner), _EVALUATION_MAKER, None))]
        made: list[tuple[str, Loader]] = []
        for trainer in trainers:
            datasets = getattr(trainer, "eval_dataset", None)
            for name in () if datasets is None else datasets if isinstance(datasets, dict) else (None,):
                try:
                    product = getattr(trainer, _EVALUATION_MAKER)(*([] if name is None else [name]))
                except Exception as error:  # noqa: BLE001 - the user's datasets and collate functions may raise anything
                    self.notes.append(f"{_EVALUATION_MAKER}() raised {_summary(error)}: no evaluation is scanned")
                    continue
                role = f"val_{name}" if name else "val"
                made += ((role, loader) for _, loader in parts_of(product) if is_loader(loader))
        return made

    def _held(self, frames: Iterable[FrameType]) -> dict[str, Loader]:
        return _named([frame.f_locals for frame in reversed(list(frames)) if _is_own(frame)], self._asked)

    def _steps(self) -> None:
        """Stop before the first step of the training: no loader was asked for what the model got."""
        frames = [frame for frame in _frames() if _is_own(frame)]
        self._found = self._held(frames)
        if not self._found and frames:
            self._trains_at = _unfed(self.path, frames[0])
        self._stop()

    def _stop(self) -> None:
        if os.getpid() != self._process:  # a process that the script has forked
            os._exit(0)
        self._watching.close()  # observations need what was replaced
        outside = getcurrent().parent
        assert outside is not None
        outside.switch()


def script(spelling: str) -> Script:
    """The script of a spelling; always the same one."""
    if spelling not in _scripts:
        path, *arguments = script_of(spelling)
        _scripts[spelling] = Script(path, arguments)
    return _scripts[spelling]


_scripts: dict[str, Script] = {}


@contextmanager
def _replaced_iter(passes: Callable[[Loader], bool]) -> Iterator[None]:
    """Ask `passes` whenever a loader begins to iterate; one that may continue yields nothing."""

    def begun(loader: Loader) -> Iterator[Any]:
        passes(loader)
        return iter(())

    with replaced("__iter__", lambda _: begun):
        yield


@contextmanager
def _before_steps(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` before a step of any optimizer, and before gradients are computed."""
    backward = torch.autograd.backward

    def before(*_: Any, **__: Any) -> None:
        stop()

    hook = register_optimizer_step_pre_hook(before)
    setattr(torch.autograd, "backward", before)  # noqa: B010 - mypy forbids the plain form
    try:
        yield
    finally:
        hook.remove()
        setattr(torch.autograd, "backward", backward)  # noqa: B010 - as above


def _unfed(path: str, frame: FrameType) -> str:
    """Why there is nothing to scan, and what to name instead: a function beside the step that seems to make batches."""
    variables = {**frame.f_globals, **frame.f_locals}
    makers = [name for name in frame.f_code.co_names if "batch" in name.lower() and callable(variables.get(name))]
    module = Path(frame.f_code.co_filename).stem
    made = f"{module}:{makers[0]}" if makers else "pkg.mod:function"
    return (
        f"{path} trains at {frame.f_code.co_filename}:{frame.f_lineno} without a DataLoader: scan what makes its "
        f"batches, `dataguard scan {made}`: an iterable, or a function without arguments that returns one batch"
    )


def _is_own(frame: FrameType) -> bool:
    return not is_library(frame.f_code.co_filename)


def _lacks_package(error: Exception) -> bool:
    return isinstance(error, ImportError) and "relative import with no known parent" in str(error)


def _summary(error: Exception) -> str:
    """The exception on one line."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def _frames() -> Iterator[FrameType]:
    """The stack of the script, innermost frame first."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _evaluates(functions: Iterable[str]) -> bool:
    """Whether the innermost of these functions whose name says what it does evaluates."""
    for name in map(str.lower, functions):
        if any(word in name for word in _EVALUATING):
            return True
        if any(word in name for word in _TRAINING):
            return False
    return False


def _named(namespaces: Iterable[Mapping[str, Any]], asked: Iterable[tuple[str, Loader]]) -> dict[str, Loader]:
    """Each loader in these variables once, by the first name it has; those that were asked for a batch, in any case."""
    loaders: dict[str, Loader] = {}
    for name, loader in (*(pair for space in namespaces for pair in _loaders_in(space)), *asked):
        if not any(loader is named for named in loaders.values()):
            number = sum(key.rstrip("0123456789") == name for key in loaders)
            loaders[f"{name}{number + 1}" if name in loaders else name] = loader
    return loaders


def _loaders_in(space: Mapping[str, Any]) -> Iterator[tuple[str, Loader]]:
    """Loaders among variables, in their dicts and lists, and in the attributes of their objects."""
    for name, value in list(space.items()):
        if is_loader(value):
            yield name, value
        elif isinstance(value, dict) and len(value) < _MOST_ENTRIES:
            yield from ((str(key), item) for key, item in list(value.items()) if is_loader(item))
        elif isinstance(value, list | tuple) and len(value) < _MOST_ENTRIES:
            yield from ((name, item) for item in value if is_loader(item))
        elif not isinstance(value, type | ModuleType):
            yield from ((key, item) for key, item in list(getattr(value, "__dict__", {}).items()) if is_loader(item))
