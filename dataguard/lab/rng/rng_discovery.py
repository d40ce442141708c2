"""Random generators in the user's objects: their paths and states, and how to advance them."""

from __future__ import annotations

import hashlib
import importlib
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.object_graph import Node, reachable
from dataguard.lab.core.records import GeneratorState
from dataguard.lab.core.source_location import is_own, made_at, package_of
from dataguard.process.originals import pickle

STEPS = 1009
"""How many numbers an advanced generator skips."""

_RESEED = ("set_random_seed", "set_random_state", "seed_", "reseed")
"""Methods that reseed a pipeline of albumentations, MONAI or imgaug."""


@dataclass(frozen=True, slots=True)
class Source:
    """A generator that was found: its type and its node in the object graph."""

    kind: str
    node: Node

    @property
    def path(self) -> str:
        """The path to the generator."""
        return self.node.path

    @property
    def generator(self) -> Any:
        """The generator itself."""
        return self.node.value

    @property
    def holder(self) -> Any:
        """The object that holds the generator; None for a root."""
        return self.node.holder.value if self.node.holder else None

    @property
    def owner(self) -> Node | None:
        """The nearest object, function or class from the user's code on the path to the generator."""
        return next((node for node in self.node.line[1:] if is_own(node.value)), None)

    @property
    def part(self) -> Node | None:
        """The outermost object of the package that holds the generator, below those of the user or another package."""
        package, part = None, None
        for node in self.node.line[1:-1]:  # a root does not count as the user's
            found = package_of(node.value)
            if is_own(node.value) or (found and package and found != package):
                break
            package, part = (found, node) if found else (package, part)
        return part

    @property
    def reseed(self) -> str | None:
        """The path of a method that reseeds the holder, if there is one."""
        for node in (self.part, self.owner):
            for name in _RESEED if node else ():
                # Coverage up in the classes: getattr on the object may run the user's code.
                if node and any(name in cls.__dict__ for cls in type(node.value).__mro__):
                    return f"{node.path}.{name}"
        return None

    def state(self) -> bytes:
        """A digest of the generator's current state."""
        return hashlib.blake2b(_state(self.generator), digest_size=8).digest()


def find_generators(roots: Mapping[str, Any]) -> list[Source]:
    """Each generator that can be reached from the roots, once, nearest first."""
    return [Source(kind_of(node.value) or "", node) for node in reachable(roots, kind_of)]


def with_shared(roots: Mapping[str, Any]) -> dict[str, Any]:
    """The global generators of Python, numpy and torch, then the roots."""
    return {
        "global random": random.random.__self__,  # type: ignore[attr-defined]
        "global torch": torch.default_generator,
        "global numpy.random": np.random.mtrand._rand,
        **roots,
    }


def generator_states(roots: Mapping[str, Any]) -> list[tuple[Source, GeneratorState]]:
    """The global generators and those that can be reached from the roots, with their current states."""
    return [(source, state_of(source, roots)) for source in find_generators(with_shared(roots))]


def state_of(source: Source, roots: Mapping[str, Any]) -> GeneratorState:
    """The current state of a generator, and where it was created."""
    if source.node.holder:
        owner, part = source.owner, source.part
        place = made_at(owner.value) if owner else None
        part_path = part.path if part else None
        made = id(source.generator)
        return GeneratorState(source.path, source.kind, source.state(), place, source.reseed, part_path, made)
    init = roots.get("worker_init_fn")
    place = None if init is None else made_at(init)
    return GeneratorState(source.path, source.kind, source.state(), place)


def advance(path: str, roots: Mapping[str, Any]) -> None:
    """Advance the generator at a path."""
    for generator in found_at(path, roots):
        skip(generator, STEPS)


def found_at(path: str, roots: Mapping[str, Any]) -> list[Any]:
    """The generator at a path, if there is one."""
    return [source.generator for source in find_generators(with_shared(roots)) if source.path == path]


def skip(generator: Any, count: int) -> None:
    """Draw so many numbers and discard them."""
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


def probed_states() -> Iterator[GeneratorState]:
    """A substitute for the states of unreadable generators: a digest of their next numbers.

    The user's code skips those numbers: it continues from a seed that follows from them, so that the next numbers are
    known, and the state counts as the same until somebody else draws.
    """
    for library in unreadable():
        numbers = _next_numbers(library)
        expected, state = _probed.get(library, (b"", b""))
        digest = hashlib.blake2b(numbers, digest_size=8).digest()
        state = state if numbers == expected else digest
        seed = int.from_bytes(digest[:4], "little") >> 1
        reseed(library, seed)
        _probed[library] = _next_numbers(library), state
        reseed(library, seed)
        yield GeneratorState(f"global {library}", library, state, None)


_probed: dict[str, tuple[bytes, bytes]] = {}
"""For each unreadable library, the numbers that come next if nobody draws, and the state when somebody last did."""


def _next_numbers(library: str) -> bytes:
    drawn: bytes = sys.modules[library].randu(np.empty((1, 4), dtype=np.float32), 0.0, 1.0).tobytes()
    return drawn


def unreadable() -> tuple[str, ...]:
    """The imported libraries whose generator can be seeded but not read."""
    return tuple(name for name in ("cv2",) if name in sys.modules)


_NUMPY = (np.random.Generator, np.random.RandomState, np.random.BitGenerator)


def kind_of(value: Any) -> str | None:
    """The name of a generator's type; None for anything else."""
    kind = type(value)  # isinstance reads __class__, which may run the user's code
    if issubclass(kind, random.Random):
        return None if issubclass(kind, random.SystemRandom) else "random.Random"
    if issubclass(kind, _NUMPY):
        return f"numpy.random.{kind.__name__}"
    return "torch.Generator" if issubclass(kind, torch.Generator) else None


def _state(generator: Any) -> bytes:
    if isinstance(generator, random.Random):
        return repr(random.Random.getstate(generator)).encode()
    if isinstance(generator, torch.Generator):
        return generator.get_state().numpy().tobytes()
    bits = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
    state = bits.get_state() if isinstance(bits, np.random.RandomState) else bits.state
    return pickle.dumps(state)
