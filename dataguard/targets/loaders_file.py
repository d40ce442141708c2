"""The text of `dataguard_loaders.py`: a function without arguments that calls factories which take some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MODULE = "dataguard_loaders"
FUNCTION = "loaders"
TARGET = f"{MODULE}:{FUNCTION}"
OPEN = "..."
"""In place of a value that only the user knows."""
_SPLITS = ("split", "mode", "stage", "phase", "subset", "partition")
_FLAGS = ("train", "is_train", "training", "is_training")


def loaders_file(module: str, attribute: str, given: Mapping[str, Any], missing: Sequence[str]) -> str:
    """The file for one factory: a loader for each split if it takes one, with `...` for what is missing."""
    known = {name: repr(value) for name, value in given.items()} | dict.fromkeys(missing, OPEN)
    calls = {
        name: f"{attribute}({', '.join(f'{parameter}={value}' for parameter, value in {**known, **split}.items())})"
        for name, split in _splits(attribute, missing).items()
    }
    if all(part.isidentifier() for part in module.split(".")):
        imports = f"from {module} import {attribute.partition('.')[0]}"
    else:
        imports = f"from importlib import import_module\n\n{attribute} = import_module({module!r}).{attribute}"
    return f"{imports}\n\n\n{function(calls)}"


def function(calls: Mapping[str, str], before: str = "") -> str:
    """The function that returns these expressions by the names of their loaders."""
    lines = "".join(f'        "{name}": {call},\n' for name, call in calls.items())
    return f"def {FUNCTION}():\n{before}    return {{\n{lines}    }}\n"


def _splits(attribute: str, parameters: Sequence[str]) -> dict[str, dict[str, str]]:
    """The loaders that a factory with these parameters makes, each with the argument that selects it."""
    for parameter in parameters:
        if parameter in _SPLITS:
            return {name: {parameter: f'"{name}"'} for name in ("train", "val")}
        if parameter in _FLAGS:
            return {"train": {parameter: "True"}, "val": {parameter: "False"}}
    return {attribute.rpartition(".")[2]: {}}
