"""What fails only in other batches, or under other loader settings, than an ordinary epoch has.

Batches combine the most different samples of an epoch, down to the smallest combination that collate_fn refuses. Loader
settings are drawn by hypothesis, for a few samples. An `ExampleSearch` finds the smallest failing example, which is
reproducible unless the user sets a seed.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import permutations
from multiprocessing.util import get_temp_dir
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from dataguard.core.incident import Incident, LoaderFailed
from dataguard.lab.batches.collate_trials import LARGEST_BATCH, CollateInputs, Refused
from dataguard.lab.core.index_schedules import Trials
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.records import BatchRecord, Index, LeafRecord, SampleRecord
from dataguard.lab.process.incidents import incident_of, read_spools
from dataguard.lab.spy.drive import drive
from dataguard.lab.spy.recording import Records
from dataguard.lab.spy.worker_spy import Plan
from dataguard.targets.variants import Loader

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExampleSearch:
    """How hypothesis searches for one loader: deterministic, with another seed, or with an example database.

    `database` is a folder of failing examples, which are tried first; all others then vary between runs. As in
    hypothesis, a `seed` or a derandomized profile, as on CI, disables the database. `name` is that of the loader, which
    has examples of its own.
    """

    seed: int | str | None = None
    database: str | None = None
    name: str = ""

    def smallest(
        self, strategy: SearchStrategy[T], fails: Callable[[T], bool], *, examples: int, subject: str
    ) -> T | None:
        """The smallest of at most so many examples, and of those near them, that fails; None if none does."""
        from hypothesis import HealthCheck, find, settings
        from hypothesis.configuration import set_hypothesis_home_dir
        from hypothesis.database import DirectoryBasedExampleDatabase
        from hypothesis.errors import NoSuchExample

        _ignore_constants()
        set_hypothesis_home_dir(get_temp_dir())  # it keeps files of its own in the current directory otherwise
        fixed = self.seed is not None or self.database is None or settings().derandomize
        quiet = settings(
            max_examples=examples,
            database=None if fixed else DirectoryBasedExampleDatabase(Path(self.database or "")),
            deadline=None,
            derandomize=False,
            suppress_health_check=list(HealthCheck),
        )
        random = Random(self.seed or 0) if fixed else None
        key = f"dataguard {subject} {self.name}".encode(errors="backslashreplace")
        try:
            return find(strategy, fails, settings=quiet, random=random, database_key=key)
        except NoSuchExample:
            return None


def _ignore_constants() -> None:
    """Keep hypothesis from trying the constants of the user's modules: it parses each of them, which takes seconds."""
    with contextlib.suppress(ImportError, AttributeError):  # versions before 6.131 do not
        providers: Any = import_module("hypothesis.internal.conjecture.providers")
        providers._seen_modules.update(map(id, sys.modules.values()))


MOST_KINDS = 10
"""How many kinds of sample are combined: 90 ordered pairs, because default_collate depends on their order."""
MIXED_EXAMPLES = 60
"""How many larger batches are tried if all pairs succeed."""


@dataclass(frozen=True, slots=True)
class Clash:
    """Samples that collate_fn refuses together, although it accepts some of them alone."""

    indices: tuple[Index, ...]
    samples: tuple[tuple[LeafRecord, ...], ...]
    incident: Incident


@dataclass(frozen=True, slots=True)
class MixedPair:
    """Two samples that collate_fn accepted in this order, and the leaves of their batch."""

    indices: tuple[Index, ...]
    leaves: tuple[LeafRecord, ...]


@dataclass(frozen=True, slots=True)
class MixedBatches:
    """The first clash, how many `batches` of how many `kinds` of sample were tried, and the reads.

    `pairs` are the batches of two samples of different kinds.
    """

    clash: Clash | None
    batches: int
    kinds: int
    reads: int
    pairs: tuple[MixedPair, ...] = ()


def kinds_of(samples: Sequence[SampleRecord]) -> tuple[Index, ...]:
    """The index of one sample of each structure; those that differ in more than shape come first."""
    forms: dict[object, Index] = {}
    kinds: dict[object, Index] = {}
    for sample in samples:
        if sample.index is not None:
            forms.setdefault(sample.form, sample.index)
            kinds.setdefault(sample.structure, sample.index)
    return tuple(dict.fromkeys([*forms.values(), *kinds.values()]))[:MOST_KINDS]


def run_mixed_batches(
    build: Callable[..., Loader],
    folder: Path,
    kinds: Sequence[Index],
    size: int,
    search: ExampleSearch,
    *,
    single: bool,
) -> MixedBatches:
    """Collate the kinds in batches of two, and of up to `size`; of one if a batch may be `single`."""
    inputs = CollateInputs(build(), folder, kinds, frozen=False)
    inputs.fill(len(kinds))
    trials = _Trials(inputs, size, search)
    refused = trials.smallest(single=single)
    clash = None if refused is None else trials.clash(refused)
    pairs = (
        MixedPair(tuple(kinds[position] for position in positions), leaves)
        for positions, leaves in trials.pairs.items()
    )
    return MixedBatches(clash, len(trials.outcomes), len(kinds), inputs.reads, tuple(pairs))


class _Trials:
    """Calls of collate_fn on samples by position, each made once."""

    def __init__(self, inputs: CollateInputs, size: int, search: ExampleSearch) -> None:
        self.inputs = inputs
        self.search = search
        self.outcomes: dict[tuple[int, ...], BaseException | None] = {}
        self.pairs: dict[tuple[int, ...], tuple[LeafRecord, ...]] = {}
        self.positions = range(len(inputs.samples))
        self.size = size
        self.filled = (
            not any(self.takes((position, position)) for position in self.positions) and 2 < size <= LARGEST_BATCH
        )
        """Whether only full batches are accepted: the first sample of a trial then fills them up."""
        self.good = {
            position for position in self.positions if self.takes((position,)) or self.takes((position, position))
        }

    def takes(self, positions: Sequence[int]) -> bool:
        """Whether collate_fn accepts these samples."""
        return self.outcome(tuple(positions)) is None

    def outcome(self, positions: tuple[int, ...]) -> BaseException | None:
        """What collate_fn raises for these samples, if anything."""
        if positions not in self.outcomes:
            try:
                batch = self.inputs.collate(positions)
                self.outcomes[positions] = None
                if len(set(positions)) == len(positions) == 2:
                    self.pairs[positions] = leaves_of(batch)
            except Refused as refused:
                self.outcomes[positions] = refused.__cause__
        return self.outcomes[positions]

    def smallest(self, *, single: bool) -> tuple[int, ...] | None:
        """The smallest refused batch in which some samples are accepted alone."""
        clashing_singles = (
            position
            for position in self.positions
            if single and self.takes((position, position)) and not self.takes((position,))
        )
        clashing = next(clashing_singles, None)
        if clashing is not None:
            return (clashing,)
        pairs = (pair for pair in permutations(self.positions, 2) if self.refuses(pair))
        return next(pairs, None) or (self._larger() if self.size > 2 else None)

    def refuses(self, positions: Sequence[int]) -> bool:
        """Whether these samples clash; no evidence if none is accepted alone, as when all are filtered out."""
        if self.filled:
            whole = (*[positions[0]] * (self.size - len(positions)), *positions)
            return self.takes([positions[0]] * self.size) and not self.takes(whole)
        return not self.good.isdisjoint(positions) and not self.takes(positions)

    def _larger(self) -> tuple[int, ...] | None:
        """Search for larger batches with hypothesis, which shrinks them."""
        from hypothesis import strategies as st  # slow to import, and rarely needed

        batches = st.lists(st.sampled_from(self.positions), min_size=3, max_size=min(self.size, LARGEST_BATCH))
        batch = self.search.smallest(batches, self.refuses, examples=MIXED_EXAMPLES, subject="batches")
        return None if batch is None else tuple(batch)

    def clash(self, positions: tuple[int, ...]) -> Clash:
        """A refused batch with its samples."""
        whole = (*[positions[0]] * (self.size - len(positions)), *positions) if self.filled else positions
        error = self.outcome(whole)
        assert error is not None
        indices = [self.inputs.indices[position] for position in whole]
        samples = tuple(leaves_of(self.inputs.samples[position]) for position in whole)
        return Clash(tuple(indices), samples, incident_of(error, "collate", None, indices))


TRIED_SAMPLES = 3
"""How many samples form the batches: with a batch size of 2, the last batch is smaller."""
TRIED_SETTINGS = 3
"""How many settings are drawn."""
BATCH_SIZES = (1, 2, 3)
"""The batch sizes that are tried: one, one that leaves a smaller last batch, and that of all samples."""
SETTINGS_READS = 2 * TRIED_SAMPLES * TRIED_SETTINGS
"""Reads of all trials, at most two epochs for each of the settings."""

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
            trial_folder = folder / str(len(outcomes))
            trial_folder.mkdir()
            outcomes[key] = None
            # A factory that cannot be called twice in one process, such as with an open LMDB, shows nothing.
            with contextlib.suppress(LoaderFailed):
                loader = _build(build, indices, settings)
                outcomes[key] = _problem(loader, trial_folder, form, settings)
        return outcomes[key] is not None

    strategy = loader_settings(workers=workers, batch_sizes=BATCH_SIZES)
    failing = search.smallest(strategy, fails, examples=TRIED_SETTINGS, subject="settings")
    if failing is None:
        return SettingsTrials(len(outcomes), None)
    return SettingsTrials(len(outcomes), SettingsProblem(failing, outcomes[repr(sorted(failing.items()))] or ""))


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
    strange = next((other for other in map(form_of, records) if form is not None and other != form), None)
    if strange is None or form is None:
        return None
    path, kind = next((leaf for leaf in strange if leaf not in form), ("", "nested differently"))
    return f"batch{path} is {kind} instead of {dict(form).get(path, 'absent')}"
