"""How the user's code seeds random generators while it reads a sample: which generator, with which seed, and where.

Functions and classes that seed are replaced by ones that record the seed, in the modules that define them and wherever
they were imported by name. This happens only in the processes of one observation.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from dataguard.incident import is_library
from dataguard.lab.core.records import Seeding
from dataguard.lab.core.stand_ins import rebind
from dataguard.lab.rng.drawing_libraries import package_at
from dataguard.lab.rng.rng_discovery import find_generators, skip

_NUMPY = ("RandomState", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_CONSTANTS = (int, float, str, bytes, np.integer)
_DEFINING = ("random", "numpy.random", "torch", "torch.random")
"""The modules that define what is watched."""
Given = tuple[object, Seeding]
"""A generator and its seed; for a global generator, the kind of seeding replaces the generator."""
_SHOWN = 40
"""Most characters of a seed that are shown."""


class SeedWatch:
    """Records seeds while it is on; one instance for each process."""

    def __init__(self, *, always: bool = False) -> None:
        self._on = False
        self._always = always
        self._skipped = 0
        self._known: dict[tuple[object, ...], set[str]] = {}
        self._subclasses: dict[type, Any] = {}
        self._replacements: dict[int, tuple[Any, Any]] = {}  # holds the original, so that its id stays unique
        self._latest: dict[int, Given] = {}  # holds the generator, so that its id stays unique
        shared = random.random.__self__  # type: ignore[attr-defined]
        self._watch_function("random.seed", random.seed, lambda count: skip(shared, count))
        self._watch_function("random.setstate", random.setstate, lambda count: skip(shared, count))
        self._watch_function("numpy.random.seed", np.random.seed, np.random.random)
        self._watch_function("numpy.random.set_state", np.random.set_state, np.random.random)
        self._watch_function("torch.manual_seed", torch.manual_seed, torch.rand)
        self._watch_function("torch.set_rng_state", torch.set_rng_state, torch.rand)
        if "cv2" in sys.modules:
            self._watch_function("cv2.setRNGSeed", importlib.import_module("cv2").setRNGSeed, _skip_cv2)
        self._watch_default_rng()
        self._watch_random()
        for name in _NUMPY:
            self._watch_numpy(getattr(np.random, name))
        self._watch_torch()
        rebind(self._replacements, _DEFINING)

    @contextlib.contextmanager
    def watching(self, skipped: int) -> Iterator[list[Given]]:
        """Collect the latest seed that each generator gets inside this block.

        `skipped` is how many numbers a generator skips right after it was seeded, if the same line has always used that
        seed, or with `always`.
        """
        seen: list[Given] = []
        self._on, self._skipped = True, skipped
        try:
            yield seen
        finally:
            self._on = False
            seen.extend(self._latest.values())
            self._latest = {}

    def adopt(self, roots: Mapping[str, Any]) -> None:
        """Replace generators below the roots by ones that record later seeds."""
        for source in find_generators(roots):
            subclass = self._subclasses.get(type(source.generator))
            for name, value in list(getattr(source.holder, "__dict__", {}).items()):
                if subclass is not None and value is source.generator:
                    watched = subclass()
                    _copy_state(value, watched)
                    with contextlib.suppress(Exception):  # the holder may refuse assignment
                        setattr(source.holder, name, watched)

    def _record(self, kind: str, seed: Any, generator: object) -> int:
        """Record a seed; return how many numbers the generator has to skip."""
        text = _constant(seed) if self._on else None
        if text is None:
            return 0
        if len(text) > _SHOWN:  # a whole state
            text = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
        constant = self._keep(generator, Seeding(kind, text, *_caller()))
        return self._skipped if constant or self._always else 0

    def _keep(self, generator: object, seeding: Seeding) -> bool:
        """Store the latest seed of a generator; return whether this line has always used the same seed."""
        known = self._known.setdefault(seeding.place, set())
        known.add(seeding.seed)
        self._latest[id(generator)] = generator, seeding
        return len(known) == 1

    def _watch_function(self, kind: str, original: Callable[..., Any], skip_shared: Callable[[int], Any]) -> None:
        """Watch a function that seeds a global generator."""

        def seeding(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            skip_shared(self._record(kind, [*args, *kwargs.values()], kind))
            return result

        self._replacements[id(original)] = original, seeding

    def _watch_default_rng(self) -> None:
        original, behind = np.random.default_rng, np.random.PCG64

        def default_rng(seed: Any = None) -> np.random.Generator:
            if _constant(seed) is None:
                return original(seed)
            on, self._on = self._on, False
            bits = self._subclasses[behind](seed)  # its class records `advance` and `jumped`
            self._on = on
            generator = np.random.Generator(bits)
            skip(generator, self._record("numpy.random.default_rng", seed, bits))
            return generator

        self._replacements[id(original)] = original, default_rng

    def _watch_random(self) -> None:
        original: Callable[..., None] = random.Random.seed

        def seed(generator: random.Random, *args: Any, **kwargs: Any) -> None:
            original(generator, *args, **kwargs)
            skip(generator, self._record("random.Random", [*args, *kwargs.values()], generator))

        setattr(random.Random, "seed", seed)  # noqa: B010 - mypy forbids the plain form

    def _watch_numpy(self, original: Any) -> None:
        kind = f"numpy.random.{original.__name__}"

        def init(generator: Any, *args: Any, **kwargs: Any) -> None:
            original.__init__(generator, *args, **kwargs)
            skip(generator, self._record(kind, [*args, *kwargs.values()], generator))

        def seed(generator: Any, *args: Any, **kwargs: Any) -> None:
            original.seed(generator, *args, **kwargs)
            skip(generator, self._record(f"{kind}.seed", [*args, *kwargs.values()], generator))

        def advance(generator: Any, delta: int) -> Any:
            original.advance(generator, delta)
            follow(generator, generator, f"advanced by {delta}")
            return generator

        def jumped(generator: Any, jumps: int = 1) -> Any:
            other = original.jumped(generator, jumps)
            follow(generator, other, f"jumped {jumps}")
            return other

        def follow(generator: Any, other: Any, how: str) -> None:
            if id(generator) in self._latest:
                _, seeding = self._latest.pop(id(generator))
                self._keep(other, replace(seeding, seed=f"{seeding.seed}, {how}"))

        methods = {"__init__": init, "seed": seed, "advance": advance, "jumped": jumped}
        methods = {name: method for name, method in methods.items() if hasattr(original, name)}
        self._replace_class(original, methods)

    def _watch_torch(self) -> None:
        original = torch.Generator

        def init(generator: torch.Generator, *_: Any, **__: Any) -> None:
            skip(generator, self._record("torch.Generator", "", generator))  # its default seed is a constant

        def manual_seed(generator: torch.Generator, seed: int) -> torch.Generator:
            original.manual_seed(generator, seed)
            skip(generator, self._record("torch.Generator.manual_seed", seed, generator))
            return generator

        def seed(generator: torch.Generator) -> int:
            self._latest.pop(id(generator), None)
            return original.seed(generator)

        def set_state(generator: torch.Generator, state: torch.Tensor) -> None:
            original.set_state(generator, state)
            skip(generator, self._record("torch.Generator.set_state", state, generator))

        methods = {"__init__": init, "manual_seed": manual_seed, "seed": seed, "set_state": set_state}
        self._replace_class(original, methods)

    def _replace_class(self, original: type, methods: dict[str, Any]) -> None:
        """Replace a class by a subclass with the same answers to `isinstance` and `issubclass`."""
        checks = {
            "__instancecheck__": lambda _, thing: isinstance(thing, original),
            "__subclasscheck__": lambda _, cls: issubclass(cls, original),
        }
        meta = type("_Meta", (type(original),), checks)
        self._subclasses[original] = meta(original.__name__, (original,), methods)
        self._replacements[id(original)] = original, self._subclasses[original]


def _copy_state(generator: Any, other: Any) -> None:
    if isinstance(generator, np.random.BitGenerator):
        other.state = generator.state
    else:
        other.set_state(generator.get_state())


def _skip_cv2(count: int) -> None:
    importlib.import_module("cv2").randu(np.zeros(count or 1, dtype=np.float32), 0, 1)


def _constant(seed: Any) -> str | None:
    """A seed as text; None if it is absent, comes from the system, or is another generator."""
    if isinstance(seed, np.random.SeedSequence):
        return _constant([seed.entropy, *seed.spawn_key])
    if isinstance(seed, torch.Tensor | np.ndarray):
        return str(seed.tolist())
    if isinstance(seed, list | tuple):
        parts = [_constant(item) for item in seed]
        return None if not parts or None in parts else ", ".join(map(str, parts))
    return str(seed) if isinstance(seed, _CONSTANTS) else None


def _caller() -> tuple[str, int, str, bool, bool]:
    """The innermost line of the user's code that seeds, or else of a library.

    Also whether that line seeds directly, and whether the user's code on the stack names an epoch.
    """
    frames = [(frame.f_code, line) for frame, line in traceback.walk_stack(sys._getframe())]
    frames = [(code, line) for code, line in frames if code.co_filename != __file__]
    own = [(code, line) for code, line in frames if not is_library(code.co_filename)]
    code, line = (own or frames)[0]
    names = (name for code, _ in own for name in (*code.co_names, *code.co_varnames, *code.co_freevars))
    epochs = any("epoch" in name.lower() for name in names)
    return code.co_filename, line or 0, code.co_name, package_at(sys._getframe()) is None, epochs
