"""A few samples under loader settings drawn by hypothesis: what fails or changes only under these settings."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataguard.incident import LoaderFailed
from dataguard.lab.batches.shrinking import ExampleSearch
from dataguard.lab.core.index import Index
from dataguard.lab.core.index_schedules import Trials
from dataguard.lab.core.records import BatchRecord
from dataguard.lab.process.spool import read_spools
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.recording import Records
from dataguard.targets.variants import Loader

SAMPLES = 5
"""How many samples form the batches: with a batch size of 2 or 3, the last batch is smaller."""
EXAMPLES = 4
"""How many settings are drawn."""
BATCH_SIZES = (1, 2, 3)
READS = 2 * SAMPLES * EXAMPLES

Form = tuple[tuple[str, str], ...]
"""The paths of a batch's leaves, each with its type and rank."""


@dataclass(frozen=True, slots=True)
class SettingsProblem:
    """The simplest settings under which a loader fails or changes the structure of batches, and how."""

    settings: Mapping[str, Any]
    message: str

    @property
    def note(self) -> str:
        """The settings and the problem in one line."""
        return f"with {', '.join(f'{name}={value}' for name, value in self.settings.items())}, {self.message}"


@dataclass(frozen=True, slots=True)
class SettingsTrials:
    """How many settings were tried, and the problem that one caused, if any."""

    tried: int
    problem: SettingsProblem | None


def run_settings_trials(
    build: Callable[..., Loader],
    folder: Path,
    indices: Sequence[Index],
    form: Form | None,
    workers: Sequence[int],
    search: ExampleSearch,
) -> SettingsTrials:
    """Iterate these samples under drawn settings, with one of the given numbers of `workers`.

    `form` is the structure of every batch of the loader, if they share one.
    """
    from dataguard.lab.batches.settings_strategy import loader_settings  # hypothesis is slow to import

    outcomes: dict[str, str | None] = {}

    def fails(settings: dict[str, Any]) -> bool:
        key = repr(sorted(settings.items()))
        if key not in outcomes:
            place = folder / str(len(outcomes))
            place.mkdir()
            outcomes[key] = None
            # A factory that cannot be called twice in one process, such as with an open LMDB, shows nothing.
            with contextlib.suppress(LoaderFailed):
                loader = _build(build, indices, settings)
                outcomes[key] = _problem(loader, place, form, settings)
        return outcomes[key] is not None

    strategy = loader_settings(workers=workers, batch_sizes=BATCH_SIZES)
    found = search.smallest(strategy, fails, examples=EXAMPLES, subject="settings")
    if found is None:
        return SettingsTrials(len(outcomes), None)
    return SettingsTrials(len(outcomes), SettingsProblem(found, outcomes[repr(sorted(found.items()))] or ""))


def form_of(batch: BatchRecord) -> Form:
    """The paths of a batch's leaves without list positions, each with its dtype and rank, without repetition.

    A list may have as many leaves of a kind as there are samples.
    """
    kinds = {
        (re.sub(r"\[\d+\]", "[]", leaf.path), f"{leaf.type_name} of rank {len(leaf.shape or ())}")
        for leaf in batch.leaves
    }
    return tuple(sorted(kinds))


def _build(build: Callable[..., Loader], indices: Sequence[Index], settings: Mapping[str, Any]) -> Loader:
    """The loader under these settings, with these samples."""
    others = dict(settings)
    size, whole = others.pop("batch_size"), others.pop("drop_last")
    batches = [indices[start : start + size] for start in range(0, len(indices), size)]
    batches = [batch for batch in batches if len(batch) == size or not whole]
    return build(schedule=lambda inner, batched: Trials(inner, batches), reuse=True, **others)


def _problem(loader: Loader, folder: Path, form: Form | None, settings: Mapping[str, Any]) -> str | None:
    """What goes wrong under these settings, as a sentence."""
    epochs = (None, None) if settings.get("persistent_workers") else (None,)
    try:
        drive(loader, Plan(folder, (Records(),)), batches=epochs)
    except LoaderFailed as failure:
        return f"the loader raises {failure.incident.headline}"
    records = [record for record in read_spools(folder) if isinstance(record, BatchRecord)]
    strange = next((one for one in map(form_of, records) if form is not None and one != form), None)
    if strange is None or form is None:
        return None
    path, kind = next((leaf for leaf in strange if leaf not in form), ("", "nested differently"))
    return f"batch{path} is {kind} instead of {dict(form).get(path, 'absent')}"
