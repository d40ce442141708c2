"""Everything that can be reached from some objects, without running user code; and what an object is pickled as.

The search enters attributes, containers, closures, defaults, partials, bound methods, generator frames, globals used by
the user's functions and methods, referents known to the garbage collector and, for types that do not support it, what
they are pickled as. Large containers are sampled: a dataset of a million strings costs about as much as one of a
hundred.

Types are tested with `issubclass(type(value), ...)`: `isinstance` reads `__class__`, which may be user code.
"""

from __future__ import annotations

import contextlib
import contextvars
import copyreg
import functools
import gc
import inspect
import logging
import sys
import threading
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from multiprocessing.reduction import ForkingPickler
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

from dataguard.core.incident import is_library
from dataguard.lab.core.source_location import file_of, is_own, shared_by
from dataguard.process.originals import pickle, time

MOST_OBJECTS = 20_000
"""How many objects are searched, nearest first: more finds what is further away, and takes longer."""
MOST_SECONDS = 1.0
"""CPU seconds of a search, which may be repeated before each of several fetches."""
MOST_REDUCING = 0.1
"""Seconds after which no object is reduced any more, because that may copy its content."""
FEW_ENTRIES = 48
"""How many entries of one type in a large container are entered: entries of a type mostly hold the same."""
MOST_ENTRIES = 10_000
"""How many entries of a container are read: evenly spaced ones of a longer sequence, the first of anything else.

Reading an object increments its reference count, which copies its memory page into a forked process.
"""
_MOST_KEY = 60
"""The most characters of a key that are shown in a path."""

_CONTAINERS: tuple[Any, ...] = (dict, list, tuple, deque, set, frozenset)
_METHODS = (types.FunctionType, staticmethod, classmethod)
"""The members of a class that are code."""
_BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)
_KEYS = (str, bytes, int, float, bool, type(None))
_ATOMS = (
    *(str, bytes, bytearray, int, float, complex, bool, type(None)),
    *(torch.Tensor, torch.UntypedStorage, torch.TypedStorage, np.dtype, np.generic, PurePath, Enum),
    # These lead to the whole program: a module's globals are entered one by one if a function uses them.
    *(types.ModuleType, types.CodeType, types.FrameType, types.TracebackType, logging.Logger),
)
_COLLECTED = 1 << 14
"""The flag of types that take part in garbage collection (`Py_TPFLAGS_HAVE_GC`)."""


@dataclass(frozen=True, slots=True)
class Node:
    """An object that was reached: the last step of its path, the object, and the node of its holder."""

    step: str
    value: Any
    holder: Node | None = None

    @property
    def path(self) -> str:
        """The full path, such as `dataset.transform.rng`."""
        return "".join(node.step for node in reversed(self.line))

    @property
    def line(self) -> list[Node]:
        """The nodes from this one to the root."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None:
            nodes.append(node)
            node = node.holder
        return nodes


def reachable(roots: Mapping[str, Any], wanted: Callable[[Any], object], *, enter: bool = False) -> Iterator[Node]:
    """Every wanted object that can be reached, nearest first, each once.

    Wanted objects are not entered, except with `enter`. No user code runs, as long as `wanted` calls none.
    """
    seen: set[int] = set()
    made: list[object] = []  # kept alive, so that no other object gets the same `id`
    queue = deque(Node(name, root) for name, root in roots.items() if not issubclass(type(root), _ATOMS))
    # The time of this thread: what is found does not depend on what else the machine does.
    deadline, reducing = time.thread_time() + MOST_SECONDS, MOST_REDUCING
    while queue and len(seen) < MOST_OBJECTS:
        node = queue.popleft()
        if id(node.value) in seen:
            continue
        if time.thread_time() > deadline:
            return
        seen.add(id(node.value))
        if wanted(node.value):
            yield node
            if not enter:
                continue
        children = _children(node.value)
        if not children and reducing > 0 and _is_opaque(type(node.value)):
            began = time.monotonic()  # a library's code may wait
            children = _reduced(node.value)
            reducing -= time.monotonic() - began
            made.append(children)
        queue.extend(Node(step, child, node) for step, child in children if not issubclass(type(child), _ATOMS))


def structure_of(roots: Mapping[str, Any]) -> frozenset[tuple[str, str, str]]:
    """Which types hold which others, under which name, as far as `reachable` looks; entries of containers have none.

    It is equal for objects of one class that differ in plain values and arrays, or in how many entries they hold, and
    not if only one of them holds a handle, a lock or another function.
    """
    nodes = reachable(roots, lambda _: True, enter=True)
    return frozenset(
        (_kind(node.holder.value) if node.holder else "", node.step.partition("[")[0], _kind(node.value))
        for node in nodes
    )


def _kind(value: Any) -> str:
    """The type of an object; which one it is, if it is a class or a function."""
    named = value if issubclass(type(value), type | types.FunctionType) else type(value)
    line = named.__code__.co_firstlineno if issubclass(type(named), types.FunctionType) else ""
    return f"{named.__module__}.{named.__qualname__}{line}"


def _children(value: Any) -> list[tuple[str, Any]]:
    """What an object holds, each with its path step."""
    kind = type(value)
    try:
        # By the built-in type's methods: those of a subclass, or of any other mapping, are user code.
        builtin = next((container for container in _CONTAINERS if issubclass(kind, container)), None)
        if builtin is None:
            return list(_parts_of_object(value, kind))
        entries = _entries(value, builtin)
        return entries if kind is builtin else [*entries, *_attributes_and_referents(value, entries)]
    except RuntimeError:  # a user thread changed the container
        return []


def _entries(value: Any, builtin: Any) -> list[tuple[str, Any]]:
    """Part of a built-in container: a few entries of each type, without plain values."""
    if builtin is dict:
        return [(_key(key), item) for key, item in _few_of_each_type(islice(dict.items(value), MOST_ENTRIES))]
    if builtin in (list, tuple):
        return _spread(builtin.__len__(value), functools.partial(builtin.__getitem__, value))
    numbered = islice(enumerate(builtin.__iter__(value)), MOST_ENTRIES)
    return [(f"[{number}]", item) for number, item in _few_of_each_type(numbered)]


def _spread(count: int, get: Callable[[int], Any]) -> list[tuple[str, Any]]:
    """The same for a sequence, evenly spaced if it is long."""
    numbers = range(0, count, 1 if count <= MOST_ENTRIES else count // FEW_ENTRIES)
    return [(f"[{number}]", item) for number, item in _few_of_each_type((number, get(number)) for number in numbers)]


def _parts_of_object(value: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """What an object holds that is not a container."""
    if issubclass(kind, np.ndarray):
        if value.dtype == object:
            yield from _spread(value.size, value.flat.__getitem__)
        if kind is not np.ndarray:
            yield from _attributes_and_referents(value, ())
    elif issubclass(kind, types.MethodType):
        yield from ((".__self__", value.__self__), (".__func__", value.__func__))
    elif issubclass(kind, _BOUND):
        yield ".__self__", value.__self__
    elif issubclass(kind, types.FunctionType):
        yield from _of_function(value)
    elif issubclass(kind, weakref.ReferenceType):
        yield ".<weak>", weakref.ReferenceType.__call__(value)
    elif issubclass(kind, contextvars.ContextVar):
        yield ".<context>", value.get(None)
    elif issubclass(kind, type):
        if is_own(value):
            members = [(name, item) for name, item in vars(value).items() if name[:2] != "__" or _is_method(item)]
            yield from ((f".{name}", item) for name, item in members)
    else:
        if issubclass(kind, functools.partial):
            yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
        if issubclass(kind, types.GeneratorType) and value.gi_frame is not None:
            yield from ((f".<local {name}>", item) for name, item in value.gi_frame.f_locals.items())
            yield ".<delegate>", value.gi_yieldfrom
            if sys.version_info < (3, 11):  # the frame is an object there, and holds what the generator iterates
                frame = value.gi_frame
                names = {id(frame.f_globals), id(frame.f_builtins), id(frame.f_code)}
                yield from _few_of_each_type(
                    (".<held>", item) for item in gc.get_referents(frame) if id(item) not in names
                )
        yield from _attributes_and_referents(value, ())


def _attributes_and_referents(value: Any, listed: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, its other referents known to the garbage collector, and its classes.

    `listed` items are left out.
    """
    state = attributes_of(value)
    yield from ((f".{name}", item) for name, item in state.items())
    names = {id(item) for item in (*state.values(), *(item for _, item in listed), type(value), _dict_of(value))}
    yield from _few_of_each_type((".<held>", item) for item in gc.get_referents(value) if id(item) not in names)
    if is_own(value):
        yield from ((f".<class {cls.__name__}>", cls) for cls in type(value).__mro__ if is_own(cls))
    shared = shared_by(type(value))  # type: ignore[arg-type] # classes can be hashed, whatever mypy says of their objects
    yield from ((f".{name}", item) for name, item in shared if name not in state)


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an object, with those in slots, without calling code of its class."""
    state = dict(_dict_of(value))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            member = cls.__dict__.get(f"_{cls.__name__.lstrip('_')}{name}" if private else name)
            if type(member) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):  # not set
                    state[name] = member.__get__(value)
    return state


def _dict_of(value: Any) -> dict[str, Any]:
    """The `__dict__` of an object, without calling any `__getattribute__` or `__getattr__`."""
    look = threading.local.__getattribute__ if issubclass(type(value), threading.local) else object.__getattribute__
    try:
        attributes = look(value, "__dict__")
    except AttributeError:
        return {}
    return attributes if isinstance(attributes, dict) else {}


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f".<closure {name}>", cell.cell_contents
        except ValueError:  # an empty cell: the variable is not bound yet
            continue
    yield from ((f".<default {number}>", item) for number, item in enumerate(function.__defaults__ or ()))
    yield from ((f".<default {name}>", item) for name, item in (function.__kwdefaults__ or {}).items())
    yield from ((f".<attribute {name}>", item) for name, item in function.__dict__.items())
    if is_own(function):
        names = dict.fromkeys(_names(function.__code__))
        space = {name: sys.modules[name] for name in names if name in sys.modules} | function.__globals__
        yield from _used_by_name(names, space, function.__module__, set())


def _names(code: types.CodeType) -> Iterator[str]:
    """The names of globals, attributes and modules that a function uses, including nested functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _used_by_name(
    names: Collection[str], space: Mapping[str, Any], prefix: str, entered: set[int]
) -> Iterator[tuple[str, Any]]:
    """What a function uses by name: globals, and members of the user's modules and classes with these names."""
    for name in names:
        held, used = space.get(name), names
        if issubclass(type(held), types.ModuleType):
            inner, path = _dict_of(held), str(_dict_of(held).get("__name__"))
            is_users = not is_library(inner.get("__file__") or "<built-in>")
        elif issubclass(type(held), type):
            inner, path, is_users = dict(vars(held)), f"{prefix}.{name}", is_own(held)
            used = [*names, *(more for one in names for more in _names_in_method(inner.get(one)))]
        else:
            if name in space:
                yield f".<global {prefix}.{name}>", held
            continue
        if is_users and id(held) not in entered:
            entered.add(id(held))
            yield from _used_by_name(used, inner, path, entered)


def _names_in_method(member: Any) -> Iterator[str]:
    """The names that a method uses: a class method, say, finds attributes of its class by them."""
    code = getattr(inspect.unwrap(member) if _is_method(member) else None, "__code__", None)
    if isinstance(code, types.CodeType):
        yield from _names(code)


def _few_of_each_type(entries: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """A few of the keyed entries of each type, evenly spaced, without plain values."""
    by_type: defaultdict[int, list[tuple[Any, Any]]] = defaultdict(list)  # a metaclass may have its own hash
    for entry in entries:
        by_type[id(type(entry[1]))].append(entry)
    kept = (same for same in by_type.values() if not issubclass(type(same[0][1]), _ATOMS))
    return [entry for same_type in kept for entry in same_type[:: -(-len(same_type) // FEW_ENTRIES)]]


def _is_method(item: Any) -> bool:
    return issubclass(type(item), _METHODS)


def _key(key: Any) -> str:
    plain = type(key) in _KEYS or (type(key) is tuple and all(type(item) in _KEYS for item in key))
    return f"[{repr(key)[:_MOST_KEY] if plain else f'<{type(key).__name__}>'}]"


def _is_opaque(cls: type) -> bool:
    """Whether objects of a library's type are unknown to the garbage collector but can be reduced for pickling.

    Types with only a `__getstate__` are left out: tables and tokenizers write all their content into bytes there.
    """
    if cls.__flags__ & _COLLECTED or cls in getattr(ForkingPickler, "_extra_reducers", {}):
        return False
    says = any(name in base.__dict__ for base in cls.__mro__[:-1] for name in ("__reduce__", "__reduce_ex__"))
    return says and is_library(file_of(cls))


def _reduced(value: Any) -> list[tuple[str, Any]]:
    """What an opaque object is pickled as; nothing for one whose memory would be copied."""
    try:
        memoryview(value)
    except TypeError:
        try:
            parts = list(parts_of(value))
        except Exception:  # noqa: BLE001 - a library may refuse with anything
            return []
        return _few_of_each_type(parts)
    except (ValueError, BufferError):  # memory without a view, as of dates
        pass
    return []


MOST_PARTS = 100_000
"""How many parts of one container are returned, evenly spaced."""


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """What is pickled with an object, each with its path step."""
    if isinstance(value, type | types.FunctionType | types.ModuleType | str | bytes | int | float):
        return
    if type(value) is dict:
        yield from _evenly_spaced(((f"[{key!r}]", item) for key, item in value.items()), len(value))
        yield from _evenly_spaced(((f".<key {key!r}>", key) for key in value), len(value))
    elif type(value) in (list, set, frozenset) or isinstance(value, tuple):
        yield from _evenly_spaced(((f"[{number}]", item) for number, item in enumerate(value)), len(value))
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield from ((f".args[{number}]", item) for number, item in enumerate(value.args))
        yield from ((f".keywords[{name!r}]", item) for name, item in value.keywords.items())
        yield from ((f".{name}", item) for name, item in vars(value).items())
    else:
        yield from _reduced_parts(value)


def _evenly_spaced(parts: Iterator[tuple[str, Any]], count: int) -> Iterator[tuple[str, Any]]:
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
    classes = type(value).__mro__
    return any(kind.__name__ in _DECODERS.get(kind.__module__.partition("._")[0], ()) for kind in classes)
