"""A training script as a target: its loaders, as they are when the first of them is asked for a batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from traceback import walk_tb
from types import FrameType, ModuleType
from typing import Any

import torch
from greenlet import getcurrent, greenlet
from torch.optim.optimizer import register_optimizer_step_pre_hook

from dataguard.in_memory_targets import script_of
from dataguard.incident import is_library
from dataguard.model import UsageError
from dataguard.targets.discovery import is_loader
from dataguard.targets.rank_zero import Ended, as_rank_zero, run_main
from dataguard.targets.variants import Loader, constructors

_EVALUATING, _TRAINING = ("sanity", "valid", "eval", "test", "predict"), ("train", "fit")
"""Parts of the names of functions that evaluate, and of those that train."""
_MOST = 1000
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
                own = [frame.f_locals for frame, _ in walk_tb(error.__traceback__) if _is_own(frame)]
                self._found = _named(own, self._asked)
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
        again = any(loader is known for _, known in self._asked)
        self._asked.append(("val" if evaluates else "train", loader))
        loaders = self._held(frames)
        if evaluates and not again and not any("train" in name.lower() for name in loaders):
            return True
        self._found = loaders
        self._stop()
        raise AssertionError("a script that was stopped is running")

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
    originals = {kind: kind.__iter__ for kind in constructors()}

    def begun(loader: Loader) -> Iterator[Any]:
        passes(loader)
        return iter(())

    for kind in originals:
        setattr(kind, "__iter__", begun)  # noqa: B010 - mypy forbids the plain form
    try:
        yield
    finally:
        for kind, original in originals.items():
            setattr(kind, "__iter__", original)  # noqa: B010 - as above


@contextmanager
def _before_steps(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` before a step of any optimizer, and before gradients are computed."""
    backward = torch.autograd.backward

    def before(*_: Any, **__: Any) -> None:
        stop()

    hook = register_optimizer_step_pre_hook(before)
    setattr(torch.autograd, "backward", before)  # noqa: B010 - as above
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
        if not any(loader is known for known in loaders.values()):
            number = sum(known.rstrip("0123456789") == name for known in loaders)
            loaders[f"{name}{number + 1}" if name in loaders else name] = loader
    return loaders


def _loaders_in(space: Mapping[str, Any]) -> Iterator[tuple[str, Loader]]:
    """Loaders among variables, in their dicts and lists, and in the attributes of their objects."""
    for name, value in list(space.items()):
        if is_loader(value):
            yield name, value
        elif isinstance(value, dict) and len(value) < _MOST:
            yield from ((str(key), item) for key, item in list(value.items()) if is_loader(item))
        elif isinstance(value, list | tuple) and len(value) < _MOST:
            yield from ((name, item) for item in value if is_loader(item))
        elif not isinstance(value, type | ModuleType):
            yield from ((key, item) for key, item in list(getattr(value, "__dict__", {}).items()) if is_loader(item))
