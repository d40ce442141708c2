"""Random numbers, shared files and start methods: the part of a lab for how workers, epochs and processes differ."""

from __future__ import annotations

from typing import Any

from dataguard.lab.core.records import Seedings
from dataguard.lab.randomness import cached_draws, constant_seeds, same_items, shared_offsets, worker_init_seeds
from dataguard.lab.randomness.rng_dependence import RngDependence
from dataguard.lab.randomness.spawn_pickling import Pickling, try_pickling
from dataguard.lab.randomness.state_carryover import Carryover, find_carryover
from dataguard.lab.subject import Subject


class Randomness:
    """Observations of the loader's workers; each is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self.dependence = RngDependence(subject)

    def same_items(self, effort: int = 0, num_workers: int | None = None, **asked: Any) -> same_items.SameItems:
        """The same items drawn repeatedly in every worker over two epochs; the arguments are those of `Request`."""
        subject = self._subject
        subject.need_map(
            "the workers of a stream read different samples, so their draws cannot be compared item by item"
        )
        request = same_items.Request(effort, num_workers, **asked)
        if request.apart:  # it only confirms a generator, and must leave time for other verdicts
            subject.afford(2 * self.same_items(effort, num_workers).seconds)
        shape = same_items.shape_of(subject, request)
        return subject.vary(
            request,
            lambda folder: same_items.run_same_items(subject.build, folder, shape),
            lambda folder, answer: same_items.read_same_items(folder, answer, shape),
        )

    def first_seeds(self, libraries: tuple[str, ...] = ()) -> tuple[Seedings, ...]:
        """The seeds that workers give to generators until their first batch; see `worker_init_seeds`."""
        subject = self._subject
        return subject.vary(
            ("first seeds", libraries),
            lambda folder: worker_init_seeds.run_first_seeds(subject.build, folder, subject.facts, libraries),
            worker_init_seeds.read_first_seeds,
        )

    def seeds(self, *, always: bool = False) -> constant_seeds.SeedTrace:
        """Which generators are seeded for every sample, and which outputs depend on constant seeds, or on any."""
        self._subject.afford(constant_seeds.DRAWS * constant_seeds.EPOCHS * self._subject.epoch.seconds_per_sample)
        return constant_seeds.find_constant_seeds(self._subject, always=always)

    @property
    def cached(self) -> cached_draws.CachedDraws:
        """Which leaves hold what was drawn at the first read of their index (map-style only)."""
        self._subject.need_map("the samples of a stream cannot be read again individually")
        self._subject.afford(cached_draws.READS * self._subject.epoch.seconds_per_sample)
        return cached_draws.find_cached_draws(self._subject)

    @property
    def carryover(self) -> Carryover:
        """What reading leaves behind for later reads, and the user's own workers lose."""
        return find_carryover(self._subject)

    @property
    def shared_offsets(self) -> shared_offsets.SharedOffsets:
        """Which files several forked workers read through one offset, and what comes of it (map-style only)."""
        return shared_offsets.find_shared_offsets(self._subject)

    @property
    def pickling(self) -> Pickling:
        """What does not survive pickling among the parts of the loader that a spawned worker is sent."""
        subject = self._subject
        return subject.cache.observe(
            "pickling", lambda _: try_pickling(subject.build(), forked=not subject.facts.spawns)
        )
