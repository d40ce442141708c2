"""The observations of a lab about random numbers, shared files and start methods."""

from __future__ import annotations

from typing import Any

from dataguard.lab.core.records import GeneratorState
from dataguard.lab.randomness import (
    cached_draws,
    constant_seeds,
    same_items,
    shared_draws,
    shared_offsets,
    unused_draws,
)
from dataguard.lab.randomness.same_items import SameItems
from dataguard.lab.randomness.spawn_pickling import Pickling, try_pickling
from dataguard.lab.randomness.spawned_reads import SpawnTrial, find_freed, find_lost_views, find_spawn_trial
from dataguard.lab.randomness.state_carryover import Carryover, find_carryover
from dataguard.lab.subject import Subject


class Randomness:
    """Observations of the loader's workers; each is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def same_items(self, effort: int = 0, num_workers: int | None = None, **asked: Any) -> SameItems:
        """The same items drawn repeatedly in every worker over two epochs; the arguments are those of `Request`."""
        return same_items.find_same_items(self._subject, effort, num_workers, **asked)

    @property
    def few_items(self) -> SameItems:
        """The same; if samples are slow, only one draw of each item in every worker and epoch, without seeds."""
        effort = 0 if same_items.is_quick(self._subject) else same_items.GLANCE
        return same_items.find_same_items(self._subject, effort)

    def shared_draws(self, between: shared_draws.Between) -> shared_draws.SharedDraws:
        """Whether workers, or the epochs of a worker, draw the same random numbers, and from which generator."""
        return shared_draws.find_shared_draws(self._subject, between)

    @property
    def latent_clone(self) -> GeneratorState | None:
        """The generator from which two workers would draw the same numbers, if the loader has fewer."""
        return shared_draws.find_latent_clone(self._subject)

    def seeds(self, *, always: bool = False) -> constant_seeds.SeedTrace:
        """Which generators are seeded for every sample, and which outputs depend on constant seeds, or on any."""
        reads = constant_seeds.DRAWS * constant_seeds.EPOCHS
        self._subject.afford_reads(("seedings", always), reads)
        return constant_seeds.find_constant_seeds(self._subject, always=always)

    @property
    def cached(self) -> cached_draws.CachedDraws:
        """Which leaves hold numbers drawn at the first read of their index (map-style only)."""
        self._subject.need_map("the samples of a stream cannot be read again individually")
        self._subject.afford_reads("cache", cached_draws.READS)
        return cached_draws.find_cached_draws(self._subject)

    @property
    def unused_draws(self) -> tuple[unused_draws.UnusedDraw, ...]:
        """The lines of the user's code that draw integers on which no sample depends (map-style only)."""
        subject = self._subject
        subject.need_map("the samples of a stream cannot be read again individually")
        subject.afford_reads("unused draws", unused_draws.ITEMS * (unused_draws.DRAWS + 1))
        indices = subject.epoch.asked(unused_draws.ITEMS)
        return subject.vary(
            "unused draws", lambda folder: unused_draws.find_unused_draws(subject.build, folder, indices)
        )

    @property
    def carryover(self) -> Carryover:
        """State that reading leaves for later reads, and that the user's own workers lose."""
        return find_carryover(self._subject)

    @property
    def shared_offsets(self) -> shared_offsets.SharedOffsets:
        """Which files several forked workers read through one offset, and what goes wrong (map-style only)."""
        return shared_offsets.find_shared_offsets(self._subject)

    @property
    def pickling(self) -> Pickling:
        """Which part of the loader cannot be pickled for a spawned worker."""
        subject = self._subject
        return subject.cache.observe(
            "pickling", lambda _: try_pickling(subject.build(), forked=not subject.facts.spawns)
        )

    @property
    def lost_views(self) -> tuple[str, ...]:
        """The leaves of a batch that arrive with other values, because a worker sends memory that it has freed."""
        return find_lost_views(self._subject)

    @property
    def freed(self) -> tuple[str, ...]:
        """The leaves that spawned workers read from memory that is freed when the dataset is sent to them."""
        return find_freed(self._subject)

    @property
    def spawn_trial(self) -> SpawnTrial:
        """What would fail or differ if the forked workers of the loader were spawned."""
        return find_spawn_trial(self._subject)
