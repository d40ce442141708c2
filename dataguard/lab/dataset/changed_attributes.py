"""Attributes of a dataset that reading a few samples changes."""

from __future__ import annotations

import contextlib
from itertools import islice
from pathlib import Path
from typing import Any

from torch.utils.data import IterableDataset

from dataguard.lab.core.index_schedules import flat
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.source_location import made_at
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.rng.global_rng import SEED, seeded
from dataguard.lab.subject import Subject
from dataguard.model import Location, Undecided
from dataguard.targets.variants import Loader

SAMPLES = 4
_GENERATORS = ("Generator", "RandomState", "Random")


def find_changed(subject: Subject) -> tuple[Location, ...]:
    """Where the changed attributes are, of the dataset and of its parts; generators are left out.

    Empty if that cannot be observed: it is only additional evidence.
    """
    with contextlib.suppress(Undecided):
        return subject.vary("changed by reading", lambda folder: _changed(subject.build(num_workers=0), folder))
    return ()


def _changed(loader: Loader, folder: Path) -> tuple[Location, ...]:
    before = _attributes(loader.dataset)
    FlightRecorder(folder).mark(None, "sample")
    with seeded(SEED):
        _read(loader)
    after = _attributes(loader.dataset)
    changed = dict.fromkeys(name for name in after if after[name] != before.get(name))
    file, line = made_at(loader.dataset) or (None, None)
    return tuple(
        Location(None, None, f"dataset.{name}") if "." in name else Location(file, line, f"dataset.{name}")
        for name in changed
    )


def _read(loader: Loader) -> None:
    dataset: Any = loader.dataset
    if isinstance(dataset, IterableDataset):
        for _ in islice(iter(dataset), SAMPLES):
            pass
        return
    batched = loader.batch_sampler is not None
    indices = list(islice(flat(loader.batch_sampler if batched else loader.sampler, batched=batched), SAMPLES))
    if getattr(dataset, "__getitems__", None):
        dataset.__getitems__(indices)
    else:
        for index in indices:
            dataset[index]


def _attributes(dataset: Any) -> dict[str, set[tuple[str, bytes]]]:
    """The content of each attribute: `seen`, `transform.count`."""
    found: dict[str, set[tuple[str, bytes]]] = {}
    for name, value in getattr(dataset, "__dict__", {}).items():
        for leaf in leaves_of(value):
            if leaf.kind in _GENERATORS:
                continue
            path = f"{name}{leaf.path}".partition("[")[0]
            found.setdefault(path, set()).add((leaf.path, leaf.digest))
    return found
