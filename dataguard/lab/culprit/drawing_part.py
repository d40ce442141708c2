"""The part of a transform that draws random numbers, and where the factory makes it for one loader alone.

A pipeline is random because of one of its steps. Training and evaluation may share that step, or the whole transform:
the line to change is then where the outermost part that evaluation has for itself is given what they share.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from types import FrameType
from typing import Any

from dataguard.lab.core.object_graph import Node, reachable
from dataguard.lab.core.source_location import Place
from dataguard.lab.culprit.construction import Constructions
from dataguard.targets.variants import Loader

_CALLS = ("__call__", "forward")
"""The methods of a transform."""


def steps_that_draw(dataset: Any, path: str, read: Callable[[], object], state: Callable[[], Hashable]) -> list[str]:
    """The paths from the transform at a path of the dataset to its innermost part that changes the random state.

    It is the first one that does so while a sample is read.
    """
    nodes = {id(node.value): node for node in reachable({"dataset": dataset}, _is_called, enter=True)}
    entered: dict[FrameType, Hashable] = {}
    found: list[Node] = []

    def called(frame: FrameType, event: str, argument: Any) -> None:
        del argument
        code = frame.f_code
        if found or code.co_name not in _CALLS or not code.co_argcount:
            return
        node = nodes.get(id(frame.f_locals.get(code.co_varnames[0])))
        if event == "call" and node is not None:
            entered[frame] = state()
        elif event == "return" and node is not None and entered.pop(frame, None) != state():
            found.append(node)

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        read()
    finally:
        sys.setprofile(before)
    steps = [node.path for node in found[0].line][::-1] if found else []
    return [step for step in steps if step.startswith(path)] or [path]


def _is_called(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


def line_of_own_part(
    build: Callable[[], Loader], again: Callable[[], tuple[Loader, Loader | None]], steps: Sequence[str]
) -> Place | None:
    """Where the factory makes the last of these parts that no other loader has, or gives it the next one.

    `steps` are paths from the dataset to the part that is to blame; `again` calls the factory, for another loader, too.
    """
    notes = Constructions(_parts_at(build(), steps).values())
    with notes.noted():
        own, other = again()
    parts = _parts_at(own, steps)
    shared = {id(node.value) for node in reachable({"dataset": other.dataset}, _is_object, enter=True)} if other else ()
    inner: list[Any] = []
    for step in reversed(steps):
        part = parts.get(step)
        if part is not None and id(part) not in shared:
            place = notes.deciding_place(part, inner, follow=not any(id(one) in shared for one in inner))
            if place is not None:
                return place
        inner = [part] if part is not None else inner
    return None


def _parts_at(loader: Loader, paths: Sequence[str]) -> dict[str, Any]:
    """The objects at these paths; lists and dictionaries are left out."""
    wanted = set(paths)
    nodes = reachable({"dataset": loader.dataset}, _is_object, enter=True)
    return {path: node.value for node in nodes if (path := node.path) in wanted}


def _is_object(value: Any) -> bool:
    return not isinstance(value, type | list | tuple | dict)
