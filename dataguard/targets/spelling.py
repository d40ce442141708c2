"""Find what a target names: its module, a name for a Python object, and the arguments of a factory. Loads no torch.

`require_findable` answers a mistyped module before torch is imported. `arguments_of` is what a factory is called with;
for one that needs more, the error shows a `dataguard_loaders.py`, made by `loaders_file`, that passes it.
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

from dataguard.core.model import UsageError
from dataguard.settings.target_spelling import is_held, module_of, parsed, script_of, suggest

MODULE = "dataguard_loaders"
FUNCTION = "loaders"
TARGET = f"{MODULE}:{FUNCTION}"
OPEN = "..."
"""In place of a value that only the user knows."""
_SPLITS = ("split", "mode", "stage", "phase", "subset", "partition")
_FLAGS = ("train", "is_train", "training", "is_training")


def loaders_file(module: str, attribute: str, given: Mapping[str, Any], missing: Sequence[str]) -> str:
    """The file for one factory: a loader for each split if it takes one, with `...` for what is missing."""
    arguments = {name: repr(value) for name, value in given.items()} | dict.fromkeys(missing, OPEN)
    calls = {
        name: f"{attribute}({', '.join(f'{parameter}={value}' for parameter, value in {**arguments, **split}.items())})"
        for name, split in _splits(attribute, missing).items()
    }
    if all(part.isidentifier() for part in module.split(".")):
        imports = f"from {module} import {attribute.partition('.')[0]}"
    else:
        imports = f"from importlib import import_module\n\n{attribute} = import_module({module!r}).{attribute}"
    lines = "".join(f'        "{name}": {call},\n' for name, call in calls.items())
    return f"{imports}\n\n\ndef {FUNCTION}():\n    return {{\n{lines}    }}\n"


def _splits(attribute: str, parameters: Sequence[str]) -> dict[str, dict[str, str]]:
    """The loaders that a factory with these parameters makes, each with the argument that selects it."""
    for parameter in parameters:
        if parameter in _SPLITS:
            return {name: {parameter: f'"{name}"'} for name in ("train", "val")}
        if parameter in _FLAGS:
            return {"train": {parameter: "True"}, "val": {parameter: "False"}}
    return {attribute.rpartition(".")[2]: {}}


FACTORY_PARAMETERS = ("rank", "world_size", "seed", "epoch", "num_workers", "root")
"""Factory parameters that are passed by name if the signature has them."""


def arguments_of(source: Any, spelling: str, args: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a factory is called with: the target's own arguments, and by name what is `given`.

    An observation gives a rank or a number of workers on purpose; the seed of the settings is only a default.
    """
    parameters = list(parameters_of(source))
    _require_known(spelling, args, parameters)
    bound = source.keywords if isinstance(source, partial) else {}
    single_process = {"rank": 0, "world_size": 1, "epoch": 0}
    on_purpose = {name: value for name, value in given.items() if name != "seed" or name not in args}
    needed = {**single_process, "seed": 0, "num_workers": 2}
    values = {name: value for name, value in single_process.items() if name not in bound} | dict(args) | on_purpose
    arguments, missing = dict(args), []
    for parameter in parameters:
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        required = _is_required(parameter)
        available = {**needed, **values} if required else values
        if named and parameter.name in FACTORY_PARAMETERS and parameter.name in available:
            arguments[parameter.name] = available[parameter.name]
        elif required and parameter.name not in arguments:
            missing.append(parameter.name)
    if missing:
        raise _needs(spelling, args, missing)
    return arguments


def _is_required(parameter: inspect.Parameter) -> bool:
    various = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not various


def _require_known(spelling: str, args: Mapping[str, Any], parameters: Sequence[inspect.Parameter]) -> None:
    """Raise UsageError for an argument of the target that the factory does not take by name."""
    names = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    for name in args:
        if name not in names:
            hint = suggest(name, names) if names else "; it takes no arguments by name"
            raise UsageError(f"{spelling}: the factory has no parameter {name!r}{hint}")


def _needs(spelling: str, args: Mapping[str, Any], missing: Sequence[str]) -> UsageError:
    """The error for a factory that needs more arguments: all of them, and a file that passes them."""
    if missing[0] == "self":
        return UsageError(f"{spelling} is a method: name a function that creates the object and calls it")
    named = parsed(spelling)
    names = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
    if is_held(spelling):
        return UsageError(f"{spelling} needs {names}: pass args={{{', '.join(f'{name!r}: ...' for name in missing)}}}")
    options = " ".join(f"--arg {name}=..." for name in missing)
    file = loaders_file(named.module, named.attribute, args, missing)
    return UsageError(
        f"{spelling} needs {names}: add {options}, or save this as {MODULE}.py, replace each ... and scan "
        f"{TARGET}\n\n{file}"
    )


def parameters_of(factory: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    """The parameters of a factory; none of a built-in one, which has no signature."""
    strings: dict[str, Any] = {}
    if sys.version_info >= (3, 14):  # annotations may use names that are only imported for type checking
        from annotationlib import Format

        strings = {"annotation_format": Format.STRING}
    try:
        return inspect.signature(factory, **strings).parameters.values()
    except (TypeError, ValueError):  # built-in callables have no signature; they are called without arguments
        return ()


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
    users_folders = [entry for entry in sys.path if Path(entry).parent == here and not (here / entry / _VENV).exists()]
    path = (
        getattr(sys.modules.get(package), "__path__", None)
        if package
        else [str(here), str(here / "src"), *users_folders]
    )
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
