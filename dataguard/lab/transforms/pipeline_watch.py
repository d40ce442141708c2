"""The steps of a pipeline: objects of the dataset, watched while they are called with images.

A step is watched by patching its class, so that the user's own object runs.
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
from dataguard.lab.core.object_graph import Node
from dataguard.lab.core.object_graph import reachable as search
from dataguard.lab.images.image_containers import is_image
from dataguard.targets.variants import Loader

_FOREIGN = {*sys.stdlib_module_names, "torch", "numpy", "PIL", "cv2", "pandas", "dataguard"}
"""Packages whose callable objects are not pipeline steps."""

NO_STEPS = "the dataset calls no transform or other object with an image"

Fingerprint = Counter[tuple[str, bytes]]
"""The content of a step's input or result: the number of leaves of each kind and digest."""


class CallLog:
    """The calls of one step: how many, how many changed something, and the first arguments with an image.

    An `is_outer` step calls others, and another step calls an `is_nested` one; `in_place` means that its arguments
    changed.
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


class PipelineWatch:
    """Watches every step that can be reached from some objects, in this disposable process."""

    def __init__(self, roots: Mapping[str, Any]) -> None:
        nodes = list(search(roots, _is_step, enter=True))
        self._logs = {id(node.value): CallLog(node) for node in nodes}
        self._running: list[CallLog] = []
        self.change: Callable[[CallLog, Any], Any] | None = None
        """Replaces the result of a step, if set."""
        self.calls: dict[type, Callable[..., Any]] = {}
        """The original `__call__` of each class."""
        for kind in {type(node.value) for node in nodes}:
            self._install(kind)

    @property
    def watches(self) -> bool:
        """Whether there is any step."""
        return bool(self._logs)

    @property
    def logs(self) -> list[CallLog]:
        """The steps that were called with images."""
        return [log for log in self._logs.values() if log.example is not None]

    def _install(self, kind: Any) -> None:
        original = kind.__call__

        @functools.wraps(original)
        def __call__(step: Any, *args: Any, **kwargs: Any) -> Any:
            log = self._logs.get(id(step))
            if log is None or log in self._running:
                return original(step, *args, **kwargs)
            return self._watched(log, functools.partial(original, step), args, kwargs)

        with contextlib.suppress(TypeError, AttributeError):  # a class that cannot be patched
            kind.__call__ = __call__
            self.calls[kind] = original

    def _watched(self, log: CallLog, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._running:
            self._running[-1].is_outer = log.is_nested = True
        if log.example is None and has_image((args, kwargs)):
            with contextlib.suppress(Exception):  # arguments that cannot be copied
                log.example = copy.deepcopy((args, kwargs))
        before = fingerprint((args, kwargs))
        self._running.append(log)
        try:
            given = call(*args, **kwargs)
        finally:
            self._running.pop()
        log.calls += 1
        log.acts += fingerprint(given) != before
        log.in_place |= fingerprint((args, kwargs)) != before
        return self.change(log, given) if self.change else given


def watch_of(loader: Loader) -> PipelineWatch:
    """Watches the steps of a loader."""
    return PipelineWatch({"dataset": loader.dataset, "collate_fn": loader.collate_fn})


def has_steps(loader: Loader) -> bool:
    """Whether a loader holds any object that may be a step."""
    return watch_of(loader).watches


def _is_step(value: Any) -> bool:
    """Whether an object may be a step: a callable of a class that is not of a foreign package."""
    kind = type(value)
    if issubclass(kind, type | Dataset | Sampler) or kind.__module__.partition(".")[0] in _FOREIGN:
        return False
    return any("__call__" in cls.__dict__ for cls in kind.__mro__)


def has_image(value: Any) -> bool:
    """Whether a structure holds an image."""
    return any(is_image(leaf) for _, leaf in iter_leaves(value))


def fingerprint(value: Any) -> Fingerprint:
    """The content of a structure, to compare before and after a step."""
    found = [describe("", leaf) for _, leaf in iter_leaves(value)]
    return Counter((leaf.kind, leaf.digest) for leaf in found)
