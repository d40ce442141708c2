"""Seeding of the global random generators of Python, numpy and torch, permanently or temporarily."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch

SEED = 20_231_117
"""The seed wherever any seed will do."""


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, numpy and torch, and restore their states afterwards.

    Meanwhile `torch.initial_seed` returns the worker's own seed, because generators that are correctly created in the
    worker are seeded from it. The generator of cv2 cannot be read and is not changed.
    """
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
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
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])


def seed_global_generators(seed: int) -> None:
    """Seed the global generators of Python, numpy and torch as torch seeds them in a worker."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
