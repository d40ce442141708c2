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
from dataguard.lab import (
    caches,
    carryover,
    handles,
    inits,
    orders,
    passes,
    pickling,
    protocol,
    resumes,
    seedings,
    streams,
    workers,
)
from dataguard.lab.clock import Clock
from dataguard.lab.collating import Collating
from dataguard.lab.colour import Colour
from dataguard.lab.direct import Direct
from dataguard.lab.epochs import Epochs
from dataguard.lab.errands import Errand
from dataguard.lab.facts import LoaderFacts
from dataguard.lab.files import Files
from dataguard.lab.geometry import Geometry
from dataguard.lab.hangings import Hangings
from dataguard.lab.inert import Transforms
from dataguard.lab.ledgers import depth_of
from dataguard.lab.memory import Memory
from dataguard.lab.orders import Contents
from dataguard.lab.rankwise import Ranks
from dataguard.lab.records import Seedings
from dataguard.lab.repros import Repros
from dataguard.lab.resources import Resources
from dataguard.lab.resumes import Resumes
from dataguard.lab.splits import Splits
from dataguard.lab.survey import requested
from dataguard.machine import Machine
from dataguard.model import NotApplicable, Undecided
from dataguard.settings import Settings
from dataguard.target import Target
from dataguard.variants import Loader

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
    def epoch(self) -> passes.EpochTrace:
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
    def handles(self) -> handles.Handles:
        """Which files several forked workers read through one offset, and what comes of it (map-style only)."""
        self.need_map("the samples of a stream cannot be read again one by one")
        return handles.observe(self.facts, self.build, self._observe)

    @property
    def pickling(self) -> pickling.Pickling:
        """What does not survive pickling among the parts of the loader that a spawned worker is sent."""
        return self._observe("pickling", lambda _: pickling.try_pickling(self.build(), forked=not self.facts.spawns))

    @property
    def first_failing(self) -> int | None:
        """The smallest index of a tail of indices that do not exist, None where there is no such tail."""
        try:
            return self._ends().first_failing
        except (LoaderFailed, NotApplicable, Undecided):
            return None

    @property
    def ends(self) -> protocol.Ends:
        """What the dataset answers at and beyond the ends of its index range (map-style only)."""
        with contextlib.suppress(Undecided):
            self.epoch  # noqa: B018 - a loader that hangs or dies in an ordinary epoch is not asked again
        return self._ends()

    def _ends(self) -> protocol.Ends:
        self.need_map("a stream has no indices")
        try:
            return self._observe("ends", lambda folder: protocol.probe_ends(self.build(), folder))
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

    def same_items(self, effort: int = 0, num_workers: int | None = None, **asked: Any) -> workers.SameItems:
        """The same items drawn repeatedly in every worker over two epochs; the arguments are those of `Request`."""
        self.need_map("workers of a stream get other samples, so that their draws cannot be compared item by item")
        request = workers.Request(effort, num_workers, **asked)
        if request.apart:  # it only makes sure of a generator, and must leave time for other verdicts
            self.afford(2 * self.same_items(effort, num_workers).seconds)
        shape = self.shape(request)
        return self.vary(
            request,
            lambda folder: workers.run_same_items(self.build, folder, shape),
            lambda folder, answer: workers.read_same_items(folder, answer, shape),
        )

    def shape(self, request: workers.Request) -> workers.Shape:
        """How much to draw for a request in the time that is left."""
        return workers.shape_of(self.facts, request, self.epoch.seconds_per_sample, self._memory.left)

    @property
    def orders(self) -> orders.Orders:
        """In which order the loader asks for its samples in three epochs (map-style only)."""
        self.need_map("a stream has no sampler")
        run, length = orders.run_orders, self.facts.length
        drawn: orders.Orders = self.vary("orders", lambda _: run(self.build, length), lambda _, same: same)
        return drawn

    @property
    def contents(self) -> Contents:
        """What a few indices of the loader's own order mean, in two epochs (map-style only)."""
        self.afford(4 * orders.PROBES * self.epoch.seconds_per_sample)
        order = self.orders.epochs[0]
        read: Contents = self.vary("contents", lambda _: orders.run_contents(self.build(), order), lambda _, same: same)
        return read

    def first_seeds(self, libraries: tuple[str, ...] = ()) -> tuple[Seedings, ...]:
        """The seeds that workers give to generators until their first batch is there; see `inits.run_first_seeds`."""
        return self.vary(
            ("first seeds", libraries),
            lambda folder: inits.run_first_seeds(self.build, folder, self.facts, libraries),
            inits.read_first_seeds,
        )

    def seedings(self, *, always: bool = False) -> seedings.SeedTrace:
        """Which generators are seeded for every sample, and what hangs on those seeds that are constant, or on any."""
        self.afford(seedings.DRAWS * seedings.EPOCHS * self.epoch.seconds_per_sample)
        return seedings.observe(self.facts, self.build, self.vary, always=always)

    @property
    def caches(self) -> caches.Caches:
        """Which leaves hold what was drawn at the first read of their index (map-style only)."""
        self.need_map("the samples of a stream cannot be read again one by one")
        self.afford(caches.READS * self.epoch.seconds_per_sample)
        return caches.observe(self.facts, self.build, self.vary)

    def resumes(self, workers: int) -> Resumes:
        """What the loader goes on with when it is interrupted and restored, with so many workers."""
        # Where batches are made by the user's own `__iter__`, they can be compared though nobody saw their samples.
        return resumes.observe(self.build, self._memory.apart if self.facts.own_iter else self.vary, workers)

    @property
    def carryover(self) -> carryover.Carryover:
        """What reading leaves behind for later reads, and the user's own workers lose."""
        self.afford(carryover.READS * workers.batch_size(self.facts) * self.epoch.seconds_per_sample)
        return carryover.observe(self.facts, self.build, self.vary, self.stream)

    def stream(self, num_workers: int, *, pin: bool, **asked: Any) -> streams.StreamTrace:
        """What a stream yields under so many workers; the arguments are those of `streams.Request`."""
        self._need_stream()
        return self._stream(streams.Request(num_workers, pin, **asked))

    def _stream(self, request: streams.Request) -> streams.StreamTrace:
        samples = self.facts.stretch(self.settings.samples) * (self.ranks.world if self.ranks.declared else 1)
        return self.vary(
            request,
            lambda folder: streams.run_stream(self.build, folder, request, samples, self.seconds_of(request)),
            lambda folder, drive: streams.read_stream(folder, drive, request.depth),
            whole=request.whole,
        )

    def _need_stream(self) -> None:
        if self.facts.kind != "stream":
            raise NotApplicable("the dataset is map-style: its sampler deals the indices out")

    def whole_if_asked(self, request: streams.Request) -> streams.Request:
        """The request, for the whole stream where the settings ask for all samples."""
        return replace(request, whole=True, depth=depth_of(self.epoch.read or 0)) if self.settings.all else request

    def seconds_of(self, request: streams.Request) -> float:
        """How long one epoch of a stream may be read, in seconds."""
        return self.settings.budget * (1 if request.whole else 0.1)

    def shares(self, num_workers: int, **asked: Any) -> streams.StreamTrace:
        """Like `stream`, to compare who reads what: the whole of it where all samples are asked for.

        Samples are recognised by the user's own key, where the settings name one.
        """
        self._need_stream()
        return self._stream(self.whole_if_asked(streams.Request(num_workers, key=self.settings.key, **asked)))

    def build(self, place: Mapping[str, int] | None = None, *, alike: bool = False, **overrides: Any) -> Loader:
        """Build the loader afresh in this process, with what the settings ask for and these overrides.

        `place` tells the factory its `rank` and `world_size`; with `alike`, the global generators of all ranks begin
        with one seed.
        """
        wanted = {**requested(self.settings), **overrides}
        stride = 0 if alike else passes.RANK_STRIDE
        return passes.gated_build(self.target, self.facts.name, self.settings.seed, wanted, place, stride)

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
