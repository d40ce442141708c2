"""Stand-ins for functions or callable objects that the user's code calls."""

from __future__ import annotations

import contextlib
import copy
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dataguard.lab.process.imported_modules import namespace, references


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


def rebind(known: Mapping[int, tuple[Any, Any]], defining: Sequence[str] = ()) -> None:
    """Bind the stand-in of each function wherever a module refers to the function by name.

    `known` has pairs of a function and its stand-in, by the `id` of the function. Unrelated packages are left alone,
    but for the modules named in `defining`, in which functions have their own name.
    """
    for space, name in references(known):
        space[name] = known[id(space[name])][1]
    for module in defining:
        space = namespace(module)
        for function, stand_in in known.values():
            own_name: str = function.__name__
            if space.get(own_name) is function:
                space[own_name] = stand_in
