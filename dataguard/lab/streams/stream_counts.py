"""How many samples each process of a stream yields, whatever its generators draw."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.process.forked_calls import in_fork
from dataguard.lab.reading.epoch_trace import gate
from dataguard.lab.reading.sample_reader import emulate_worker
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.lab.rng.seed_watch import SeedWatch
from dataguard.targets.variants import Loader

RUNS = 6
"""How often each process reads the stream, with other random numbers each time."""
SKIPPED = 100
"""How many more numbers each run skips: of a few, all may be ones that `randrange` rejects."""

Run = tuple[int, bytes]
"""How many samples were read, and the digest of their sequence."""


def read_counts(build: Callable[..., Loader], folder: Path, workers: int) -> tuple[tuple[Run | None, ...], ...]:
    """What one process alone, and then each worker, reads in each run; None where reading fails.

    Global generators get another seed in each run, and those that are seeded with a constant skip some numbers.
    """
    loader, recorder = build(), FlightRecorder(folder)

    def read(run: int, worker: int | None) -> Run:
        watch, digest, count = SeedWatch(), blake2b(digest_size=8), 0
        torch.manual_seed(SEED + run)
        if worker is not None:
            emulate_worker(loader, recorder, workers, worker)
        with gate("sample"), seeded(SEED + run), watch.watching(SKIPPED * run):
            stream: Any = loader.dataset
            for sample in stream:
                count += 1
                digest.update(b"".join(leaf.digest for leaf in leaves_of(sample)))
                recorder.mark(None, "sample")
        return count, digest.digest()

    return tuple(
        tuple(in_fork(partial(read, run, worker)) for run in range(RUNS)) for worker in (None, *range(workers))
    )


def are_fixed(processes: tuple[tuple[Run | None, ...], ...]) -> bool:
    """Whether each process reads as many samples in every run, though never the same sequence."""
    return all(
        None not in runs and len({run[0] for run in runs if run}) == 1 and len({run[1] for run in runs if run}) == RUNS
        for runs in processes
    )
