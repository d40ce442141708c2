"""Stand-ins for what the user's code calls: a function or a callable object of which another one takes the place."""

from __future__ import annotations

import copy
import sys
import types
from collections.abc import Callable
from typing import Any


class _Called:
    """What is called in place of an object that has no twin, and has the other attributes of that object."""

    def __init__(self, original: Any, function: Callable[..., Any]) -> None:
        self._original = original
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def standing_in(original: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """What is called as the function, and is of the original's own type, where that is a class of the user's side."""
    if isinstance(original, types.FunctionType | types.BuiltinFunctionType | types.MethodType):
        return function
    try:
        stand_in = copy.copy(original)
        calls = {"__call__": lambda _, *args, **kwargs: function(*args, **kwargs)}
        stand_in.__class__ = type(type(original).__name__, (type(original),), calls)
    except Exception:  # noqa: BLE001 - built-in types, such as a connection of sqlite3, have no such twin
        return _Called(original, function)
    return stand_in  # type: ignore[no-any-return]


_STRANGERS = sys.stdlib_module_names | {"numpy", "scipy", "sympy", "torch"}
"""Packages that have no name for what another one decodes images with; they have most of the names there are."""


def rebind(known: dict[int, tuple[Any, Any]]) -> None:
    """Put the stand-in of each function into every module that has a name for the function."""
    for spelling, module in list(sys.modules.items()):
        if spelling.partition(".")[0] in _STRANGERS:
            continue
        names = module.__dict__ if isinstance(module, types.ModuleType) else {}
        for name, value in list(names.items()):
            if id(value) in known:
                names[name] = known[id(value)][1]
