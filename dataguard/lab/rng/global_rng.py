"""Seeding of the global random generators of Python, numpy and torch, permanently or temporarily."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator

import numpy as np
import torch

SEED = 20_246_093
"""The seed wherever any seed will do, and the first of several random states.

Seeds are not all as good: from some, six states in a row give the same `np.random.randint(2)`, and no image is flipped.
From this one, each of the first three coins that the usual calls toss falls on both sides in three states.
"""


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, numpy and torch, and restore their states afterwards.

    Meanwhile `torch.initial_seed` returns the worker's own seed, because generators that are correctly created in the
    worker are seeded from it. The generator of cv2 cannot be read and is not changed.
    """
    restore = saved_generators()
    own_seed = torch.initial_seed()
    replaced = [(torch, torch.initial_seed), (torch.random, torch.random.initial_seed)]
    for module, _ in replaced:
        module.initial_seed = lambda: own_seed  # type: ignore[attr-defined]
    seed_global_generators(seed)
    try:
        yield
    finally:
        for module, initial_seed in replaced:
            module.initial_seed = initial_seed  # type: ignore[attr-defined]
        restore()


def saved_generators() -> Callable[[], None]:
    """Save the states of the global generators of Python, numpy and torch; call the result to restore them."""
    python, numpy, own = random.getstate(), np.random.get_state(), torch.get_rng_state()

    def restore() -> None:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(own)

    return restore


def seed_global_generators(seed: int) -> None:
    """Seed the global generators of Python, numpy and torch as torch seeds them in a worker."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
