"""Lines of the user's code that compute another image or array and drop it, such as `TF.hflip(image)` alone.

A statement that is nothing but a call, a part of an array or arithmetic is evaluated once more, on copies of the arrays
that it is given, right before it runs. Its result is dropped if it is a new array with other values, and the arrays
that were given are unchanged: then the call does not work in place. Calls that may have another effect are left out:
methods of objects that are no arrays, functions of the user's that store something, and all calls inside `try`, which
may only test whether data are valid.
"""

from __future__ import annotations

import ast
import copy
import dis
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch

from dataguard.core.incident import is_library
from dataguard.lab.core.leaves import array_of, is_pillow, keep
from dataguard.lab.core.records import Index
from dataguard.lab.core.source_location import file_tree
from dataguard.lab.culprit.line_trace import MOST_ENTRIES, tracing
from dataguard.lab.transforms.pipeline_watch import MOST_IN_BATCH, read_samples, try_to_collate
from dataguard.targets.variants import Loader

DROPPED_READS = 8
"""Samples that are read: a step of probability 0.5 runs in one of them, but for once in 256 times."""
FEWEST_DROPPED_READS = 4
"""Samples that are read where none of the functions that run has a line to evaluate."""
FEWEST_VALUES = 16
"""The fewest values of an array that counts as data of a sample."""
_MOST_EVALUATED = 4
"""How often a line is evaluated until its result differs from what it is given: a limit of time."""
_MOST_SHOWN = 60
"""Characters of a line in a message."""
_EFFECTS = frozenset({"print", "setattr", *dir(list), *dir(dict), *dir(set)}) - {"copy"}
"""Names of what changes a container, or prints; those of torch that work in place end with `_`."""
_STORING = frozenset({"STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF", "STORE_SUBSCR"})
"""Instructions by which a function may have an effect that its result does not show."""


@dataclass(frozen=True, slots=True)
class DroppedResult:
    """A line whose result is another array, and is not used: where it is, its text, and the shape of the result."""

    file: str
    line: int
    function: str
    text: str
    shape: tuple[int, ...]

    @property
    def shown(self) -> str:
        """Its text, in one line."""
        return self.text if len(self.text) <= _MOST_SHOWN else f"{self.text[:_MOST_SHOWN]}..."


def find_dropped(build: Callable[..., Loader], folder: Path, indices: Sequence[Index]) -> tuple[DroppedResult, ...]:
    """Such lines that run while samples are read and collated, in this disposable process."""
    loader = build()
    if not any(map(_unused_calls, _own_files())):
        return ()
    watch = _CallWatch()
    batch: list[Any] = []
    with tracing(watch.called):
        for number, sample in enumerate(read_samples(loader, folder, indices, DROPPED_READS), 1):
            keep(sample, batch, 1, MOST_IN_BATCH)
            if number == FEWEST_DROPPED_READS and not watch.entered:
                break
        try_to_collate(loader, batch)
    return tuple(watch.dropped.values())


def _own_files() -> Iterator[str]:
    """The files of the user's modules that are imported, and of a script, which `fork_safety.own_files` leaves out."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and not is_library(file):
            yield file


class _CallWatch:
    """Evaluates the calls of lines in the user's code that use no result."""

    def __init__(self) -> None:
        self.dropped: dict[tuple[str, int], DroppedResult] = {}
        self.entered = False
        """Whether a function ran that has such a line."""
        self._evaluated: dict[tuple[str, int], int] = {}

    def called(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        """What traces the lines of a function that has such calls."""
        del event, argument
        code = frame.f_code
        if is_library(code.co_filename):
            return None
        calls = _unused_calls(code.co_filename)
        if not any(line in calls for *_, line in code.co_lines()):
            return None
        self.entered = True
        return self._in_own

    def _in_own(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        del argument
        file, line = frame.f_code.co_filename, frame.f_lineno
        call = _unused_calls(file).get(line) if event == "line" else None
        times = self._evaluated.get((file, line), 0)
        if call is not None and (file, line) not in self.dropped and times < _MOST_EVALUATED:
            self._evaluated[file, line] = times + 1
            usual = sys.gettrace()
            sys.settrace(None)
            try:
                result = _other_array(call, frame)
            finally:
                sys.settrace(usual)
            if result is not None:
                name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
                shape = array_of(result).shape
                self.dropped[file, line] = DroppedResult(file, line, name, ast.unparse(call), shape)
        return self._in_own


@lru_cache(maxsize=256)
def _unused_calls(file: str) -> Mapping[int, ast.expr]:
    """The statements of a file that only compute a value, by the line where they begin; none inside `try`.

    Methods by which containers are changed, and functions that only have an effect, are left out by their names.
    """
    return {call.lineno: call for call in _calls_in(file_tree(file)) if not _is_an_effect(call)}


def _is_an_effect(value: ast.expr) -> bool:
    """Whether a call is known to change something; other values may only be computed without any call."""
    if not isinstance(value, ast.Call):
        return any(isinstance(inner, ast.Call | ast.Await | ast.NamedExpr) for inner in ast.walk(value))
    function = value.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _EFFECTS or name.endswith("_")


def _calls_in(node: ast.AST) -> Iterator[ast.expr]:
    for name, value in ast.iter_fields(node):
        if isinstance(node, ast.Try) and name == "body":
            continue
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call | ast.Subscript | ast.BinOp):
                yield inner.value
            elif isinstance(inner, ast.AST):
                yield from _calls_in(inner)


def _other_array(call: ast.expr, frame: FrameType) -> Any:
    """What a call returns for copies of what it is given, if it is another array and nothing else; None otherwise.

    Without a call, it has as many axes: an entry alone may be what a cell of a notebook showed.
    """
    names = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    try:
        local = dict(frame.f_locals)
        local |= {name: copy.deepcopy(local[name]) for name in names if [*_data_in(local.get(name))]}
        scope = partial(_value, code=frame.f_code, scope=(frame.f_globals, local))
        given = [one for node in _plain_parts(call) for one in _data_in(scope(node))]
        before = [np.array(array_of(one)) for one in given]
        if not given or (isinstance(call, ast.Call) and not _has_no_effect(call.func, scope)):
            return None
        result = scope(call)
        if not isinstance(call, ast.Call) and array_of(result).ndim != max(one.ndim for one in before):
            return None
        if not _is_data(result) or array_of(result).dtype.kind == "b":
            return None
        after = array_of(result)
        unchanged = all(np.array_equal(one, array_of(other)) for one, other in zip(before, given, strict=True))
        return result if unchanged and not any(np.array_equal(one, after) for one in before) else None
    except Exception:  # noqa: BLE001 - what cannot be evaluated alone is not judged
        return None


def _value(node: ast.expr, code: CodeType, scope: tuple[dict[str, Any], dict[str, Any]]) -> Any:
    return eval(compile(ast.Expression(node), code.co_filename, "eval"), *scope)


def _plain_parts(call: ast.expr) -> Iterator[ast.expr]:
    """The variables, attributes and entries that a call names."""
    for node in ast.walk(call):
        is_plain = not any(isinstance(inner, ast.Call) for inner in ast.walk(node))
        if is_plain and node is not call and isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            yield node


def _has_no_effect(node: ast.expr, scope: Callable[[ast.expr], Any]) -> bool:
    """Whether this is a method of an array, or a function of a module that stores nothing."""
    if isinstance(node, ast.Attribute) and _is_data(scope(node.value)):
        return True
    function = scope(node)
    if isinstance(function, types.BuiltinFunctionType):
        return isinstance(function.__self__, types.ModuleType | type | None)
    if not isinstance(function, types.FunctionType):
        kinds = ("cython_function_or_method", "ufunc", "_ArrayFunctionDispatcher")
        return type(function).__name__ in kinds
    return is_library(function.__code__.co_filename) or not (
        function.__code__.co_freevars or any(one.opname in _STORING for one in dis.get_instructions(function))
    )


def _data_in(value: Any) -> Iterator[Any]:
    """A value that is data, or the entries of a small container that are."""
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else (value,)
    yield from filter(_is_data, entries if len(entries) <= MOST_ENTRIES else ())


def _is_data(value: Any) -> bool:
    if is_pillow(value):
        return True
    return isinstance(value, np.ndarray | torch.Tensor) and array_of(value).size >= FEWEST_VALUES
