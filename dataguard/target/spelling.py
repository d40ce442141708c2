"""The modules of targets, looked for; and the name of a Python object as a target. Loads no torch."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dataguard.model import UsageError
from dataguard.settings.suggestions import suggest
from dataguard.settings.target_spelling import parsed
from dataguard.unnamed import script_of


def require_findable(spellings: Iterable[str]) -> None:
    """Raise UsageError for a malformed spelling, or one whose top-level module does not exist; imports nothing.

    So a typo is answered at once, and not after torch was imported to look for it.
    """
    for spelling in spellings:
        if script := script_of(spelling):
            _require_script(script[0])
            continue
        top = parsed(spelling).module.partition(".")[0]
        with _current_directory_first():
            found = top in sys.modules or find_spec(top) is not None
        if not found:
            raise no_module(top, spelling)


def _require_script(path: str) -> None:
    if not Path(path).is_file():
        beside = [str(file) for file in Path(path).parent.glob("*.py")] if Path(path).parent.is_dir() else []
        raise UsageError(f"{path}: no such script{suggest(path, beside, '')}")


@contextmanager
def _current_directory_first() -> Iterator[None]:
    """Look for modules as the observing process does."""
    before = list(sys.path)
    sys.path.insert(0, str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


def no_module(missing: str, spelling: str) -> UsageError:
    """The error for a target whose module is missing, with the closest name."""
    close = suggest(missing, _siblings(missing), "")
    return UsageError(
        f"{spelling}: no module named {missing!r} in the current directory or the installed packages{close}"
    )


def _siblings(module: str) -> list[str]:
    """The modules next to where this one was searched; for a top-level module, those in the current directory."""
    package = module.rpartition(".")[0]
    path = getattr(sys.modules.get(package), "__path__", None) if package else [str(Path.cwd())]
    return [f"{package}.{found.name}" if package else found.name for found in pkgutil.iter_modules(path or [])]


def spelling_of(factory: Any) -> str:
    """The name `pkg.mod:attr` of a module-level function or class; a string is returned unchanged.

    Raises UsageError for an object that another process could not import by name.
    """
    if isinstance(factory, str):
        return factory
    module, name = getattr(factory, "__module__", None), getattr(factory, "__qualname__", None)
    if not module or not name:
        raise UsageError(
            f"an object of type {type(factory).__name__} has no name to import it by in another process: "
            "pass a function that creates it, or its name, 'pkg.mod:attr'"
        )
    if module == "__main__" or not _is_found(factory, module, name):
        raise UsageError(
            f"{name} cannot be imported by name, but the loader runs in a separate process: move it to the top level "
            "of a module, or pass its name, 'pkg.mod:attr'"
        )
    return f"{module}:{name}"


def _is_found(factory: Any, module: str, name: str) -> bool:
    try:
        return reduce(getattr, name.split("."), sys.modules.get(module)) is factory
    except AttributeError:
        return False
