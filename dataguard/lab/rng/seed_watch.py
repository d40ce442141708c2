"""How the user's code seeds random generators and draws from them while it reads a sample: which ones, and where.

`SeedWatch` replaces the functions and classes that seed by ones that record the seed, in the modules that define them
and wherever they were imported by name. This happens only in the processes of one observation. The instruments below
record seeds in each fetch (`SeedLog`) or up to the first batch (`FirstSeeds`), and the line that draws first
(`FirstDraw`).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.utils.data import get_worker_info

from dataguard.core.incident import is_library
from dataguard.lab.core.instrument import Fetch, Hooks, Instrument, Process
from dataguard.lab.core.records import Seeding, Seedings
from dataguard.lab.core.source_location import Place, caller, rebind
from dataguard.lab.rng.frozen_rng import depending, drawing, package_at
from dataguard.lab.rng.rng_discovery import find_generators, skip, state_reader

_NUMPY = ("RandomState", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
"""The classes of numpy that are seeded when they are made."""
_CONSTANTS = (int, float, str, bytes, np.integer)
"""The types of seeds that are compared."""
_DEFINING = ("random", "numpy.random", "torch", "torch.random")
"""The modules that define what is watched."""
Given = tuple[object, Seeding]
"""A generator and its seed; for a global generator, the kind of seeding replaces the generator."""
_SHOWN = 40
"""Most characters of a seed that are shown: a number of 128 bits, as `secrets.randbits` or a SeedSequence gives it."""


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
        self._made: dict[int, tuple[object, Place]] | None = None
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

    @contextlib.contextmanager
    def making(self) -> Iterator[Made]:
        """Collect the lines of the user's code that make generators, and those that seed the global ones last."""
        lines = Made({}, {}, {})
        self._made = {}
        try:
            with self.watching(0) as given:
                yield lines
        finally:
            lines.generators.update(self._made)
            lines.seedings.update({global_path(seeding): seeding for kind, seeding in given if isinstance(kind, str)})
            lines.seeded.update({id(one): (one, seeding) for one, seeding in given if not isinstance(one, str)})
            self._made = None

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
        self._note_made(generator)
        text = _constant(seed) if self._on else None
        if text is None:
            return 0
        if len(text) > _SHOWN:  # a whole state
            text = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
        constant = self._keep(generator, Seeding(kind, text, *_caller()))
        return self._skipped if constant or self._always else 0

    def _note_made(self, generator: object) -> None:
        """Record the line that makes a generator, which is the first one that seeds it."""
        if self._made is not None and id(generator) not in self._made and (line := caller()):
            self._made[id(generator)] = generator, line

    def _keep(self, generator: object, seeding: Seeding) -> bool:
        """Store the latest seed of a generator; return whether this line has always used the same seed."""
        seeds = self._known.setdefault(seeding.place, set())
        seeds.add(seeding.seed)
        self._latest[id(generator)] = generator, seeding
        return len(seeds) == 1

    def _watch_function(self, kind: str, original: Callable[..., Any], skip_shared: Callable[[int], Any]) -> None:
        """Watch a function that seeds a global generator."""

        @wraps(original)
        def seeding(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            skip_shared(self._record(kind, [*args, *kwargs.values()], kind))
            return result

        self._replacements[id(original)] = original, seeding

    def _watch_default_rng(self) -> None:
        original, bit_generator = np.random.default_rng, np.random.PCG64

        def default_rng(seed: Any = None) -> np.random.Generator:
            if _constant(seed) is None:
                unseeded: np.random.Generator = original(seed)
                self._note_made(unseeded.bit_generator)
                return unseeded
            on, self._on = self._on, False
            bits = self._subclasses[bit_generator](seed)  # its class records `advance` and `jumped`
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
            "__instancecheck__": lambda _, instance: isinstance(instance, original),
            "__subclasscheck__": lambda _, cls: issubclass(cls, original),
        }
        meta = type("_Meta", (type(original),), checks)
        self._subclasses[original] = meta(original.__name__, (original,), methods)
        self._replacements[id(original)] = original, self._subclasses[original]


@dataclass(frozen=True, slots=True)
class Made:
    """The lines that make `generators` and the latest seeds that these are given, by the `id` of what is `seeded`.

    `seedings` are the latest ones of global generators by their path, such as `global torch`.
    """

    generators: dict[int, tuple[object, Place]]
    seedings: dict[str, Seeding]
    seeded: dict[int, tuple[object, Seeding]]

    def line_of(self, generator: Any) -> Place | None:
        """The line that seeds a generator last or, without a seed, makes it, if one of the user's lines does."""
        key = id(_seeded_part(generator))
        _, seeding = self.seeded.get(key, (None, None))
        if seeding and not is_library(seeding.file):
            return seeding.file, seeding.line, seeding.function
        made = self.generators.get(key)
        return made[1] if made else None


def _seeded_part(generator: Any) -> Any:
    """The generator itself, or the part of it that `default_rng` seeds."""
    return generator.bit_generator if isinstance(generator, np.random.Generator) else generator


def global_path(seeding: Seeding) -> str:
    """The path of a global generator, which is named after the module that seeds it."""
    return f"global {seeding.kind.rpartition('.')[0]}"


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
    users_frames = [(code, line) for code, line in frames if not is_library(code.co_filename)]
    code, line = (users_frames or frames)[0]
    names = (name for code, _ in users_frames for name in (*code.co_names, *code.co_varnames, *code.co_freevars))
    epochs = any("epoch" in name.lower() for name in names)
    return code.co_filename, line or 0, code.co_name, package_at(sys._getframe()) is None, epochs


@dataclass(frozen=True, slots=True)
class SeedLog(Instrument):
    """Records which seeds generators get during the first fetches of each epoch.

    `skips` holds, for each fetch, how many numbers a generator skips right after it was seeded with a constant. With
    `always` it skips after any seed, and the libraries whose draws depend on those seeds are recorded as well.
    """

    skips: Sequence[int]
    always: bool = False

    def start(self, process: Process) -> Hooks:
        """Each process has its own log."""
        return _SeedLog(self, process)


class _SeedLog(Hooks):
    def __init__(self, asked: SeedLog, process: Process) -> None:
        self._skips, self._always = asked.skips, asked.always
        self._process = process
        self._drawing = drawing if asked.always else lambda: contextlib.nullcontext(set[tuple[str, str]]())
        self._watch: SeedWatch | None = None

    def begin(self) -> None:
        """Watch all seeding functions in this process."""
        self._watch = SeedWatch(always=self._always)

    @contextlib.contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        """Record what is seeded in a fetch."""
        if self._watch is None or fetch.number >= len(self._skips):
            yield
            return
        if fetch.number == 0:
            self._watch.adopt(fetch.roots)
        with self._drawing() as drawn, self._watch.watching(self._skips[fetch.number]) as given:
            yield
        seeds = tuple(seeding for _, seeding in given)
        libraries = depending(drawn, {seeding.kind for seeding in seeds})
        self._process.spool.write(Seedings(self._process.worker, fetch.epoch, fetch.number, seeds, libraries))


@dataclass(frozen=True, slots=True)
class FirstSeeds(Instrument):
    """Records which seeds generators get in a worker up to its first batch, with the path of each generator."""

    def start(self, process: Process) -> Hooks:
        """Each worker has its own log."""
        return _FirstSeeds(process)


class _FirstSeeds(Hooks):
    def __init__(self, process: Process) -> None:
        self._process = process
        self._watch: SeedWatch | None = None
        self._given: dict[int, Given] = {}

    @contextlib.contextmanager
    def around_init(self) -> Iterator[None]:
        """Record what is seeded by the user's `worker_init_fn`."""
        self._watch = SeedWatch()
        with self._recording(self._watch, {"worker": get_worker_info()}):
            yield

    @contextlib.contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        """Record what is seeded in the first fetch, and spool what was recorded by then."""
        if self._watch is None or fetch.number:
            yield
            return
        with self._recording(self._watch, fetch.roots):
            yield
        paths = {id(_seeded_part(source.generator)): source.path for source in find_generators(fetch.roots)}
        named = (
            replace(seeding, path=paths.get(number) or global_path(seeding))
            for number, (generator, seeding) in self._given.items()
            if number in paths or isinstance(generator, str)
        )
        self._process.spool.write(Seedings(self._process.worker, fetch.epoch, fetch.number, tuple(named)))
        self._given = {}

    @contextlib.contextmanager
    def _recording(self, watch: SeedWatch, roots: Mapping[str, Any]) -> Iterator[None]:
        watch.adopt(roots)
        with watch.watching(0) as given:
            yield
        self._given.update({id(generator): (generator, seeding) for generator, seeding in given})


Trace = Callable[[FrameType, str, Any], Any]
_is_library = lru_cache(is_library)


@dataclass(frozen=True, slots=True)
class DrawPlace:
    """The file and line that drew from the generator at a `path` first, in one worker."""

    path: str
    at: tuple[str, int]


@dataclass(frozen=True, slots=True)
class FirstDraw(Instrument):
    """Records where the first fetch of each worker draws from the generator at a `path`."""

    path: str

    def start(self, process: Process) -> Hooks:
        """Each worker has its own record."""
        return _FirstDraw(self.path, process)


class _FirstDraw(Hooks):
    def __init__(self, path: str, process: Process) -> None:
        self._path = path
        self._process = process

    @contextlib.contextmanager
    def around_fetch(self, fetch: Fetch) -> Iterator[None]:
        """Follow the user's lines in the first fetch."""
        state = None if fetch.number else state_reader(self._path, fetch.roots)
        if state is None:
            yield
            return
        with _Follower(state) as follower:
            yield
        if follower.place:
            self._process.spool.write(DrawPlace(self._path, follower.place))


class _Follower:
    """Compares the state of a generator line by line in the user's code, until it changes."""

    def __init__(self, state: Callable[[], bytes]) -> None:
        self._read = state
        self._state = state()
        self._line: tuple[str, int] | None = None
        self._before: Any = None
        self.place: tuple[str, int] | None = None

    def __enter__(self) -> _Follower:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        self._note_change()

    def _called(self, frame: FrameType, event: str, arg: Any) -> Trace | None:
        if self.place or _is_library(frame.f_code.co_filename):
            return None
        self._note_change()
        return self._traced

    def _traced(self, frame: FrameType, event: str, arg: Any) -> Trace | None:
        self._note_change()
        at: FrameType | None = frame
        if event == "return":  # the rest of the line that called it comes next
            at = frame.f_back
            while at is not None and _is_library(at.f_code.co_filename):
                at = at.f_back
        if at is not None:
            self._line = at.f_code.co_filename, at.f_lineno
        return None if self.place else self._traced

    def _note_change(self) -> None:
        if self.place is None and self._line is not None and self._read() != self._state:
            self.place = self._line
