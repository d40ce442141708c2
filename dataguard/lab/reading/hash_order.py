"""Sets of strings that are iterated in a chosen order, as they are under one hash seed or another.

Python salts hashes of strings, and of what is hashed by strings, in every process, so that the order of a set of them
varies between runs. Here the user's modules are imported again with `set`, `frozenset`, `hash`, set displays and
operations on keys of dicts replaced by equivalents in a chosen order, which avoids a new interpreter that takes seconds
to import torch. Sets that installed packages make keep their order.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from datetime import time as time_of_day
from enum import Enum
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path, PurePath
from types import CodeType
from typing import Any

import numpy as np

from dataguard.core.incident import is_library
from dataguard.lab.core.source_location import caller
from dataguard.lab.reading.fresh_import import Places, is_own_source
from dataguard.process.originals import time

_SALTED = (str, bytes, date, time_of_day, np.datetime64, PurePath, Enum, re.Pattern)
"""Types whose hashes are made of that of a string; an enum of numbers is hashed as a number."""
_NAMES = {"set": "__ordered_set__", "frozenset": "__ordered_frozenset__", "hash": "__ordered_hash__"}
_OF_VIEWS = "__ordered_result__"
_VIEWS = ("keys", "items")
_VIEW_OPERATIONS = (ast.BitAnd, ast.BitOr, ast.Sub, ast.BitXor)
_OPERATIONS = ("and", "or", "sub", "xor", "rand", "ror", "rsub", "rxor")
_METHODS = ("union", "intersection", "difference", "symmetric_difference", "copy")
_MOST_SECONDS = 2.0
"""How long modules are rewritten at a time in the process that all forks come from."""


class _Order:
    """Which of two orders sets have in this process, and where the order is used."""

    backward = False
    places: Places = {}  # noqa: RUF012 - a process has one


@contextlib.contextmanager
def ordered_sets(places: Places, *, backward: bool) -> Iterator[None]:
    """The user's modules that are imported in this context have sets in one of two orders, whatever their hashes."""
    _Order.backward, _Order.places = backward, places
    for name, kind in zip(_NAMES.values(), (OrderedSet, OrderedFrozenset, _ordered_hash), strict=True):
        setattr(builtins, name, kind)
    setattr(builtins, _OF_VIEWS, _ordered_result)
    sys.meta_path.insert(0, _Finder)
    try:
        yield
    finally:
        sys.meta_path.remove(_Finder)


class _Finder:
    """Finds the user's modules, and has them rewritten."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """The spec of the ordinary finder, with another loader."""
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or not spec.origin or not is_own_source(name, spec.origin):
            return None
        spec.loader = _Rewriter(name, spec.origin)
        return spec


class _Rewriter(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """The module's code with every set replaced; no bytecode cache is read or written."""
        path = self.get_filename(fullname)
        return _rewritten(path, self.get_data(path))


@functools.lru_cache(maxsize=1024)
def _rewritten(path: str, source: bytes) -> CodeType:
    tree = ast.parse(source, path)
    tree = ast.fix_missing_locations(_Sets(_bound(tree)).visit(tree))
    return compile(tree, path, "exec", dont_inherit=True)


def rewrite_beforehand(paths: Iterable[str]) -> None:
    """Replace the sets of these modules once, for all forks that will import them; of a large project only some."""
    deadline = time.monotonic() + _MOST_SECONDS
    for path in itertools.takewhile(lambda _: time.monotonic() < deadline, paths):
        _rewrite_once(path)


@functools.cache
def _rewrite_once(path: str) -> None:
    with contextlib.suppress(Exception):  # the import of a module that cannot be rewritten says why
        _rewritten(path, Path(path).read_bytes())


def _bound(tree: ast.AST) -> set[str]:
    """The names that a module redefines anywhere."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return names


class _Sets(ast.NodeTransformer):
    """Replaces sets, and their names unless the module has `bound` them; annotations stay unchanged."""

    def __init__(self, bound: set[str]) -> None:
        self._names = {name: other for name, other in _NAMES.items() if name not in bound}

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        returned, node.returns = node.returns, None
        self.generic_visit(node)
        node.returns = returned
        return node

    def visit_Set(self, node: ast.Set) -> ast.AST:
        self.generic_visit(node)
        return ast.copy_location(_call(ast.List(node.elts, ast.Load())), node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        self.generic_visit(node)
        return ast.copy_location(_call(ast.ListComp(node.elt, node.generators)), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        is_of_views = isinstance(node.op, _VIEW_OPERATIONS) and any(map(_is_view, (node.left, node.right)))
        call = ast.Call(ast.Name(_OF_VIEWS, ast.Load()), [node], [])
        return ast.copy_location(call, node) if is_of_views else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and node.id in self._names:
            return ast.copy_location(ast.Name(self._names[node.id], ast.Load()), node)
        return node


def _call(entries: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(_NAMES["set"], ast.Load()), [entries], [])


def _is_view(node: ast.expr) -> bool:
    """Whether it is a call such as `names.keys()`: operations on what a dict returns there make a set."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS


def _is_salted(value: Any) -> bool:
    """Whether the hash of this value varies between processes, and the user's code does not make it by `hash`."""
    if isinstance(value, tuple | frozenset):
        return any(map(_is_salted, value))
    kind: Any = type(value)
    if isinstance(value, int) or _is_hashed_by_user(kind):
        return False
    if dataclasses.is_dataclass(value) and kind.__hash__ is not object.__hash__:
        fields = (field for field in dataclasses.fields(value) if (field.compare if field.hash is None else field.hash))
        return any(_is_salted(getattr(value, field.name)) for field in fields)
    return isinstance(value, _SALTED)


@functools.cache
def _is_hashed_by_user(kind: type) -> bool:
    """Whether a class of the user's has a `__hash__` of its own; dataclasses generate theirs."""
    code = getattr(kind.__hash__, "__code__", None)
    return code is not None and not is_library(code.co_filename)


def _ordered(items: list[Any]) -> Iterator[Any]:
    """The items in the order of this process, if it depends on string hashes: one of them moves others."""
    if len(items) > 1 and any(map(_is_salted, items)):
        _Order.places.setdefault(caller(), False)
        items.sort(key=lambda item: hashlib.blake2b(repr(item).encode()).digest(), reverse=_Order.backward)
    return iter(items)


def _ordered_result(result: Any) -> Any:
    return OrderedSet(result) if type(result) is set else result


def _ordered_hash(value: Any) -> int:
    if not _is_salted(value):
        return hash(value)
    _Order.places.setdefault(caller(), False)
    return hash((value, _Order.backward))


class _Alike(type):
    """A metaclass: `isinstance` also accepts the built-in type, but not for the user's subclasses."""

    def __instancecheck__(cls, instance: object) -> bool:
        is_replacement = cls.__module__ == __name__
        return isinstance(instance, cls.__mro__[1]) if is_replacement else super().__instancecheck__(instance)


class OrderedSet(set, metaclass=_Alike):  # type: ignore[type-arg]
    """A set in the order of this process."""

    def __iter__(self) -> Iterator[Any]:
        return _ordered(list(set.__iter__(self)))

    def pop(self) -> Any:
        """Remove and return the first item."""
        if not self:
            raise KeyError("pop from an empty set")
        first = next(iter(self))
        self.remove(first)
        return first


class OrderedFrozenset(frozenset, metaclass=_Alike):  # type: ignore[type-arg]
    """A frozenset in the order of this process."""

    def __iter__(self) -> Iterator[Any]:
        return _ordered(list(frozenset.__iter__(self)))


def _keeping(cls: Any, name: str) -> Callable[..., Any]:
    """A method whose result is a set of the same kind."""
    base = cls.__mro__[1]

    def method(self: Any, *others: Any) -> Any:
        result = getattr(base, name)(self, *others)
        return cls(result) if type(result) in (set, frozenset) else result

    return method


for _cls in (OrderedSet, OrderedFrozenset):
    for _name in (*_METHODS, *(f"__{_operation}__" for _operation in _OPERATIONS)):
        setattr(_cls, _name, _keeping(_cls, _name))
