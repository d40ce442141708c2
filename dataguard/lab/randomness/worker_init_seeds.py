"""The seeds that generators get in workers up to the first batch, the lines that set them, and those that draw.

Observed only after a generator was found whose state workers or epochs share: an ordinary scan pays nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataguard.lab.core.index_schedules import SameItems
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.records import Seedings
from dataguard.lab.process.spool import read_spools
from dataguard.lab.randomness.same_items import EPOCHS, MOST_WORKERS
from dataguard.lab.rng.draw_places import DrawPlace, FirstDraw
from dataguard.lab.rng.seed_log import FirstSeeds
from dataguard.lab.spy.drive import Ride, drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.recording import Records
from dataguard.lab.subject import Subject
from dataguard.targets.variants import Loader


@dataclass(frozen=True, slots=True)
class FirstUses:
    """The seeds that generators get in workers up to the first batch, in two epochs; and where one is first `drawn`."""

    seeds: tuple[Seedings, ...]
    drawn: tuple[str, int] | None


def find_first_uses(subject: Subject, drawn: str, libraries: tuple[str, ...] = ()) -> FirstUses:
    """The first seeds of all generators, and the first draw of the one at the path `drawn`."""
    return subject.vary(
        ("first uses", drawn, libraries),
        lambda folder: run_first_uses(subject.build, folder, subject.facts, drawn, libraries),
        read_first_uses,
    )


def run_first_uses(
    build: Callable[..., Loader], folder: Path, facts: LoaderFacts, drawn: str, libraries: tuple[str, ...]
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
    plan = Plan(folder, (FirstSeeds(), FirstDraw(drawn), Records()), keep_going=True)
    return drive(build(**asked), plan, batches=(workers,) * EPOCHS)


def read_first_uses(folder: Path, rides: Sequence[Ride] | None) -> FirstUses:
    """What was recorded, as far as the budget allowed."""
    records = list(read_spools(folder))
    drawn = next((record.at for record in records if isinstance(record, DrawPlace)), None)
    return FirstUses(tuple(record for record in records if isinstance(record, Seedings)), drawn)
