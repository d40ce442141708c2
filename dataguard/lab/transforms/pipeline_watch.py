"""The steps of a pipeline: objects that the dataset holds, watched while they are called with pictures.

A step is watched through its class, so that the user's own object runs, in its own place.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from torch.utils.data import Dataset, Sampler

from dataguard.lab.core.leaves import describe, iter_leaves
from dataguard.lab.core.object_graph import Node, reachable
from dataguard.lab.images.image_containers import is_picture

_FOREIGN = {*sys.stdlib_module_names, "torch", "numpy", "PIL", "cv2", "pandas", "dataguard"}
"""Packages whose callable objects are no steps of a pipeline."""

Prints = Counter[tuple[str, bytes]]
"""What a step was given or gave: how many leaves there are of each kind and content."""


class Log:
    """What one step was seen to do: calls, those that changed something, and what it was given at first.

    `is_nested` tells that another step called it, and `in_place` that it changed what it was given.
    """

    def __init__(self, node: Node) -> None:
        self.step = node.value
        self.path = node.path
        self.calls = 0
        self.acts = 0
        self.is_outer = False
        self.is_nested = False
        self.in_place = False
        self.example: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    @property
    def name(self) -> str:
        """The name of its class."""
        return type(self.step).__name__


class Watch:
    """Watches every step that can be reached from some objects, in this process, which is thrown away."""

    def __init__(self, roots: Mapping[str, Any]) -> None:
        nodes = list(reachable(roots, _is_step, enter=True))
        self._logs = {id(node.value): Log(node) for node in nodes}
        self._running: list[Log] = []
        self.change: Callable[[Log, Any], Any] | None = None
        """What is put in the place of what a step gives, if anything."""
        self.calls: dict[type, Callable[..., Any]] = {}
        """How the steps of each class are called without being watched."""
        for kind in {type(node.value) for node in nodes}:
            self._install(kind)

    @property
    def logs(self) -> list[Log]:
        """The steps that were called with pictures."""
        return [log for log in self._logs.values() if log.example is not None]

    def _install(self, kind: Any) -> None:
        original = kind.__call__

        @functools.wraps(original)
        def __call__(step: Any, *args: Any, **kwargs: Any) -> Any:
            log = self._logs.get(id(step))
            if log is None or log in self._running:
                return original(step, *args, **kwargs)
            return self._watched(log, functools.partial(original, step), args, kwargs)

        with contextlib.suppress(TypeError, AttributeError):  # a class that is not of Python's own making
            kind.__call__ = __call__
            self.calls[kind] = original

    def _watched(self, log: Log, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._running:
            self._running[-1].is_outer = log.is_nested = True
        if log.example is None and has_picture((args, kwargs)):
            with contextlib.suppress(Exception):  # what cannot be copied is not tried again
                log.example = copy.deepcopy((args, kwargs))
        before = prints((args, kwargs))
        self._running.append(log)
        try:
            given = call(*args, **kwargs)
        finally:
            self._running.pop()
        log.calls += 1
        log.acts += prints(given) != before
        log.in_place |= prints((args, kwargs)) != before
        return self.change(log, given) if self.change else given


def _is_step(value: Any) -> bool:
    """Whether an object may be a step: one of a class that can be called, of no package that has other things to do."""
    kind = type(value)
    if issubclass(kind, type | Dataset | Sampler) or kind.__module__.partition(".")[0] in _FOREIGN:
        return False
    return any("__call__" in cls.__dict__ for cls in kind.__mro__)


def has_picture(value: Any) -> bool:
    """Whether there is a picture among the leaves of a structure."""
    return any(is_picture(leaf) for _, leaf in iter_leaves(value))


def prints(value: Any) -> Prints:
    """What can be compared of a structure before and after a step."""
    found = [describe("", leaf) for _, leaf in iter_leaves(value)]
    return Counter((leaf.kind, leaf.digest) for leaf in found)
