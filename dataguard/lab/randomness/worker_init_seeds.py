"""The seeds that workers give to random generators until their first batch is there, and the lines that give them.

Looked at only once a generator is found whose state workers or epochs share, so that an ordinary scan pays nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dataguard.lab.core.index_schedules import SameItems
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.records import Seedings, read_spools
from dataguard.lab.randomness.same_items import EPOCHS, MOST_WORKERS
from dataguard.lab.rng.seed_log import FirstSeeds
from dataguard.lab.spy.drive import Ride, drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.recording import Records
from dataguard.lab.subject import Subject
from dataguard.target.variants import Loader


def find_first_seeds(subject: Subject, libraries: tuple[str, ...] = ()) -> tuple[Seedings, ...]:
    """The seeds that workers give to generators until their first batch, in two epochs."""
    return subject.vary(
        ("first seeds", libraries),
        lambda folder: run_first_seeds(subject.build, folder, subject.facts, libraries),
        read_first_seeds,
    )


def run_first_seeds(
    build: Callable[..., Loader], folder: Path, facts: LoaderFacts, libraries: tuple[str, ...]
) -> list[Ride]:
    """Start the loader's workers, forked, for one batch of each in two epochs.

    `libraries` are imported before, so that what `worker_init_fn` seeds is seen even where it imports them itself.
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
    """What was noted, as far as the budget let it come."""
    return tuple(record for record in read_spools(folder) if isinstance(record, Seedings))
