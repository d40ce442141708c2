"""Random generators that hide in the user's objects: where they are, and what state they are in.

The walk enters attributes, containers, closures, defaults, partials, bound methods, generator frames, the globals that
functions and methods of the user's own use, and, for objects of C types, what the garbage collector says they hold. Big
containers are sampled, so that a dataset of a million strings costs as much as one of a hundred.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib
import inspect
import pickle
import random
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch

from dataguard.incident import is_library
from dataguard.lab.records import GeneratorState

MOST_OBJECTS = 20_000
MOST_SECONDS = 1.0
SKIPPED = 1009
FEW = 48
"""How many entries of a big container are looked into."""

_RESEED = ("set_random_seed", "set_random_state", "seed_", "reseed")
"""Methods by which libraries let a pipeline be seeded anew: albumentations, MONAI, imgaug."""

_CONTAINERS: tuple[Any, ...] = (list, tuple, deque, set, frozenset)
_METHODS = (types.FunctionType, staticmethod, classmethod)
_ATOMS = (
    str,
    bytes,
    bytearray,
    int,
    float,
    complex,
    bool,
    type(None),
    torch.Tensor,
    np.dtype,
    np.generic,
    types.ModuleType,
)


@dataclass(frozen=True, slots=True)
class Source:
    """A generator found by the walk: the path that leads to it, its type, and the object that holds it."""

    path: str
    kind: str
    generator: Any
    holder: Any

    def state(self) -> bytes:
        """A digest of the generator's present state."""
        return hashlib.blake2b(_state(self.generator), digest_size=8).digest()


def find_generators(roots: Mapping[str, Any]) -> list[Source]:
    """Every generator that can be reached from the roots, nearest first, each once."""
    found = ((path, kind_of(value), value, holder) for path, value, holder in walk(roots, kind_of))
    return [Source(path, kind, value, holder) for path, kind, value, holder in found if kind]


def walk(roots: Mapping[str, Any], wanted: Callable[[Any], object]) -> Iterator[tuple[str, Any, Any]]:
    """Every object that is wanted and can be reached, nearest first, each once: its path, itself and its holder.

    What is wanted is not entered. No code of the user's runs, as long as `wanted` calls none.
    """
    seen: set[int] = set()
    queue: deque[tuple[str, Any, Any]] = deque((name, root, None) for name, root in roots.items())
    deadline = time.monotonic() + MOST_SECONDS
    while queue and len(seen) < MOST_OBJECTS and time.monotonic() < deadline:
        path, value, holder = queue.popleft()
        if isinstance(value, _ATOMS) or id(value) in seen:
            continue
        seen.add(id(value))
        if wanted(value):
            yield path, value, holder
        else:
            queue.extend((path + step, child, value) for step, child in _children(value))


def generator_states(roots: Mapping[str, Any]) -> Iterator[GeneratorState]:
    """The generators shared process-wide, and those that can be reached from the roots, with their present states."""
    shared = {"global random": random.random.__self__, "global torch": torch.default_generator}  # type: ignore[attr-defined]
    shared["global numpy.random"] = np.random.mtrand._rand
    for source in find_generators({**shared, **roots}):
        holder = roots.get("worker_init_fn") if source.path in shared else source.holder
        reseed = next((name for name in _RESEED if callable(getattr(holder, name, None))), None)
        # Never `if holder`: its truth may be a __len__ that runs, and MONAI's Compose reseeds itself in it.
        place = None if holder is None else made_at(holder)
        yield GeneratorState(source.path, source.kind, source.state(), place, reseed)


def move_on(path: str, roots: Mapping[str, Any]) -> None:
    """Let the generator at a path skip some of its numbers."""
    for source in find_generators(roots):
        if source.path == path:
            skip(source.generator, SKIPPED)


def skip(generator: Any, count: int) -> None:
    """Draw so many numbers and drop them."""
    if isinstance(generator, torch.Generator):
        torch.rand(count, generator=generator, device=generator.device)
    elif isinstance(generator, np.random.BitGenerator):
        generator.random_raw(count)
    elif isinstance(generator, random.Random):
        for _ in range(count):
            generator.random()
    else:
        generator.random(count)


def reseed(library: str, seed: int) -> None:
    """Seed the generator of an `unreadable` library in this process."""
    importlib.import_module(library).setRNGSeed(seed)


def unreadable() -> tuple[str, ...]:
    """The imported libraries whose generator can be seeded but not read."""
    return tuple(name for name in ("cv2",) if name in sys.modules)


def kind_of(value: Any) -> str | None:
    """The name of a generator's type, None for anything else."""
    if isinstance(value, random.SystemRandom):
        return None
    if isinstance(value, random.Random):
        return "random.Random"
    if isinstance(value, np.random.Generator | np.random.RandomState | np.random.BitGenerator):
        return f"numpy.random.{type(value).__name__}"
    return "torch.Generator" if isinstance(value, torch.Generator) else None


def _state(generator: Any) -> bytes:
    if isinstance(generator, random.Random):
        return repr(generator.getstate()).encode()
    if isinstance(generator, torch.Generator):
        return generator.get_state().numpy().tobytes()
    bits = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
    state = bits.get_state() if isinstance(bits, np.random.RandomState) else bits.state
    return pickle.dumps(state)


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, each with the step of the path that leads to it."""
    # Through the built-in's own methods: those of a subclass, or of any other mapping, are the user's code.
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in _few(dict.items(value), dict.__len__(value)))
    elif isinstance(value, _CONTAINERS):
        builtin = next(kind for kind in _CONTAINERS if isinstance(value, kind))
        items = enumerate(builtin.__iter__(value))
        yield from ((f"[{number}]", item) for number, item in _few(items, builtin.__len__(value)))
    elif isinstance(value, np.ndarray):
        if value.dtype == object:
            yield from ((f"[{number}]", item) for number, item in _few(enumerate(value.flat), value.size))
    elif isinstance(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(value, types.MethodType):
        yield from ((".__self__", value.__self__), (".__func__", value.__func__))
    elif isinstance(value, types.FunctionType):
        yield from _function_children(value)
    elif isinstance(value, types.GeneratorType):
        if value.gi_frame is not None:
            yield from ((f".<local {name}>", item) for name, item in value.gi_frame.f_locals.items())
    elif isinstance(value, type):
        if not is_library(_file_of(value)):
            own = [(name, item) for name, item in vars(value).items() if isinstance(item, _METHODS) or name[:2] != "__"]
            yield from ((f".{name}", item) for name, item in own)
    else:
        yield from _object_children(value)


def _object_children(value: Any) -> Iterator[tuple[str, Any]]:
    state = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                state[name] = getattr(value, name)
    yield from ((f".{name}", item) for name, item in state.items())
    if not state:
        yield from ((".<held>", item) for item in gc.get_referents(value) if item is not type(value))
    if not is_library(_file_of(type(value))):
        for cls in type(value).__mro__:
            if not is_library(_file_of(cls)):
                yield f".<class {cls.__name__}>", cls


def _function_children(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f".<closure {name}>", cell.cell_contents
        except ValueError:  # an empty cell: the variable is not bound yet
            continue
    yield from ((f".<default {number}>", item) for number, item in enumerate(function.__defaults__ or ()))
    yield from ((f".<default {name}>", item) for name, item in (function.__kwdefaults__ or {}).items())
    if not is_library(function.__code__.co_filename):
        for name in _global_names(function.__code__):
            held = function.__globals__.get(name)
            if not isinstance(held, type | types.ModuleType) and name in function.__globals__:
                yield f".<global {function.__module__}.{name}>", held


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _few(entries: Iterable[tuple[Any, Any]], count: int) -> list[tuple[Any, Any]]:
    """Some of the keyed entries, evenly spread; none when all that were looked at are plain values."""
    few = list(islice(entries, 0, None, max(count // FEW, 1)))
    return [] if all(isinstance(item, _ATOMS) for _, item in few) else few


def _file_of(cls: type) -> str:
    module = sys.modules.get(cls.__module__)
    return getattr(module, "__file__", None) or "<built-in>"


def made_at(holder: Any) -> tuple[str, int] | None:
    """File and line of the class or function that holds a generator."""
    thing = holder if isinstance(holder, type | types.FunctionType | types.MethodType) else type(holder)
    try:
        return inspect.getsourcefile(thing) or "", inspect.getsourcelines(thing)[1]
    except (OSError, TypeError):
        return None
