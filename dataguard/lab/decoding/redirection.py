"""Redirects a function: whoever holds it calls another one from then on, in this process.

A dataset holds its decoder in many ways: as an attribute, a default argument, a closure variable, in a partial or a
table. Names can be bound again, such references cannot. So the function object itself is edited: it keeps its identity,
name, signature and pickled form, however it is held and whenever it was bound. A Python function gets another code
object, and a built-in one another C function (CPython only), whose arguments are those of `PyObject_Call`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]
Around = Callable[[Function], Function]
"""Returns what is called in place of a function, which it gets unchanged."""

_CALLERS = {
    0x0001: "PyObject_CallObject",  # METH_VARARGS
    0x0003: "PyObject_Call",  # METH_VARARGS | METH_KEYWORDS, as in OpenCV
    0x0082: "PyObject_Vectorcall",  # METH_FASTCALL | METH_KEYWORDS, as in Cython
}
_METHODS = {flags: name for flags, name in _CALLERS.items() if hasattr(ctypes.pythonapi, name)}
"""By the calling convention of a built-in function: a function of the C API that takes the same arguments, of which the
first is the object to call instead of the module. Python 3.10 has the last one as a macro only."""


class _Definition(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Builtin(ctypes.Structure):
    """`PyCFunctionObject`, with which functions of Cython begin too."""

    _fields_ = (
        ("head", ctypes.c_byte * object.__basicsize__),
        ("definition", ctypes.c_void_p),
        ("owner", ctypes.c_void_p),
        ("module", ctypes.c_void_p),
    )


class _Callee(types.ModuleType):
    """What a built-in function calls: a module, as its owner usually is, so that it is still pickled by name."""

    def __init__(self, name: str, function: Function) -> None:
        super().__init__(name)
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


_kept: list[object] = []
"""What edited functions refer to without counting it."""


def redirect(function: Function, around: Around) -> Callable[[], None] | None:
    """Have `around(function)` called instead of a function; `around` gets a function that still does the original work.

    Returns what undoes it. None, and nothing is changed, for a callable that cannot be edited: an object of a class of
    its own, or a built-in function of another Python than CPython or with another calling convention.
    """
    if type(function) is types.FunctionType:
        return _redirect_python(function, around)
    if sys.implementation.name == "cpython" and _is_builtin(function):
        return _redirect_builtin(function, around)
    return None


def redirect_method(owner: type, name: str, around: Around) -> None:
    """The same for a method of a class, of one that is written in C too, and for all instances that there are."""
    original = owner.__dict__[name]
    original = getattr(original, "__func__", original)  # of a class method
    if redirect(original, around) is None:
        methods = gc.get_referents(owner.__dict__)[0]  # setattr refuses to change a class that is written in C
        methods[name] = around(original)
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


def _redirect_python(function: types.FunctionType, around: Around) -> Callable[[], None]:
    code = function.__code__
    original = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    original.__dict__.update(function.__dict__)
    with contextlib.suppress(Exception):  # annotations may refer to names that only type checkers import
        function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined] # what `inspect` shows
    stand_in = around(original)
    pattern = _calling.__code__
    function.__code__ = pattern.replace(
        co_consts=tuple(stand_in if value == _STAND_IN else value for value in pattern.co_consts),
        co_freevars=code.co_freevars,
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
        co_name=code.co_name,
    )

    def undo() -> None:
        function.__code__ = code
        function.__dict__.clear()
        function.__dict__.update(original.__dict__)

    return undo


_STAND_IN = "what is called instead"


def _calling(*args: Any, **kwargs: Any) -> Any:
    stand_in: Any = "what is called instead"  # a constant of its code, for which `_redirect_python` puts another one
    return stand_in(*args, **kwargs)


def _is_builtin(function: Function) -> bool:
    """Whether it is a built-in function, or one of Cython, with a known calling convention."""
    kind = type(function)
    if kind is not types.BuiltinFunctionType and kind.__name__ != "cython_function_or_method":
        return False
    return _Definition.from_address(_Builtin.from_address(id(function)).definition).flags in _METHODS


def _redirect_builtin(function: Any, around: Around) -> Callable[[], None]:
    edited = _Builtin.from_address(id(function))
    before, owner = edited.definition, edited.owner
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype, create.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object)
    original = create(before, owner, function.__module__)
    callee = _Callee(function.__module__ or "", around(original))
    definition = _Definition.from_buffer_copy(_Definition.from_address(before))
    caller = getattr(ctypes.pythonapi, _METHODS[definition.flags])
    definition.function = ctypes.cast(caller, ctypes.c_void_p).value
    _kept.extend((callee, definition))
    edited.owner, edited.definition = id(callee), ctypes.addressof(definition)

    def undo() -> None:
        edited.owner, edited.definition = owner, before

    return undo
