"""How a factory that is at hand as a Python object is found by name in another process. Standard library only."""

from __future__ import annotations

import sys
from functools import reduce
from typing import Any

from dataguard.model import UsageError


def spelling_of(factory: Any) -> str:
    """The spelling `pkg.mod:attr` of a function or class of a module; a string is taken for one already.

    Raises UsageError for what the process that runs the loader could not find again.
    """
    if isinstance(factory, str):
        return factory
    module, name = getattr(factory, "__module__", None), getattr(factory, "__qualname__", None)
    if not module or not name:
        raise UsageError(
            f"an object of type {type(factory).__name__} has no name by which the process that runs it could find it: "
            "give a function that makes it, or its spelling, 'pkg.mod:attr'"
        )
    if module == "__main__" or not _is_found(factory, module, name):
        raise UsageError(
            f"{name} cannot be imported by name, and the loader runs in a process of its own: put it at the top level "
            "of a module, or give its spelling, 'pkg.mod:attr'"
        )
    return f"{module}:{name}"


def _is_found(factory: Any, module: str, name: str) -> bool:
    try:
        return reduce(getattr, name.split("."), sys.modules.get(module)) is factory
    except AttributeError:
        return False
