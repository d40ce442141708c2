"""The states of random generators: whether two are the same, and whether one is a later state of another."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

WORDS = 624
"""The words of a state of MT19937; so many draws later they are replaced by the next ones."""
MOST_BLOCKS = 16_000
"""How far a later state of MT19937 is looked for: 10 million words, which take 50 ms."""
_IDENTITY = {"PCG64": "inc", "PCG64DXSM": "inc", "Philox": "key"}
"""What remains the same in a state, by bit generator, until it is seeded again."""


@dataclass(frozen=True, slots=True)
class State:
    """A state: the algorithm, what identifies the sequence of numbers, and where in the sequence it is.

    A `stream` is None for MT19937, whose states show what sequence they belong to only by their words.
    """

    algorithm: str
    stream: bytes | int | None
    content: bytes
    position: int = 0


def global_generators() -> dict[str, Any]:
    """The generators that torch seeds in each worker."""
    return {
        "random": random.random.__self__,  # type: ignore[attr-defined]
        "numpy.random": np.random.mtrand._rand,
        "torch": torch.default_generator,
    }


def state_of(generator: Any) -> State | None:
    """The current state of a generator; None for an unknown kind."""
    if isinstance(generator, torch.Generator):
        return State("torch", generator.initial_seed(), generator.get_state().numpy().tobytes())
    if isinstance(generator, random.Random):
        _, words, _ = random.Random.getstate(generator)
        return State("MT19937", None, np.array(words[:WORDS], dtype=np.uint32).tobytes(), words[WORDS])
    if isinstance(generator, np.random.RandomState):
        return _state_of_bits(generator.get_state(legacy=False))
    bits = getattr(generator, "bit_generator", generator)
    return _state_of_bits(bits.state) if isinstance(bits, np.random.BitGenerator) else None


def _state_of_bits(state: Any) -> State | None:
    algorithm, inner = state["bit_generator"], state["state"]
    if algorithm == "MT19937":
        return State(algorithm, None, inner["key"].tobytes(), int(inner["pos"]))
    identity = inner.get(_IDENTITY.get(algorithm, ""))
    return None if identity is None else State(algorithm, repr(identity).encode(), repr(state).encode())


def advanced(before: State, after: State) -> bool:
    """Whether numbers were drawn between the two states and no seed was set: the draws follow from the first state."""
    if before == after or before.algorithm != after.algorithm:
        return False
    if before.algorithm != "MT19937":
        return before.stream == after.stream
    if before.content == after.content:
        return after.position > before.position
    return _reaches(before, after)


def _reaches(before: State, after: State) -> bool:
    """Whether MT19937 has the words of a later state at the beginning of one of its next blocks."""
    target = _bits(after, 0).random_raw(WORDS)
    bits = _bits(before, WORDS)
    for _ in range(0, MOST_BLOCKS, 1000):
        blocks = bits.random_raw(1000 * WORDS).reshape(1000, WORDS)
        if any((blocks[row] == target).all() for row in np.flatnonzero(blocks[:, 0] == target[0])):
            return True
    return False


def _bits(state: State, position: int) -> np.random.MT19937:
    """A generator with the words of a state; at position 624 its next draw makes new words."""
    bits = np.random.MT19937()
    key = np.frombuffer(state.content, dtype=np.uint32)
    bits.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": position}}
    return bits
