"""What every observer may use of one loader: build it, vary it, and its known facts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

from dataguard.incident import LoaderFailed
from dataguard.lab.core.loader_facts import LoaderFacts
from dataguard.lab.core.observation_cache import ObservationCache
from dataguard.lab.core.repro import Repro
from dataguard.lab.reading.epoch_trace import RANK_STRIDE, EpochTrace, gated_build
from dataguard.lab.reading.loader_survey import requested
from dataguard.machine.machine import Machine
from dataguard.model import NotApplicable, Undecided
from dataguard.settings.settings import Settings
from dataguard.target.loading import Target
from dataguard.target.variants import Loader

T = TypeVar("T")


class Subject(ABC):
    """One loader of a target as observers see it."""

    def __init__(
        self, target: Target, facts: LoaderFacts | LoaderFailed, settings: Settings, machine: Machine, folder: Path
    ) -> None:
        self.target = target
        self.settings = settings
        self.machine = machine
        self.cache = ObservationCache(settings, folder)
        self.afford = self.cache.afford
        self.siblings: Mapping[str, Subject] = {}
        """The loaders of the target by name, this one among them."""
        self._facts = facts

    @property
    def facts(self) -> LoaderFacts:
        """The loader's settings. Raises LoaderFailed when the loader could not even be built."""
        if isinstance(self._facts, LoaderFailed):
            raise self._facts
        return self._facts

    @property
    def epoch(self) -> EpochTrace:
        """One ordinary epoch, as far as samples and budget allow: who fetched what, structure, values and times.

        A dataset whose last indices do not exist is read up to them, so that other checks can run. Raises
        LoaderUnspawnable if the loader fails only under its own start method, LoaderInterleaved if it fails only
        because several workers read through one file offset.
        """
        return self._read_epoch()

    @abstractmethod
    def _read_epoch(self) -> EpochTrace:
        """Read it, or return the cached one: it needs other observations, and so a subclass that has them."""

    @property
    def repro(self) -> Repro:
        """Writes commands that reproduce a finding of this loader, even if its factory fails."""
        facts = None if isinstance(self._facts, LoaderFailed) else self._facts
        name, workers = (facts.name, facts.num_workers) if facts else (self.target.name, 0)
        return Repro(self.target.spelling, name, workers)

    def need_map(self, reason: str) -> None:
        """Raise NotApplicable, for this reason, when the dataset is a stream."""
        if self.facts.kind != "map":
            raise NotApplicable(reason)

    def build(self, place: Mapping[str, int] | None = None, *, same_seed: bool = False, **overrides: Any) -> Loader:
        """Build the loader in this process, with what the settings request and these overrides.

        `place` gives the factory its `rank` and `world_size`; with `same_seed`, the global generators of all ranks
        start from one seed.
        """
        wanted = {**requested(self.settings), **overrides}
        stride = 0 if same_seed else RANK_STRIDE
        return gated_build(self.target, self.facts.name, self.settings.seed, wanted, place, stride)

    @overload
    def vary(self, key: object, run: Callable[[Path], T], *, unbounded: bool = ...) -> T: ...

    @overload
    def vary(
        self, key: object, run: Callable[[Path], Any], read: Callable[[Path, Any], T], *, unbounded: bool = ...
    ) -> T: ...

    def vary(
        self,
        key: object,
        run: Callable[[Path], Any],
        read: Callable[[Path, Any], Any] | None = None,
        *,
        unbounded: bool = False,
    ) -> Any:
        """Observe the loader under settings other than its own, after an ordinary epoch.

        A failure here is no fault of the loader: it raises Undecided. Otherwise like `ObservationCache.observe`.
        """
        self.epoch  # noqa: B018 - what fails as it is, fails once
        return self.vary_unseen(key, run, read, unbounded=unbounded)

    def vary_unseen(
        self,
        key: object,
        run: Callable[[Path], Any],
        read: Callable[[Path, Any], Any] | None = None,
        *,
        unbounded: bool = False,
    ) -> Any:
        """Like `vary`, for loaders whose ordinary epoch cannot be observed."""
        try:
            if read is None:
                return self.cache.observe(key, run, unbounded=unbounded)
            return self.cache.observe(key, run, read, unbounded=unbounded)
        except LoaderFailed as failure:
            reason = f"the loader fails under the settings of this check: {failure.incident.headline}"
            raise Undecided(reason) from failure
