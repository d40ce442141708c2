"""An ordinary epoch of one loader; see `Subject.epoch`. It is a full one if all samples are requested."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from dataguard.core.incident import Incident, LoaderFailed, LoaderInterleaved, LoaderRaised, LoaderUnspawnable
from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.dataset.index_semantics import first_failing
from dataguard.lab.dataset.read_limit import find_read_limit
from dataguard.lab.epoch import full_epoch
from dataguard.lab.epoch.full_epoch import ScanJob
from dataguard.lab.epoch.rank_exchange import exchange
from dataguard.lab.randomness.shared_offsets import find_shared_offsets
from dataguard.lab.reading import epoch_trace
from dataguard.lab.reading.epoch_trace import EpochTrace
from dataguard.lab.spy.skip_unreadable import in_range
from dataguard.lab.subject import Subject
from dataguard.process.torchrun import Team


class Epochs:
    """Traces of ordinary epochs; reading `trace` makes the observation."""

    def __init__(self, subject: Subject, job: ScanJob) -> None:
        self._subject = subject
        self._job = job
        self._wholes: dict[int | None, EpochTrace] = {}

    @property
    def trace(self) -> EpochTrace:
        """See `Subject.epoch`."""
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
            if failure.incident.stage != "sample":
                raise
            limit = first_failing(self._subject)
            if limit is not None:
                return self._read(limit, **overrides)
            reads = find_read_limit(self._subject)
            if reads is None:
                raise
            return replace(self._read(None, once=True, **overrides), read_limit=reads)

    def _read(self, limit: int | None, *, once: bool = False, **overrides: Any) -> EpochTrace:
        settings = self._subject.settings
        if settings.all and not overrides:
            return self._whole(limit)
        samples, seconds = settings.samples, min(0.4 * settings.budget, epoch_trace.MOST_SECONDS)
        build = functools.partial(self._subject.build, **overrides)
        return self._subject.cache.observe(
            ("epoch", limit, once, *overrides.items()),
            lambda folder: epoch_trace.run_epoch(build, folder, samples, limit, seconds, once=once),
            lambda folder, answer: epoch_trace.read_epoch(folder, answer, limit),
        )

    def _whole(self, limit: int | None) -> EpochTrace:
        """Every sample once, except unreadable ones; cached, because merging takes a while."""
        if limit not in self._wholes:
            self._wholes[limit] = self._without_end(self._merged(limit))
        return self._wholes[limit]

    def _merged(self, limit: int | None) -> EpochTrace:
        """What this process read alone, or together with the ranks of a team."""
        team = self._job.team
        try:
            portion: full_epoch.Portion | Exception = self._portion(limit)
        except (LoaderFailed, NotApplicable, Undecided) as outcome:
            portion = outcome
        portions = [portion] if team is None else self._exchanged(team, limit, portion)
        return full_epoch.merge(portions, limit, self._subject.settings.samples)

    def _portion(self, limit: int | None) -> full_epoch.Portion:
        subject, job = self._subject, self._job
        samples = subject.settings.samples
        return subject.cache.observe(
            ("portion", limit),
            lambda folder: full_epoch.run_portion(subject, folder, limit, samples, job.team),
            full_epoch.read_portion,
            unbounded=True,
            exclusive=True,
            watch=job.progress(subject.facts),
        )

    def _without_end(self, trace: EpochTrace) -> EpochTrace:
        """The epoch without unreadable indices beyond the real end of the dataset.

        Raises LoaderRaised if samples cannot be read because workers share a file offset.
        """
        if not trace.unreadable:
            return trace
        limit = first_failing(self._subject)
        unreadable = tuple(sample for sample in trace.unreadable if in_range(sample, limit))
        raised = next((sample.incident for sample in unreadable if sample.incident), None)
        if raised and self._shares_offsets():
            raise LoaderRaised(raised)
        return replace(trace, unreadable=unreadable, limit=limit)

    def _shares_offsets(self) -> bool:
        facts = self._subject.facts
        if facts.num_workers < 2 or facts.spawns:
            return False
        try:
            return find_shared_offsets(self._subject).at_risk
        except (LoaderFailed, NotApplicable, Undecided):
            return False

    def _exchanged(
        self, team: Team, limit: int | None, portion: full_epoch.Portion | Exception
    ) -> list[full_epoch.Portion | Exception]:
        name = f"{self._subject.target.spelling} {self._subject.facts.name} {limit}"
        return self._subject.cache.observe(
            ("exchanged", limit),
            lambda folder: exchange(team, name, portion, full_epoch.waiting_mark(folder)),
            unbounded=True,
        )

    def _works_forked(self, incident: Incident) -> bool:
        """Whether an epoch gets past this incident if the workers of a spawning loader are forked."""
        if (
            not self._subject.facts.spawns
            or incident.out_of_shared_memory
            or incident.stage in ("import", "factory", "script")
        ):
            return False
        return self._gets_past(incident, multiprocessing_context="fork")

    def _works_with_one_worker(self, incident: Incident) -> bool:
        """Whether workers share a file offset, and an epoch with only one of them, or without, gets past this incident.

        The one worker of a second epoch finds the offset where that of the first left it.
        """
        shared = incident.stage == "sample" and self._shares_offsets()
        return shared and any(self._gets_past(incident, num_workers=number) for number in (1, 0))

    def _gets_past(self, incident: Incident, **overrides: Any) -> bool:
        try:
            return self._readable(**overrides).gets_past(incident)
        except (LoaderFailed, NotApplicable, Undecided):
            return False
