"""A training script as a target: its loaders, as they are when the first of them is asked for a batch."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from greenlet import getcurrent, greenlet

from dataguard.incident import is_library
from dataguard.model import UsageError
from dataguard.target.discovery import is_loader
from dataguard.target.variants import Loader, constructors
from dataguard.unnamed import script_of

_EVALUATING, _TRAINING = ("sanity", "valid", "eval", "test", "predict"), ("train", "fit")
"""Parts of the names of functions that evaluate, and of those that train."""
_MOST = 1000
"""A larger collection holds samples, not loaders."""


class Script:
    """Called, it runs a script up to the first batch that it asks for, and returns its loaders by name.

    The script is stopped there, with all that it holds: unwinding it would run its `finally` blocks, which may delete
    what the loaders read. It runs once in a process; further calls return the same loaders. If the first loader
    evaluates, as in a sanity check before the training, it yields nothing, and the script continues to the next one.
    """

    def __init__(self, path: str, arguments: Iterable[str]) -> None:
        with suppress(ImportError):  # its loaders have an __iter__ of their own, which must be known
            import_module("torchdata.stateful_dataloader")
        self.path = path
        self.arguments = tuple(arguments)
        self._run = greenlet(self._main)
        self._asked: list[tuple[str, Loader]] = []
        self._found: dict[str, Loader] | None = None

    def __call__(self) -> dict[str, Loader]:
        """The loaders by name. Raises UsageError if the script ends without one, and what the script raises."""
        if self._found is None:
            variables = self._run.switch()
            if self._found is None:
                self._found = _named([variables], self._asked)
        if not self._found:
            raise UsageError(f"{self.path} ended without a DataLoader: nothing to scan")
        return self._found

    def _main(self) -> Mapping[str, Any]:
        """Run the script to its end, and return its global variables."""
        sys.argv = [self.path, *self.arguments]
        sys.path.insert(0, str(Path(self.path).resolve().parent))
        with _replaced_iter(self._passes):
            return runpy.run_path(self.path, run_name="__main__")

    def _passes(self, loader: Loader, restore: Callable[[], None]) -> bool:
        """Whether the script may continue past the first batch of a loader; if not, this never returns."""
        frames = list(_frames())
        evaluates = _evaluates(frame.f_code.co_name for frame in frames)
        again = any(loader is one for _, one in self._asked)
        self._asked.append(("val" if evaluates else "train", loader))
        own = [frame.f_locals for frame in reversed(frames) if not is_library(frame.f_code.co_filename)]
        found = _named(own, self._asked)
        if evaluates and not again and not any("train" in name.lower() for name in found):
            return True
        self._found = found
        restore()
        outside = getcurrent().parent
        assert outside is not None
        outside.switch()
        raise AssertionError("a script that was stopped is running")


def script(spelling: str) -> Script:
    """The script of a spelling; always the same one."""
    if spelling not in _scripts:
        path, *arguments = script_of(spelling)
        _scripts[spelling] = Script(path, arguments)
    return _scripts[spelling]


_scripts: dict[str, Script] = {}


@contextmanager
def _replaced_iter(passes: Callable[[Loader, Callable[[], None]], bool]) -> Iterator[None]:
    """Ask `passes` whenever a loader begins to iterate; one that may continue yields nothing."""
    originals = {kind: kind.__iter__ for kind in constructors()}

    def restore() -> None:
        for kind, original in originals.items():
            setattr(kind, "__iter__", original)  # noqa: B010 - mypy forbids the plain form

    def begun(loader: Loader) -> Iterator[Any]:
        passes(loader, restore)
        return iter(())

    for kind in originals:
        setattr(kind, "__iter__", begun)  # noqa: B010 - as above
    try:
        yield
    finally:
        restore()


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
    found: dict[str, Loader] = {}
    for name, loader in (*(pair for space in namespaces for pair in _loaders_in(space)), *asked):
        if not any(loader is one for one in found.values()):
            number = sum(known.rstrip("0123456789") == name for known in found)
            found[f"{name}{number + 1}" if name in found else name] = loader
    return found


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
