"""The seeds that generators get in workers up to the first batch, and the lines that set them.

Observed only after a generator was found whose state workers or epochs share: an ordinary scan pays nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dataguard.lab.core.index_schedules import SameItems
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.records import Seedings
from dataguard.lab.process.spool import read_spools
from dataguard.lab.randomness.same_items import EPOCHS, MOST_WORKERS
from dataguard.lab.rng.seed_log import FirstSeeds
from dataguard.lab.spy.drive import Ride, drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.recording import Records
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader


def find_first_seeds(subject: Subject, libraries: tuple[str, ...] = ()) -> tuple[Seedings, ...]:
    """The seeds that generators get in workers up to the first batch, in two epochs."""
    return subject.vary(
        ("first seeds", libraries),
        lambda folder: run_first_seeds(subject.build, folder, subject.facts, libraries),
        read_first_seeds,
    )


def run_first_seeds(
    build: Callable[..., Loader], folder: Path, facts: LoaderFacts, libraries: tuple[str, ...]
) -> list[Ride]:
    """Start the loader's workers, forked, for one batch each in two epochs.

    `libraries` are imported first, so that seeding is seen even if `worker_init_fn` imports them itself.
    """
    for library in libraries:
        importlib.import_module(library)
    workers = max(1, min(facts.num_workers, MOST_WORKERS["fork"]))
    asked: dict[str, Any] = {"num_workers": workers, "multiprocessing_context": "fork"}
    if facts.kind == "map":
        asked["schedule"] = lambda inner, batched: SameItems(inner, workers, 1, (1,), 1, batched=batched)
    plan = Plan(folder, (FirstSeeds(), Records()), keep_going=True)
    return drive(build(**asked), plan, batches=(workers,) * EPOCHS)


def read_first_seeds(folder: Path, rides: Sequence[Ride] | None) -> tuple[Seedings, ...]:
    """The recorded seeds, as far as the budget allowed."""
    return tuple(record for record in read_spools(folder) if isinstance(record, Seedings))
