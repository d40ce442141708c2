"""How often reading a sample raises, for a dataset that raised in some observation and not in the ordinary epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path

from dataguard.incident import Incident, LoaderRaised, observed_or_none, shown_index
from dataguard.lab.core.index import Index
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.subject import Subject
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

SECONDS = 3.0
MOST = 4000
"""Reads in which a dataset that raises once in a thousand does so, and how long they may take."""
FIRST = 20
"""How often the sample that raised is read before the others."""
INDICES = 256


@dataclass(frozen=True, slots=True)
class OccasionalFailure:
    """The first exception among so many reads under the loader's own settings, and how many raised."""

    incident: Incident
    failures: int
    reads: int


def find_occasional_failure(subject: Subject) -> OccasionalFailure | None:
    """Repeat reads of a dataset that raised when a sample was read; None if it never did, or does not again.

    What raises only under other settings does not raise here.
    """
    met = [incident for incident in subject.raised if incident.stage == "sample" and incident.index is not None]
    if not met or subject.facts.kind != "map":
        return None
    known = subject.epoch.asked(INDICES)
    at = [index for index in known if shown_index(index) == met[0].index]
    order = [*at * FIRST, *known]
    return observed_or_none(
        lambda: subject.vary("occasional failure", lambda folder: _repeated(subject.build(), folder, order))
    )


def _repeated(loader: Loader, folder: Path, order: Sequence[Index]) -> OccasionalFailure | None:
    reader, first, failures, end = Reader(loader, folder), None, 0, time.monotonic() + SECONDS
    recovered = False
    for index in islice(cycle(order), MOST):
        if time.monotonic() > end:
            break
        try:
            reader.read_as_is(index)
            recovered = first is not None
        except LoaderRaised as failure:
            failures += 1
            first = first or replace(failure.incident, index=shown_index(index))
    # Otherwise it may be used up: a dataset in front of a generator, say.
    return OccasionalFailure(first, failures, reader.reads) if first and recovered else None
