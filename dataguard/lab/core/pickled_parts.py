"""What an object is pickled as: its parts, each with its path step."""

from __future__ import annotations

import copyreg
import functools
import types
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from multiprocessing.reduction import ForkingPickler
from typing import Any

from dataguard.process.originals import pickle

MOST_PARTS = 100_000
"""How many parts of one container are returned, evenly spaced."""


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """What is pickled with an object, each with its path step."""
    if isinstance(value, type | types.FunctionType | types.ModuleType | str | bytes | int | float):
        return
    if type(value) is dict:
        yield from _some(((f"[{key!r}]", item) for key, item in value.items()), len(value))
        yield from _some(((f".<key {key!r}>", key) for key in value), len(value))
    elif type(value) in (list, set, frozenset) or isinstance(value, tuple):
        yield from _some(((f"[{number}]", item) for number, item in enumerate(value)), len(value))
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield from ((f".args[{number}]", item) for number, item in enumerate(value.args))
        yield from ((f".keywords[{name!r}]", item) for name, item in value.keywords.items())
        yield from ((f".{name}", item) for name, item in vars(value).items())
    else:
        yield from _reduced_parts(value)


def _some(parts: Iterator[tuple[str, Any]], count: int) -> Iterator[tuple[str, Any]]:
    return islice(parts, 0, None, max(count // MOST_PARTS, 1))


def _reduced_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts returned by the object's `__reduce__` or `__getstate__`, or by a reducer of its type."""
    reducers = {**copyreg.dispatch_table, **getattr(ForkingPickler, "_extra_reducers", {})}
    special = reducers.get(type(value))
    reduced = special(value) if special else value.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
    if isinstance(reduced, str):  # it is pickled by its name in its module
        return
    function, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    names = {id(item): f".{name}" for name, item in getattr(value, "__dict__", {}).items()}
    for fields in state if isinstance(state, tuple) and len(state) == 2 else (state,):
        if isinstance(fields, dict):
            yield from ((f".{name}", item) for name, item in fields.items())
        elif fields is not None:
            yield names.get(id(fields), ".<state>"), fields
    yield ".<constructor>", function
    for number, argument in enumerate(arguments):
        if argument is not type(value):
            factory = isinstance(value, defaultdict)
            yield names.get(id(argument), ".default_factory" if factory else f".<argument {number}>"), argument
    yield from ((f"[{number}]", item) for number, item in enumerate(items or ()))
    yield from ((f"[{key!r}]", item) for key, item in pairs or ())


_DECODERS = {
    "torchcodec.decoders": ("AudioDecoder", "VideoDecoder"),
    "soundfile": ("SoundFile",),
    "cv2": ("VideoCapture",),
}
"""Classes of open decoders, by the public module that has them."""


def is_handle(value: Any) -> bool:
    """Whether this is an open decoder: it holds addresses of native memory, which differ and cannot be copied."""
    own = type(value).__mro__
    return any(kind.__name__ in _DECODERS.get(kind.__module__.partition("._")[0], ()) for kind in own)
