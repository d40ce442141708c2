"""Seeds that the user's code gives to random generators while it reads a sample: which, to which generator, and where.

Functions and classes that seed are replaced by ones that take note, in the modules that define them and wherever they
were imported by name. This happens only in the processes of one observation.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from dataguard.incident import is_library
from dataguard.lab.generators import find_generators, skip
from dataguard.lab.records import Seeding, Seedings, Spool

_NUMPY = ("RandomState", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_PLAIN = (int, float, str, bytes, np.integer)
Given = tuple[object, Seeding]
"""A generator and the seed that it was given; one that a whole process shares by the kind of its seeding."""
_SHOWN = 40
"""Characters of a seed that are shown."""


class SeedWatch:
    """Takes note of seeds while it is on; made once in a process."""

    def __init__(self) -> None:
        self._on = False
        self._burn = 0
        self._known: dict[tuple[object, ...], set[str]] = {}
        self._posing: dict[type, Any] = {}
        self._instead: dict[int, tuple[Any, Any]] = {}  # with the original, so that no other object gets its id
        self._noted: dict[int, Given] = {}  # with the generator, so that no other one gets its id
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
        self._replace()

    @contextlib.contextmanager
    def watching(self, burn: int) -> Iterator[list[Given]]:
        """Collect the seeds given inside, the last one of each generator.

        A generator skips `burn` numbers right after it was seeded, where the same line has always given that seed.
        """
        seen: list[Given] = []
        self._on, self._burn = True, burn
        try:
            yield seen
        finally:
            self._on = False
            seen.extend(self._noted.values())
            self._noted = {}

    def adopt(self, roots: Mapping[str, Any]) -> None:
        """Exchange generators that objects below the roots hold for ones that take note when they are seeded again."""
        for source in find_generators(roots):
            posing = self._posing.get(type(source.generator))
            for name, value in list(getattr(source.holder, "__dict__", {}).items()):
                if posing is not None and value is source.generator:
                    watched = posing()
                    _copy_state(value, watched)
                    with contextlib.suppress(Exception):  # a holder that guards its attributes
                        setattr(source.holder, name, watched)

    def _note(self, kind: str, seed: Any, generator: object) -> int:
        """Take note of a seed; returns how many numbers the generator has to skip."""
        text = _plain(seed) if self._on else None
        if text is None:
            return 0
        if len(text) > _SHOWN:  # a whole state
            text = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
        return self._burn if self._keep(generator, Seeding(kind, text, *_caller())) else 0

    def _keep(self, generator: object, seeding: Seeding) -> bool:
        """Remember the latest seed of a generator; whether this line has never given another one."""
        known = self._known.setdefault(seeding.place, set())
        known.add(seeding.seed)
        self._noted[id(generator)] = generator, seeding
        return len(known) == 1

    def _watch_function(self, kind: str, original: Callable[..., Any], skip_shared: Callable[[int], Any]) -> None:
        """Watch a function that seeds a generator which the whole process shares."""

        def seeding(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            skip_shared(self._note(kind, [*args, *kwargs.values()], kind))
            return result

        self._instead[id(original)] = original, seeding

    def _watch_default_rng(self) -> None:
        original, behind = np.random.default_rng, np.random.PCG64

        def default_rng(seed: Any = None) -> np.random.Generator:
            if _plain(seed) is None:
                return original(seed)
            on, self._on = self._on, False
            bits = self._posing[behind](seed)  # one that takes note when it is advanced or jumps
            self._on = on
            generator = np.random.Generator(bits)
            skip(generator, self._note("numpy.random.default_rng", seed, bits))
            return generator

        self._instead[id(original)] = original, default_rng

    def _watch_random(self) -> None:
        original: Callable[..., None] = random.Random.seed

        def seed(generator: random.Random, *args: Any, **kwargs: Any) -> None:
            original(generator, *args, **kwargs)
            skip(generator, self._note("random.Random", [*args, *kwargs.values()], generator))

        setattr(random.Random, "seed", seed)  # noqa: B010 - mypy forbids the plain form

    def _watch_numpy(self, original: Any) -> None:
        kind = f"numpy.random.{original.__name__}"

        def init(generator: Any, *args: Any, **kwargs: Any) -> None:
            original.__init__(generator, *args, **kwargs)
            skip(generator, self._note(kind, [*args, *kwargs.values()], generator))

        def seed(generator: Any, *args: Any, **kwargs: Any) -> None:
            original.seed(generator, *args, **kwargs)
            skip(generator, self._note(f"{kind}.seed", [*args, *kwargs.values()], generator))

        def advance(generator: Any, delta: int) -> Any:
            original.advance(generator, delta)
            follow(generator, generator, f"advanced by {delta}")
            return generator

        def jumped(generator: Any, jumps: int = 1) -> Any:
            other = original.jumped(generator, jumps)
            follow(generator, other, f"jumped {jumps}")
            return other

        def follow(generator: Any, other: Any, how: str) -> None:
            if id(generator) in self._noted:
                _, seeding = self._noted.pop(id(generator))
                self._keep(other, replace(seeding, seed=f"{seeding.seed}, {how}"))

        methods = {"__init__": init, "seed": seed, "advance": advance, "jumped": jumped}
        methods = {name: method for name, method in methods.items() if hasattr(original, name)}
        self._pose(original, methods)

    def _watch_torch(self) -> None:
        original = torch.Generator

        def init(generator: torch.Generator, *_: Any, **__: Any) -> None:
            skip(generator, self._note("torch.Generator", "", generator))  # a constant too: its default seed is one

        def manual_seed(generator: torch.Generator, seed: int) -> torch.Generator:
            original.manual_seed(generator, seed)
            skip(generator, self._note("torch.Generator.manual_seed", seed, generator))
            return generator

        def seed(generator: torch.Generator) -> int:
            self._noted.pop(id(generator), None)
            return original.seed(generator)

        def set_state(generator: torch.Generator, state: torch.Tensor) -> None:
            original.set_state(generator, state)
            skip(generator, self._note("torch.Generator.set_state", state, generator))

        methods = {"__init__": init, "manual_seed": manual_seed, "seed": seed, "set_state": set_state}
        self._pose(original, methods)

    def _pose(self, original: type, methods: dict[str, Any]) -> None:
        """Let a subclass pass for a class: whatever is of the class, or a subclass of it, is one of the subclass."""
        checks = {
            "__instancecheck__": lambda _, thing: isinstance(thing, original),
            "__subclasscheck__": lambda _, cls: issubclass(cls, original),
        }
        poser = type("_Poser", (type(original),), checks)
        self._posing[original] = poser(original.__name__, (original,), methods)
        self._instead[id(original)] = original, self._posing[original]

    def _replace(self) -> None:
        """Put the replacements wherever a module holds the originals."""
        for module in list(sys.modules.values()):
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if id(value) in self._instead:
                    with contextlib.suppress(Exception):  # a module that guards its names
                        setattr(module, name, self._instead[id(value)][1])


class SeedNotes:
    """Spools which seeds are given during the first fetches of each epoch of a process.

    `burns` tells, for each fetch, how many numbers a generator skips right after it was seeded.
    """

    def __init__(self, burns: Sequence[int], spool: Spool, worker: int | None) -> None:
        self._burns = burns
        self._spool = spool
        self._worker = worker
        self._watch = SeedWatch()

    @contextlib.contextmanager
    def taken(self, epoch: int, fetch: int, roots: Mapping[str, Any]) -> Iterator[None]:
        """Take note of what is seeded inside."""
        if fetch >= len(self._burns):
            yield
            return
        if not fetch:
            self._watch.adopt(roots)
        with self._watch.watching(self._burns[fetch]) as given:
            yield
        self._spool.write(Seedings(self._worker, epoch, fetch, tuple(seeding for _, seeding in given)))


class FirstSeeds:
    """Spools which seeds a worker gives until its first batch is there, with the path of each generator."""

    def __init__(self, spool: Spool, worker: int | None) -> None:
        self._spool = spool
        self._worker = worker
        self._watch = SeedWatch()
        self._given: dict[int, Given] = {}

    @contextlib.contextmanager
    def noted(self, roots: Mapping[str, Any]) -> Iterator[None]:
        """Take note of what is seeded inside."""
        self._watch.adopt(roots)
        with self._watch.watching(0) as given:
            yield
        self._given.update({id(generator): (generator, seeding) for generator, seeding in given})

    @contextlib.contextmanager
    def taken(self, epoch: int, fetch: int, roots: Mapping[str, Any]) -> Iterator[None]:
        """Take note of the first fetch, and spool what was noted by then."""
        if fetch:
            yield
            return
        with self.noted(roots):
            yield
        paths = {id(source.generator): source.path for source in find_generators(roots)}
        named = (
            # A generator that the whole process shares is known by the module that seeds it.
            replace(seeding, path=paths.get(number, f"global {seeding.kind.rpartition('.')[0]}"))
            for number, (generator, seeding) in self._given.items()
            if number in paths or isinstance(generator, str)
        )
        self._spool.write(Seedings(self._worker, epoch, fetch, tuple(named)))
        self._given = {}


def _copy_state(generator: Any, other: Any) -> None:
    if isinstance(generator, np.random.BitGenerator):
        other.state = generator.state
    else:
        other.set_state(generator.get_state())


def _skip_cv2(count: int) -> None:
    importlib.import_module("cv2").randu(np.zeros(count or 1, dtype=np.float32), 0, 1)


def _plain(seed: Any) -> str | None:
    """A seed in words; None for one that is no constant: absent, drawn from the system, or another generator."""
    if isinstance(seed, np.random.SeedSequence):
        return _plain([seed.entropy, *seed.spawn_key])
    if isinstance(seed, torch.Tensor | np.ndarray):
        return str(seed.tolist())
    if isinstance(seed, list | tuple):
        parts = [_plain(item) for item in seed]
        return None if not parts or None in parts else ", ".join(map(str, parts))
    return str(seed) if isinstance(seed, _PLAIN) else None


def _caller() -> tuple[str, int, str]:
    """The innermost line of the user's own code that asked for the seed, else the innermost line of a library."""
    frames = [frame for frame in traceback.extract_stack() if frame.filename != __file__]
    own = [frame for frame in frames if not is_library(frame.filename)]
    frame = (own or frames)[-1]
    return frame.filename, frame.lineno or 0, frame.name
