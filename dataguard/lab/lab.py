"""The lab: what happened when one loader was run. Observations are made once, elsewhere, and remembered.

Each observation runs in a process of its own and comes back as plain frozen data without a verdict. What went wrong
while observing is remembered as well: a crash is paid for once, not once per check.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from dataguard.incident import EmptyEpoch, Incident, LoaderFailed
from dataguard.lab.batches.collate_observations import Collating
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.observation_cache import Memory
from dataguard.lab.core.records import Seedings
from dataguard.lab.core.repro import Repros
from dataguard.lab.dataset import index_ends
from dataguard.lab.dataset.dataset_observations import Direct
from dataguard.lab.epoch.ordinary_epoch import Epochs
from dataguard.lab.epoch.scan_job import Errand
from dataguard.lab.files.file_observations import Files
from dataguard.lab.geometry.mask_charts import Geometry
from dataguard.lab.images.colour_charts import Colour
from dataguard.lab.machine.resource_observations import Resources
from dataguard.lab.randomness import (
    cached_draws,
    constant_seeds,
    shared_offsets,
    spawn_pickling,
    state_carryover,
    worker_init_seeds,
)
from dataguard.lab.randomness.rng_dependence import Hangings
from dataguard.lab.randomness.same_items import Request as DrawRequest
from dataguard.lab.randomness.same_items import SameItems, batch_size, read_same_items, run_same_items, shape_of
from dataguard.lab.randomness.same_items import Shape as DrawShape
from dataguard.lab.ranks.rank_observations import Ranks
from dataguard.lab.reading import epoch_trace
from dataguard.lab.reading.loader_survey import requested
from dataguard.lab.splits.split_overlap import Splits
from dataguard.lab.spy.sample_ledger import depth_of
from dataguard.lab.streams import resume, sampler_order, stream_trace
from dataguard.lab.streams.resume import Resumes
from dataguard.lab.streams.sampler_order import Contents
from dataguard.lab.throughput.timing_observations import Clock
from dataguard.lab.transforms.inert_steps import Transforms
from dataguard.machine.machine import Machine
from dataguard.model import NotApplicable, Undecided
from dataguard.settings.settings import Settings
from dataguard.target.loading import Target
from dataguard.target.variants import Loader

T = TypeVar("T")


class Lab(Repros):
    """Observations of one loader of a target.

    Touching an observation makes it (once) or raises what kept it from being made: `LoaderFailed` when the user's code
    did not get through, `NotApplicable` when the loader has nothing of the kind, `Undecided` when time ran out.
    """

    def __init__(
        self,
        target: Target,
        facts: LoaderFacts | LoaderFailed,
        settings: Settings,
        machine: Machine,
        folder: Path,
        errand: Errand | None = None,
    ) -> None:
        self.target = target
        self.settings = settings
        self.machine = machine
        self._facts = facts
        self._memory = Memory(settings, folder)
        self._observe = self._memory.observe
        self.afford = self._memory.afford
        self._epochs = Epochs(self, self._memory, errand or Errand())
        self.siblings: Mapping[str, Lab] = {}
        """The loaders of the target by name, this one among them."""
        self.ranks = Ranks(self)
        self.hangings = Hangings(self)
        self.collate = Collating(self)
        self.colour = Colour(self)
        self.files = Files(self)
        self.dataset = Direct(self)
        self.geometry = Geometry(self)
        self.transforms = Transforms(self)
        self.resources = Resources(self)
        self.splits = Splits(self)
        self.clock = Clock(self, self._memory)

    @property
    def facts(self) -> LoaderFacts:
        """The loader's settings. Raises LoaderFailed when the loader could not even be built."""
        if isinstance(self._facts, LoaderFailed):
            raise self._facts
        return self._facts

    @property
    def epoch(self) -> epoch_trace.EpochTrace:
        """One ordinary epoch, as far as samples and budget allow: who fetched what, its structure, values and times.

        A dataset whose last indices do not exist is read up to there, so that the other checks can go on. Raises
        LoaderUnspawnable when the loader fails under its own start method only, LoaderInterleaved when it fails only
        because several workers read through one file offset.
        """
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
    def handles(self) -> shared_offsets.Handles:
        """Which files several forked workers read through one offset, and what comes of it (map-style only)."""
        self.need_map("the samples of a stream cannot be read again one by one")
        return shared_offsets.observe(self.facts, self.build, self._observe)

    @property
    def pickling(self) -> spawn_pickling.Pickling:
        """What does not survive pickling among the parts of the loader that a spawned worker is sent."""
        return self._observe(
            "pickling", lambda _: spawn_pickling.try_pickling(self.build(), forked=not self.facts.spawns)
        )

    @property
    def first_failing(self) -> int | None:
        """The smallest index of a tail of indices that do not exist, None where there is no such tail."""
        try:
            return self._ends().first_failing
        except (LoaderFailed, NotApplicable, Undecided):
            return None

    @property
    def ends(self) -> index_ends.Ends:
        """What the dataset answers at and beyond the ends of its index range (map-style only)."""
        with contextlib.suppress(Undecided):
            self.epoch  # noqa: B018 - a loader that hangs or dies in an ordinary epoch is not asked again
        return self._ends()

    def _ends(self) -> index_ends.Ends:
        self.need_map("a stream has no indices")
        try:
            return self._observe("ends", lambda folder: index_ends.probe_ends(self.build(), folder))
        except LoaderFailed as failure:
            index, length = failure.incident.index or "", self.facts.length
            if length is not None and index.isdigit() and int(index) >= length:
                raise Undecided(f"dataset[{index}], beyond the end: {failure.incident.headline}") from failure
            raise

    def failures(self) -> list[LoaderFailed]:
        """What kept the loader from running: the factory, an ordinary epoch, or single samples asked for by index."""
        found: list[LoaderFailed] = []
        for observe in (lambda: self.epoch, lambda: self.ends):
            try:
                observe()
            except LoaderFailed as failure:
                found = found or [failure]
            except (NotApplicable, Undecided):
                continue
        return found

    def same_items(self, effort: int = 0, num_workers: int | None = None, **asked: Any) -> SameItems:
        """The same items drawn repeatedly in every worker over two epochs; the arguments are those of `Request`."""
        self.need_map("workers of a stream get other samples, so that their draws cannot be compared item by item")
        request = DrawRequest(effort, num_workers, **asked)
        if request.apart:  # it only makes sure of a generator, and must leave time for other verdicts
            self.afford(2 * self.same_items(effort, num_workers).seconds)
        shape = self.shape(request)
        return self.vary(
            request,
            lambda folder: run_same_items(self.build, folder, shape),
            lambda folder, answer: read_same_items(folder, answer, shape),
        )

    def shape(self, request: DrawRequest) -> DrawShape:
        """How much to draw for a request in the time that is left."""
        return shape_of(self.facts, request, self.epoch.seconds_per_sample, self._memory.left)

    @property
    def orders(self) -> sampler_order.Orders:
        """In which order the loader asks for its samples in three epochs (map-style only)."""
        self.need_map("a stream has no sampler")
        run, length = sampler_order.run_orders, self.facts.length
        drawn: sampler_order.Orders = self.vary("orders", lambda _: run(self.build, length), lambda _, same: same)
        return drawn

    @property
    def contents(self) -> Contents:
        """What a few indices of the loader's own order mean, in two epochs (map-style only)."""
        self.afford(4 * sampler_order.PROBES * self.epoch.seconds_per_sample)
        order = self.orders.epochs[0]
        read: Contents = self.vary(
            "contents", lambda _: sampler_order.run_contents(self.build(), order), lambda _, same: same
        )
        return read

    def first_seeds(self, libraries: tuple[str, ...] = ()) -> tuple[Seedings, ...]:
        """The seeds that workers give to generators until their first batch is there; see `inits.run_first_seeds`."""
        return self.vary(
            ("first seeds", libraries),
            lambda folder: worker_init_seeds.run_first_seeds(self.build, folder, self.facts, libraries),
            worker_init_seeds.read_first_seeds,
        )

    def seedings(self, *, always: bool = False) -> constant_seeds.SeedTrace:
        """Which generators are seeded for every sample, and what hangs on those seeds that are constant, or on any."""
        self.afford(constant_seeds.DRAWS * constant_seeds.EPOCHS * self.epoch.seconds_per_sample)
        return constant_seeds.observe(self.facts, self.build, self.vary, always=always)

    @property
    def caches(self) -> cached_draws.Caches:
        """Which leaves hold what was drawn at the first read of their index (map-style only)."""
        self.need_map("the samples of a stream cannot be read again one by one")
        self.afford(cached_draws.READS * self.epoch.seconds_per_sample)
        return cached_draws.observe(self.facts, self.build, self.vary)

    def resumes(self, workers: int) -> Resumes:
        """What the loader goes on with when it is interrupted and restored, with so many workers."""
        # Where batches are made by the user's own `__iter__`, they can be compared though nobody saw their samples.
        return resume.observe(self.build, self._memory.apart if self.facts.own_iter else self.vary, workers)

    @property
    def carryover(self) -> state_carryover.Carryover:
        """What reading leaves behind for later reads, and the user's own workers lose."""
        self.afford(state_carryover.READS * batch_size(self.facts) * self.epoch.seconds_per_sample)
        return state_carryover.observe(self.facts, self.build, self.vary, self.stream)

    def stream(self, num_workers: int, *, pin: bool, **asked: Any) -> stream_trace.StreamTrace:
        """What a stream yields under so many workers; the arguments are those of `streams.Request`."""
        self._need_stream()
        return self._stream(stream_trace.Request(num_workers, pin, **asked))

    def _stream(self, request: stream_trace.Request) -> stream_trace.StreamTrace:
        samples = self.facts.stretch(self.settings.samples) * (self.ranks.world if self.ranks.declared else 1)
        return self.vary(
            request,
            lambda folder: stream_trace.run_stream(self.build, folder, request, samples, self.seconds_of(request)),
            lambda folder, drive: stream_trace.read_stream(folder, drive, request.depth),
            whole=request.whole,
        )

    def _need_stream(self) -> None:
        if self.facts.kind != "stream":
            raise NotApplicable("the dataset is map-style: its sampler deals the indices out")

    def whole_if_asked(self, request: stream_trace.Request) -> stream_trace.Request:
        """The request, for the whole stream where the settings ask for all samples."""
        return replace(request, whole=True, depth=depth_of(self.epoch.read or 0)) if self.settings.all else request

    def seconds_of(self, request: stream_trace.Request) -> float:
        """How long one epoch of a stream may be read, in seconds."""
        return self.settings.budget * (1 if request.whole else 0.1)

    def shares(self, num_workers: int, **asked: Any) -> stream_trace.StreamTrace:
        """Like `stream`, to compare who reads what: the whole of it where all samples are asked for.

        Samples are recognised by the user's own key, where the settings name one.
        """
        self._need_stream()
        return self._stream(self.whole_if_asked(stream_trace.Request(num_workers, key=self.settings.key, **asked)))

    def build(self, place: Mapping[str, int] | None = None, *, alike: bool = False, **overrides: Any) -> Loader:
        """Build the loader afresh in this process, with what the settings ask for and these overrides.

        `place` tells the factory its `rank` and `world_size`; with `alike`, the global generators of all ranks begin
        with one seed.
        """
        wanted = {**requested(self.settings), **overrides}
        stride = 0 if alike else epoch_trace.RANK_STRIDE
        return epoch_trace.gated_build(self.target, self.facts.name, self.settings.seed, wanted, place, stride)

    def need_map(self, reason: str) -> None:
        """Raise NotApplicable, for this reason, when the dataset is a stream."""
        if self.facts.kind != "map":
            raise NotApplicable(reason)

    def vary(
        self, key: object, run: Callable[[Path], Any], read: Callable[[Path, Any], T], *, whole: bool = False
    ) -> T:
        """Observe the loader under settings that are not its own: what fails only then says nothing against it.

        An observation of the `whole` loader takes as long as it goes on.
        """
        self.epoch  # noqa: B018 - what fails as it is, fails once
        return self._memory.apart(key, run, read, whole=whole)
