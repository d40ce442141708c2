"""The importable name of a factory that is given as a Python object. Standard library only."""

from __future__ import annotations

import sys
from functools import reduce
from typing import Any

from dataguard.model import UsageError


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
