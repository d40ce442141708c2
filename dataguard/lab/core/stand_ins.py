"""Stand-ins for functions or callable objects that the user's code calls."""

from __future__ import annotations

import contextlib
import copy
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any


class _Wrapper:
    """A callable in place of an object that cannot be copied, with the other attributes of that object."""

    def __init__(self, original: Any, function: Callable[..., Any]) -> None:
        self._original = original
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def standing_in(original: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """A callable that calls the function and, if possible, has the type of the original."""
    if isinstance(original, types.FunctionType | types.BuiltinFunctionType | types.MethodType):
        return function
    try:
        stand_in = copy.copy(original)
        calls = {"__call__": lambda _, *args, **kwargs: function(*args, **kwargs)}
        stand_in.__class__ = type(type(original).__name__, (type(original),), calls)
    except Exception:  # noqa: BLE001 - built-in types, such as a connection of sqlite3, cannot be copied
        return _Wrapper(original, function)
    return stand_in  # type: ignore[no-any-return]


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute of a module or class inside the context."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


UNRELATED = sys.stdlib_module_names | {
    *("numpy", "scipy", "sympy", "mpmath", "torch", "torchgen", "triton", "cuda"),
    *("dataguard", "dill", "hypothesis", "psutil", "tqdm", "typing_extensions"),
}
"""Packages that refer to no function of another package that gets a stand-in, and are used for their own. They define
most names in a process, and looking at those in a fork copies their memory."""
_MODELS = ("torchvision.models", "torchvision.ops")


def rebind(known: dict[int, tuple[Any, Any]]) -> None:
    """Bind the stand-in of each function in every module that refers to the function."""
    for spelling, module in list(sys.modules.items()):
        if spelling.partition(".")[0] in UNRELATED or spelling.startswith(_MODELS):
            continue
        names = module.__dict__ if isinstance(module, types.ModuleType) else {}
        for name, value in list(names.items()):
            if id(value) in known:
                names[name] = known[id(value)][1]
