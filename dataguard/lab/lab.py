"""The lab: what happened when one loader was run. Observations are made once, elsewhere, and cached.

Each observation runs in a separate process and returns plain frozen data without a verdict. Failures to observe are
cached too: a crash costs its time once, not once per check.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dataguard.core.incident import EmptyEpoch, Incident, LoaderFailed, observed_or_none
from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.batches.collate_observations import Batches
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.object_graph import structure_of
from dataguard.lab.dataset.dataset_observations import DatasetObservations
from dataguard.lab.dataset.places import CulpritPlaces
from dataguard.lab.epoch.full_epoch import ScanJob
from dataguard.lab.epoch.ordinary_epoch import Epochs
from dataguard.lab.files.file_observations import Files
from dataguard.lab.geometry.geometry_observations import Geometry
from dataguard.lab.images.colour_charts import Images
from dataguard.lab.machine.resource_observations import Resources
from dataguard.lab.model.learning import ModelObservations
from dataguard.lab.pictures.sample_pictures import PictureObservations
from dataguard.lab.process.side_by_side import ConcurrencySlots
from dataguard.lab.provenance.provenance import Provenance
from dataguard.lab.randomness.random_observations import Randomness
from dataguard.lab.ranks.rank_observations import Ranks
from dataguard.lab.reading.checkpoint import Checkpoint
from dataguard.lab.reading.epoch_trace import EpochTrace
from dataguard.lab.reproducibility.runs import Reproducibility
from dataguard.lab.sound.sound_charts import Sound
from dataguard.lab.splits.split_overlap import Splits
from dataguard.lab.streams.stream_observations import Streams
from dataguard.lab.subject import Subject
from dataguard.lab.throughput.timing_observations import Throughput
from dataguard.lab.tokens.token_observations import Tokens
from dataguard.lab.transforms.inert_steps import Transforms
from dataguard.machine.machine import Machine
from dataguard.settings.settings import Settings
from dataguard.targets.loading import Target

TWIN_READS = 16
"""About how many reads the checks take that one loader can answer for another."""


class Lab(Subject):
    """Observations of one loader of a target, by subject.

    Accessing an observation makes it (once) or raises what prevented it: `LoaderFailed` if the user's code failed,
    `NotApplicable` if the loader has nothing of the kind, `Undecided` if time ran out.
    """

    def __init__(
        self,
        target: Target,
        facts: LoaderFacts | LoaderFailed,
        settings: Settings,
        machine: Machine,
        folder: Path,
        job: ScanJob | None = None,
        checkpoint: Checkpoint | None = None,
        slots: ConcurrencySlots | None = None,
    ) -> None:
        super().__init__(target, facts, settings, machine, folder, checkpoint, slots)
        self.siblings: Mapping[str, Lab] = {}
        self._epochs = Epochs(self, job or ScanJob())
        self.randomness = Randomness(self)
        self.streams = Streams(self)
        self.provenance = Provenance(self)
        self.ranks = Ranks(self)
        self.dataset = DatasetObservations(self)
        self.places = CulpritPlaces(self)
        self.batches = Batches(self)
        self.tokens = Tokens(self)
        self.images = Images(self)
        self.files = Files(self)
        self.sound = Sound(self)
        self.geometry = Geometry(self)
        self.transforms = Transforms(self)
        self.splits = Splits(self)
        self.resources = Resources(self)
        self.throughput = Throughput(self)
        self.reproducibility = Reproducibility(self)
        self.model = ModelObservations(self)
        self.pictures = PictureObservations(self)

    def _read_epoch(self) -> EpochTrace:
        return self._epochs.trace

    @property
    def stops(self) -> tuple[Incident, ...]:
        """Where a StopIteration of a map-style dataset ended the ordinary epoch."""
        try:
            return self.epoch.stops
        except EmptyEpoch as empty:
            if not empty.stops:
                raise
            return empty.stops

    @property
    def twins(self) -> tuple[str, ...]:
        """The names of other loaders that hold the same classes and start their workers alike, if samples are slow.

        Datasets may differ in plain values and arrays, such as which files they list: see `structure_of`.
        """
        if self.reads_take_little(TWIN_READS):
            return ()
        others = [other for other in self.siblings.values() if other is not self and other.target is self.target]
        return tuple(other.facts.name for other in others if self._is_like(other))

    def _is_like(self, other: Lab) -> bool:
        one, two = self.facts, other.facts
        started = (one.kind, one.start_method, one.persistent, bool(one.num_workers))
        return started == (two.kind, two.start_method, two.persistent, bool(two.num_workers)) and (
            self._structure == other._structure
        )

    @property
    def _structure(self) -> object:
        """What the dataset, and the functions that workers get with it, hold."""

        def find(_: Path) -> object:
            loader = self.build()
            sent = ("dataset", "collate_fn", "worker_init_fn")
            return structure_of({name: getattr(loader, name) for name in sent})

        return self.observe("structure", find)

    @property
    def own_processes(self) -> int:
        """How many processes a stream without workers starts to make its batches; 0 if none were seen."""
        facts = observed_or_none(lambda: self.facts)
        if facts is None or facts.kind != "stream" or facts.num_workers:
            return 0
        epoch = observed_or_none(lambda: self.epoch)
        return epoch.epoch_run.own_processes if epoch and epoch.epoch_run else 0

    def failures(self) -> list[LoaderFailed]:
        """What prevented the loader from running: the factory, an ordinary epoch, or single samples by index."""
        failures: list[LoaderFailed] = []
        for observe in (lambda: self.epoch, lambda: self.dataset.ends):
            try:
                observe()
            except LoaderFailed as failure:
                failures = failures or [failure]
            except (NotApplicable, Undecided):
                continue
        return failures
