"""The global random generators of python, numpy and torch: seeded, or pinned to one state for a while."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch

PIN = 20_231_117
"""The seed to which global generators are pinned where any one would do."""


@contextlib.contextmanager
def pinned(seed: int) -> Iterator[None]:
    """Set the global generators of python, numpy and torch to one state, and put their own back afterwards.

    `torch.initial_seed` keeps telling the truth meanwhile, because generators that are rightly made in the worker are
    seeded from it. cv2's generator cannot be read, and is left alone.
    """
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    honest = torch.initial_seed()
    tellers = [(torch, torch.initial_seed), (torch.random, torch.random.initial_seed)]
    for module, _ in tellers:
        module.initial_seed = lambda: honest  # type: ignore[attr-defined]
    seed_global_generators(seed)
    try:
        yield
    finally:
        for module, teller in tellers:
            module.initial_seed = teller  # type: ignore[attr-defined]
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])


def seed_global_generators(seed: int) -> None:
    """Seed the generators that python, numpy and torch share process-wide, as torch seeds them in a worker."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
