"""An ordinary epoch of one loader; see `Lab.epoch`. Where all samples are asked for, it is the whole of it."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dataguard.incident import Incident, LoaderFailed, LoaderInterleaved, LoaderRaised, LoaderUnspawnable
from dataguard.lab.core.observation_cache import Memory
from dataguard.lab.epoch import full_epoch
from dataguard.lab.epoch.interrupted_scan import Runs
from dataguard.lab.epoch.rank_exchange import share_out
from dataguard.lab.epoch.scan_job import Errand
from dataguard.lab.reading import epoch_trace
from dataguard.lab.reading.epoch_trace import EpochTrace
from dataguard.lab.spy.skip_unreadable import in_range
from dataguard.model import NotApplicable, Undecided
from dataguard.process.torchrun import Team

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


class Epochs:
    """What came out of ordinary epochs; touching an observation makes it, as with `Lab`."""

    def __init__(self, lab: Lab, memory: Memory, errand: Errand) -> None:
        self._lab = lab
        self._memory = memory
        self._errand = errand
        self._wholes: dict[int | None, EpochTrace] = {}

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
        samples, seconds = settings.samples, min(0.4 * settings.budget, epoch_trace.MOST_SECONDS)
        build = functools.partial(self._lab.build, **overrides)
        return self._memory.observe(
            ("epoch", limit, *overrides.items()),
            lambda folder: epoch_trace.run_epoch(build, folder, samples, limit, seconds),
            lambda folder, answer: epoch_trace.read_epoch(folder, answer, limit),
        )

    def _whole(self, limit: int | None) -> EpochTrace:
        """Every sample once, but for those that cannot be read; kept, as putting it together takes a while."""
        if limit not in self._wholes:
            self._wholes[limit] = self._without_end(self._together(limit))
        return self._wholes[limit]

    def _together(self, limit: int | None) -> EpochTrace:
        """What this process read alone, or shared with the ranks of a team."""
        team = self._errand.team
        try:
            own: full_epoch.Portion | Exception = self._portion(limit)
        except (LoaderFailed, NotApplicable, Undecided) as outcome:
            own = outcome
        portions = [own] if team is None else self._met(team, limit, own)
        return full_epoch.put_together(portions, limit, self._lab.settings.samples)

    def _portion(self, limit: int | None) -> full_epoch.Portion:
        lab, errand, key = self._lab, self._errand, ("portion", limit)
        samples, kept = lab.settings.samples, errand.kept
        runs = Runs(kept.folder, lab.facts) if kept.folder and full_epoch.passes_unreadable_over(lab.facts) else None
        earlier = runs.earlier if runs else ()
        afresh = kept.afresh or (runs.afresh if runs else None)
        if runs and runs.finished:
            folder, driven = runs.finished
            before = tuple(run for run in earlier if run.folder != folder)
            return self._memory.observe_all(
                key, lambda _: driven, lambda _, same: full_epoch.known_portion(folder, same, before)
            )
        start = earlier[-1].checkpoint if earlier else None
        past = start.done * max(lab.facts.num_workers, 1) * (lab.facts.batch_size or 1) if start else 0
        return self._memory.observe_all(
            key,
            lambda folder: full_epoch.run_portion(lab, folder, limit, samples, errand.team, start),
            lambda folder, driven: full_epoch.read_portion(folder, driven, earlier, afresh),
            runs.begin() if runs else None,
            errand.bulletin(lab.facts, past),
        )

    def _without_end(self, trace: EpochTrace) -> EpochTrace:
        """The epoch without what lies beyond the end that the dataset really has.

        Raises LoaderRaised where samples cannot be read because workers share the offset of a file.
        """
        if not trace.unreadable:
            return trace
        limit = self._lab.first_failing
        unreadable = tuple(one for one in trace.unreadable if in_range(one, limit))
        raised = next((one.incident for one in unreadable if one.incident), None)
        if raised and self._shares_offsets():
            raise LoaderRaised(raised)
        return replace(trace, unreadable=unreadable, limit=limit)

    def _shares_offsets(self) -> bool:
        facts = self._lab.facts
        if facts.num_workers < 2 or facts.spawns:
            return False
        try:
            return self._lab.handles.at_risk
        except (LoaderFailed, NotApplicable, Undecided):
            return False

    def _met(
        self, team: Team, limit: int | None, own: full_epoch.Portion | Exception
    ) -> list[full_epoch.Portion | Exception]:
        name = f"{self._lab.target.spelling} {self._lab.facts.name} {limit}"
        return self._memory.observe_all(
            ("met", limit),
            lambda folder: share_out(team, name, own, full_epoch.marker(folder)),
            lambda _, said: list(said or []),
        )

    def _works_forked(self, incident: Incident) -> bool:
        """Whether an epoch gets past this incident when the workers of a spawning loader are forked."""
        if not self._lab.facts.spawns or incident.out_of_shared_memory or incident.stage in ("import", "factory"):
            return False
        return self._gets_past(incident, multiprocessing_context="fork")

    def _works_with_one_worker(self, incident: Incident) -> bool:
        """Whether workers share a file offset, and an epoch with only one of them gets past this incident."""
        shared = incident.stage == "sample" and self._shares_offsets()
        return shared and self._gets_past(incident, num_workers=1)

    def _gets_past(self, incident: Incident, **overrides: Any) -> bool:
        try:
            return self._readable(**overrides).gets_past(incident)
        except (LoaderFailed, NotApplicable, Undecided):
            return False
