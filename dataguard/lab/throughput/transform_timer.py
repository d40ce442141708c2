"""Times each transform of a dataset while its samples are read, in this disposable process.

The `__call__` of a transform's class is replaced, so that the transforms stay the same objects. That is not possible
for a plain function: in a list or an attribute, it is replaced by an object that calls it.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from dataguard.lab.core.wrapped_datasets import by_name, wrapped_by
from dataguard.process.originals import time

_NAMED = ("transform", "transforms", "target_transform", "augment", "augmentation", "augmentations", "preprocess")
"""Attributes under which datasets and transforms hold transforms."""
_PLAIN = (FunctionType, BuiltinFunctionType, MethodType)
_DEPTH = 8


class TransformTimer:
    """Seconds by the name of a transform; the time of a nested transform counts only for the nested one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._names: dict[int, str] = {}
        self._held: list[Any] = []
        self._inside: list[float] = []
        self._classes: set[type] = set()

    def watch(self, dataset: Any) -> None:
        """Find the transforms of a dataset, and of those that it wraps, and time them from now on."""
        transforms = [one for _, part in wrapped_by(dataset, by_name) for one in _transforms(part, _DEPTH)]
        for holder, slot, found in transforms:
            if id(found) in self._names:
                continue
            with contextlib.suppress(Exception):  # a class that cannot be changed is timed with the rest
                self._time(holder, slot, found)

    def measured(self, name: str, call: Callable[[], Any]) -> Any:
        """Call a function, and add its time, without that of nested transforms."""
        self._inside.append(0.0)
        started = time.perf_counter()
        try:
            return call()
        finally:
            taken = time.perf_counter() - started
            self.seconds[name] += taken - self._inside.pop()
            if self._inside:
                self._inside[-1] += taken

    def _time(self, holder: Any, slot: Any, found: Any) -> None:
        if isinstance(found, _PLAIN):
            name = self._name(found, found.__name__)
            _replace(holder, slot, _Timed(self, name, found))
        else:
            self._patch(type(found))
            self._name(found, type(found).__name__)

    def _name(self, found: Any, name: str) -> str:
        """A unique name for a transform, which is kept alive, so that no other object gets the same id."""
        taken = set(self._names.values())
        number = next(number for number in range(1, len(taken) + 2) if _numbered(name, number) not in taken)
        self._held.append(found)
        self._names[id(found)] = _numbered(name, number)
        return self._names[id(found)]

    def _patch(self, kind: type) -> None:
        if kind in self._classes:
            return
        watch, original = self, kind.__call__

        def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
            name = watch._names.get(id(self))
            if name is None:
                return original(self, *args, **kwargs)
            return watch.measured(name, lambda: original(self, *args, **kwargs))

        setattr(kind, "__call__", timed)  # noqa: B010 - mypy forbids the plain form
        self._classes.add(kind)


class _Timed:
    """Replaces a plain function."""

    def __init__(self, watch: TransformTimer, name: str, function: Callable[..., Any]) -> None:
        self._watch = watch
        self._name = name
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._watch.measured(self._name, lambda: self._function(*args, **kwargs))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._function, name)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name} ({number})"


def _transforms(holder: Any, depth: int) -> Iterator[tuple[Any, Any, Any]]:
    """Every innermost transform below a dataset or transform: its holder, its slot there, and itself."""
    if depth == 0:
        return
    state = getattr(holder, "__dict__", {})
    for name in _NAMED:
        if name in state:
            yield from _below(holder, name, state[name], depth)


def _below(holder: Any, slot: Any, value: Any, depth: int) -> Iterator[tuple[Any, Any, Any]]:
    if isinstance(value, list | tuple) or type(value).__name__ in ("Sequential", "ModuleList"):
        if depth:
            for place, one in enumerate(value):
                yield from _below(value, place, one, depth - 1)
        return
    if not callable(value) or isinstance(value, type):
        return
    inside = list(_transforms(value, depth - 1))
    yield from inside or [(holder, slot, value)]


def _replace(holder: Any, slot: Any, value: Any) -> None:
    if isinstance(slot, int):
        holder[slot] = value
    else:
        setattr(holder, slot, value)
