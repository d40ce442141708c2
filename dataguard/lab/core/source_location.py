"""The user's code as seen from outside: where things are defined, what runs now, and functions that replace others.

A location is the user's if its file belongs to no library. Replacing a function means to bind another callable to its
name (`replaced`), or to every name that any module has for it (`rebind`).
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import inspect
import linecache
import re
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dataguard.core.incident import OWN, is_library
from dataguard.lab.process.fork_safety import namespace, references

_HEAP_TYPE = 1 << 9
"""The flag of a type created at run time, as every Python class is (`Py_TPFLAGS_HEAPTYPE`)."""
_INSTALLED = frozenset({"site-packages", "dist-packages"})


Place = tuple[str, int, str]
"""A file, a line, and the function that it is in."""


def caller(*, qualified: bool = False) -> Place | None:
    """The innermost line of the user's code that runs in this thread; `qualified`: with the class of its function."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name) if qualified else code.co_name
    return code.co_filename, frame.f_lineno, name


def in_package() -> bool:
    """Whether an installed package runs in this thread, called by the innermost line of the user's code, if any."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        file = frame.f_code.co_filename
        if not file.startswith(OWN) and _INSTALLED.intersection(Path(file).parts):
            return True
        frame = frame.f_back
    return False


def samples_at(dataset: Any) -> Place | None:
    """Where the user's class makes samples: its `__getitem__`, or the loop in its `__iter__`."""
    for name in ("__getitem__", "__getitems__", "__iter__"):
        for cls in type(dataset).__mro__:
            method = inspect.unwrap(vars(cls).get(name, cls))
            if isinstance(method, types.FunctionType) and is_own(method):
                line = _loop_of(method) if name == "__iter__" else method.__code__.co_firstlineno
                return method.__code__.co_filename, line, f"{cls.__name__}.{name}"
    return None


def _loop_of(function: types.FunctionType) -> int:
    """The line of a function's first loop; else of what it first yields or returns, else its own."""
    first = function.__code__.co_firstlineno
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return first
    for kinds in ((ast.For, ast.While), (ast.Yield, ast.YieldFrom, ast.Return)):
        lines = [node.lineno for node in ast.walk(tree) if isinstance(node, kinds)]
        if lines:
            return first + min(lines) - 1
    return first


def made_at(thing: Any) -> tuple[str, int] | None:
    """File and line where a class, a function, or the class of an object is defined."""
    source: Any = thing if issubclass(type(thing), type | types.FunctionType | types.MethodType) else type(thing)
    try:
        if issubclass(type(source), type):
            return _class_at(source)
        return inspect.getsourcefile(source) or "", inspect.getsourcelines(source)[1]
    except (OSError, TypeError):
        return None


@functools.lru_cache(maxsize=256)
def file_tree(file: str) -> ast.Module:
    """A file of the user's code, parsed; empty if its source is not there, or was changed since and is incomplete."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module([], [])


def called_at(place: Place, name: str) -> str | None:
    """How a line of the user's code spells the function of this name that it calls: `np.random.default_rng`."""
    file, line, _ = place
    calls = (node for node in ast.walk(file_tree(file)) if isinstance(node, ast.Call))
    spelled = (ast.unparse(call.func) for call in calls if call.lineno <= line <= (call.end_lineno or call.lineno))
    return next((text for text in spelled if text.rpartition(".")[2] == name), None)


def assigned_at(holder: Any, name: str) -> Place | None:
    """The line of the user's classes that assigns an attribute of an object; of several, the first that calls."""
    for cls in (cls for cls in type(holder).__mro__ if is_own(cls)):
        tree, first = source_tree(cls) or (ast.Module([], []), 1)
        found = [node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign) and _sets(node, name)]
        found.sort(key=lambda node: (not isinstance(node.value, ast.Call), node.lineno))
        if found:
            return inspect.getsourcefile(cls) or "", first + found[0].lineno - 1, cls.__name__
    return None


def variable_at(owner: type | types.ModuleType, name: str) -> tuple[str, int] | None:
    """The file and line where a class of the user, or a module, first assigns a variable in its body."""
    tree, first = source_tree(owner) or (ast.Module([], []), 1)
    body = (
        next((part.body for part in tree.body if isinstance(part, ast.ClassDef)), [])
        if isinstance(owner, type)
        else tree.body
    )
    for node in body:
        targets = targets_of(node) if isinstance(node, ast.Assign | ast.AnnAssign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return inspect.getsourcefile(owner) or "", max(first, 1) + node.lineno - 1  # a module begins at line 0
    return None


def source_tree(thing: Any) -> tuple[ast.Module, int] | None:
    """The source of a class, module, function or code, whose lines are counted from 1, and its first line in the file.

    None if its source is not there, or is no longer what ran.
    """
    try:
        lines, first = inspect.getsourcelines(thing)
        return ast.parse(textwrap.dedent("".join(lines))), first
    except (OSError, TypeError, SyntaxError):
        return None


def targets_of(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    """What a statement assigns to."""
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _sets(node: ast.Assign | ast.AnnAssign, name: str) -> bool:
    """Whether a statement assigns `self.name`."""
    return node.value is not None and any(
        target.attr == name and isinstance(target.value, ast.Name) and target.value.id == "self"
        for target in targets_of(node)
        if isinstance(target, ast.Attribute)
    )


@functools.lru_cache(maxsize=4096)
def _class_at(cls: type) -> tuple[str, int] | None:
    """File and line of a class, its decorators included.

    `inspect` parses the whole file before Python 3.13, which takes as long as reading a batch for a large library.
    """
    file = inspect.getsourcefile(cls) or ""
    line = cls.__dict__.get("__firstlineno__")
    if line is not None:
        return file, line
    lines = linecache.getlines(file)
    opening = re.compile(rf"\s*class\s+{re.escape(cls.__name__)}\b")
    every = [number for number, text in enumerate(lines) if opening.match(text)]
    outermost = [number for number in every if not lines[number][0].isspace()]
    headers = outermost if outermost and "." not in cls.__qualname__ else every
    if not headers:
        return None
    # Of several classes of that name, it is the last one above the first of its own methods.
    methods = (member.__code__ for member in vars(cls).values() if isinstance(member, types.FunctionType))
    below = min((code.co_firstlineno for code in methods if code.co_filename == file), default=len(lines))
    number = max((header for header in headers if header < below), default=headers[0])
    while number and lines[number - 1].lstrip().startswith("@"):
        number -= 1
    return file, number + 1


def file_of(cls: type) -> str:
    """The file of the module that defines a class; `<built-in>` if there is none."""
    module = sys.modules.get(cls.__module__) if cls.__flags__ & _HEAP_TYPE else None
    file = None if module is None else object.__getattribute__(module, "__dict__").get("__file__")
    return file or "<built-in>"


def is_own(thing: Any) -> bool:
    """Whether a function, a class, or the class of an object is the user's."""
    if issubclass(type(thing), types.FunctionType):
        return not is_library(thing.__code__.co_filename)
    return not is_library(file_of(thing if issubclass(type(thing), type) else type(thing)))


def package_of(thing: Any) -> str | None:
    """The installed package that defines the class of an object; None for the standard library and the user's code."""
    if not _INSTALLED.intersection(Path(file_of(type(thing))).parts):
        return None
    return type(thing).__module__.partition(".")[0]


@functools.lru_cache(maxsize=4096)
def shared_by(cls: type) -> tuple[tuple[str, Any], ...]:
    """The attributes of a class's library base classes that all its objects share, without methods and plain values.

    MONAI stores the generator of all its transforms in one.
    """
    attributes: dict[str, Any] = {}
    for base in cls.__mro__:
        for name, item in () if is_own(base) or base.__module__ == "builtins" else list(vars(base).items()):
            plain = issubclass(type(item), (str, int, float, bool, tuple, frozenset, type(None), type))
            if name[:2] != "__" and not plain and not hasattr(type(item), "__get__"):
                attributes.setdefault(name, item)
    return tuple(attributes.items())


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


def rebind(stand_ins: Mapping[int, tuple[Any, Any]], defining: Sequence[str] = ()) -> None:
    """Bind the stand-in of each function wherever a module refers to the function by name.

    `stand_ins` are pairs of a function and its stand-in, by the `id` of the function. Unrelated packages are left
    alone, but for the modules named in `defining`, in which functions have their own name.
    """
    for space, name in references(stand_ins):
        space[name] = stand_ins[id(space[name])][1]
    for module in defining:
        space = namespace(module)
        for function, stand_in in stand_ins.values():
            own_name: str = function.__name__
            if space.get(own_name) is function:
                space[own_name] = stand_in
