"""The modules of targets, looked for; and the name of a Python object as a target. Loads no torch."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

from dataguard.in_memory_targets import module_of, script_of
from dataguard.model import UsageError
from dataguard.settings.suggestions import suggest
from dataguard.settings.target_spelling import parsed

_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
_VENV = "pyvenv.cfg"


def require_findable(spellings: Iterable[str], path: Sequence[str]) -> None:
    """Raise UsageError for a malformed spelling, or a top-level module that is not on the path; imports nothing.

    So a typo is answered at once, and not after torch was imported to look for it.
    """
    for spelling in spellings:
        if script := script_of(spelling):
            _require_script(script[0])
            continue
        top = parsed(spelling).module.partition(".")[0]
        with _imported_from(path):
            if top not in sys.modules and find_spec(top) is None:
                raise no_module(top, spelling)


def _require_script(path: str) -> None:
    if path.endswith(".ipynb"):
        raise UsageError(f"{path}: a notebook is no script; call `dataguard.check(loader)` in a cell of it")
    if not Path(path).is_file() and module_of(path) is None and not program_named(path):
        beside = [str(file) for file in Path(path).parent.glob("*.py")] if Path(path).parent.is_dir() else []
        raise UsageError(f"{path}: no such script{suggest(path, beside, '')}")


def program_named(name: str) -> str | None:
    """The path of a program such as torchrun, that of this environment first."""
    return which(name, path=str(Path(sys.executable).parent)) or which(name)


@contextmanager
def _imported_from(path: Sequence[str]) -> Iterator[None]:
    before = list(sys.path)
    sys.path[:] = path
    try:
        yield
    finally:
        sys.path[:] = before


def no_module(missing: str, spelling: str) -> UsageError:
    """The error for a target whose module is missing, with the folder that has it, or the closest name."""
    folder = None if "." in missing else _folder_with(missing)
    if folder is not None:
        installed = "run `pip install -e .`, or " if any(map(Path.is_file, map(Path, _PROJECT))) else ""
        return UsageError(
            f"{spelling}: {missing!r} cannot be imported, but is in {folder}/: {installed}set "
            f'pythonpath = ["{folder}"] under [tool.dataguard] in pyproject.toml'
        )
    close = suggest(missing, _siblings(missing), "")
    return UsageError(
        f"{spelling}: no module named {missing!r} in the current directory or the installed packages{close}"
    )


def _folder_with(module: str) -> str | None:
    """The folder below the current directory from which a top-level module could be imported, such as `src`."""
    for pattern in ("src", "*", "*/*"):
        for folder in sorted(Path().glob(pattern)):
            hidden = any(part.startswith(".") for part in folder.parts) or (folder.parent / _VENV).exists()
            if hidden or (folder / _VENV).exists():
                continue
            if (folder / f"{module}.py").is_file() or any((folder / module).glob("*.py")):
                return folder.as_posix()
    return None


def _siblings(module: str) -> list[str]:
    """The modules next to where this one was searched; for a top-level module, those of the project."""
    package = module.rpartition(".")[0]
    here = Path.cwd()
    own = [entry for entry in sys.path if Path(entry).parent == here and not (here / entry / _VENV).exists()]
    path = getattr(sys.modules.get(package), "__path__", None) if package else [str(here), str(here / "src"), *own]
    return [f"{package}.{module.name}" if package else module.name for module in pkgutil.iter_modules(path or [])]


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
