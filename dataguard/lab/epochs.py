"""An ordinary epoch of one loader; see `Lab.epoch`. Where all samples are asked for, it is the whole of it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from dataguard.incident import Incident, LoaderFailed, LoaderInterleaved, LoaderRaised, LoaderUnspawnable
from dataguard.lab import passes, whole
from dataguard.lab.meetings import share_out
from dataguard.lab.memory import Memory
from dataguard.lab.passes import EpochTrace
from dataguard.model import NotApplicable, Undecided
from dataguard.team import Team

if TYPE_CHECKING:
    from dataguard.lab import Lab


class Epochs:
    """What came out of ordinary epochs; touching an observation makes it, as with `Lab`."""

    def __init__(self, lab: Lab, memory: Memory, team: Team | None) -> None:
        self._lab = lab
        self._memory = memory
        self._team = team

    @property
    def trace(self) -> EpochTrace:
        """See `Lab.epoch`."""
        try:
            return self._readable()
        except LoaderFailed as failure:
            if self._works_forked(failure.incident):
                raise LoaderUnspawnable(failure.incident) from failure
            if self._works_with_one_worker(failure.incident):
                raise LoaderInterleaved(failure.incident) from failure
            raise

    def _readable(self, **overrides: Any) -> EpochTrace:
        try:
            return self._read(None, **overrides)
        except LoaderRaised as failure:
            limit = self._lab.first_failing if failure.incident.stage == "sample" else None
            if limit is None:
                raise
            return self._read(limit, **overrides)

    def _read(self, limit: int | None, **overrides: Any) -> EpochTrace:
        settings = self._lab.settings
        if settings.all and not overrides:
            return self._whole(limit)
        samples, seconds = settings.samples, min(0.4 * settings.budget, passes.MOST_SECONDS)
        build = functools.partial(self._lab.build, **overrides)
        return self._memory.observe(
            ("epoch", limit, *overrides.items()),
            lambda folder: passes.run_epoch(build, folder, samples, limit, seconds),
            lambda folder, answer: passes.read_epoch(folder, answer, limit),
        )

    def _whole(self, limit: int | None) -> EpochTrace:
        """Every sample once: read by this process alone, or shared between the ranks of a team."""
        samples = self._lab.settings.samples
        try:
            own: whole.Portion | Exception = self._memory.observe_all(
                ("portion", limit),
                lambda folder: whole.run_portion(self._lab, folder, limit, samples, self._team),
                whole.read_portion,
            )
        except (LoaderFailed, NotApplicable, Undecided) as outcome:
            own = outcome
        portions = [own] if self._team is None else self._met(self._team, limit, own)
        return whole.put_together(portions, limit, samples)

    def _met(self, team: Team, limit: int | None, own: whole.Portion | Exception) -> list[whole.Portion | Exception]:
        name = f"{self._lab.target.spelling} {self._lab.facts.name} {limit}"
        return self._memory.observe_all(
            ("met", limit),
            lambda folder: share_out(team, name, own, whole.marker(folder)),
            lambda _, said: list(said or []),
        )

    def _works_forked(self, incident: Incident) -> bool:
        """Whether an epoch gets past this incident when the workers of a spawning loader are forked."""
        if not self._lab.facts.spawns or incident.out_of_shared_memory or incident.stage in ("import", "factory"):
            return False
        return self._gets_past(incident, multiprocessing_context="fork")

    def _works_with_one_worker(self, incident: Incident) -> bool:
        """Whether workers share a file offset, and an epoch with only one of them gets past this incident."""
        facts = self._lab.facts
        if incident.stage != "sample" or facts.num_workers < 2 or facts.spawns:
            return False
        try:
            return self._lab.handles.at_risk and self._gets_past(incident, num_workers=1)
        except (LoaderFailed, NotApplicable, Undecided):
            return False

    def _gets_past(self, incident: Incident, **overrides: Any) -> bool:
        try:
            return self._readable(**overrides).gets_past(incident)
        except (LoaderFailed, NotApplicable, Undecided):
            return False
