"""Every random generator that can be found, set to one state before each fetch: what still varies is no draw of one."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from dataguard.lab.generators import find_generators, reseed, unreadable
from dataguard.lab.pins import pinned

ALWAYS = 2
"""How many times generators are looked for at least; what is made during the first fetch is found by then."""
SECONDS = 0.3
"""How long they are looked for again, because some are made late."""


class Stillness:
    """Holds the generators of one process still: the global ones, those that the user's objects hold, and cv2's.

    `seeds` lists, for each epoch, the seeds of its fetches; the last seed of an epoch holds on to its end, and the last
    epoch goes on.
    """

    def __init__(self, seeds: Sequence[Sequence[int]]) -> None:
        self._seeds = seeds
        self._found: dict[int, Any] = {}
        self._looks = 0
        self._spent = 0.0

    @contextlib.contextmanager
    def held(self, epoch: int, fetch: int, roots: Mapping[str, Any]) -> Iterator[None]:
        """Seed everything that can be reached from the roots; the global generators get their own states back."""
        row = self._seeds[min(epoch, len(self._seeds) - 1)]
        seed = row[min(fetch, len(row) - 1)]
        self._look(roots)
        with pinned(seed):
            for generator in self._found.values():
                # One that its own class cannot seed keeps its state, and so varies: then nothing is concluded from it.
                with contextlib.suppress(Exception):
                    seed_generator(generator, seed)
            for library in unreadable():
                reseed(library, seed)
            yield

    def _look(self, roots: Mapping[str, Any]) -> None:
        if self._looks >= ALWAYS and self._spent > SECONDS:
            return
        started = time.monotonic()
        # Those that a running stream made for itself come and go with it: their seed is part of what it does.
        lasting = {name: root for name, root in roots.items() if name != "stream"}
        self._found.update({id(source.generator): source.generator for source in find_generators(lasting)})
        self._looks += 1
        self._spent += time.monotonic() - started


def seed_generator(generator: Any, seed: int) -> None:
    """Seed any generator that `find_generators` finds."""
    if isinstance(generator, torch.Generator):
        generator.manual_seed(seed)
    elif isinstance(generator, random.Random):
        random.Random.seed(generator, seed)
    elif isinstance(generator, np.random.RandomState):
        generator.seed(seed)
    else:
        bits = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
        bits.state = type(bits)(seed).state
