"""Whether a dataset counts its reads: so many work in one process, whatever their index, and every later one raises.

Such a dataset plans an epoch, or hands out what it has, and expects its training to reset it before the next one.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

from dataguard.core.incident import LoaderRaised, observed_or_none, shown_index
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.core.loader_facts import length_of
from dataguard.lab.reading.epoch_trace import ReadLimit
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.subject import Subject
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

COUNTING_SECONDS = 2.0
"""How long the reads of one order may take: an epoch has raised already, so that other checks need little."""
CONFIRMING_READS = 8
"""Reads after the first that raises. They raise, too, unless that one only met a rare draw."""


def find_read_limit(subject: Subject) -> ReadLimit | None:
    """Read samples in two orders, each in a separate process; None if they do not raise after as many reads."""
    if subject.facts.kind != "map":
        return None
    most = 2 * subject.settings.samples

    def observe(*, backward: bool) -> ReadLimit | None:
        key = ("read limit", backward)
        return observed_or_none(
            lambda: subject.cache.observe(key, lambda folder: _count(subject.build(), folder, most, backward=backward))
        )

    forward = observe(backward=False)
    if forward is None:
        return None
    other = observe(backward=True)
    return forward if other is not None and other.reads == forward.reads else None


def _count(loader: Loader, folder: Path, most: int, *, backward: bool) -> ReadLimit | None:
    """Read all samples in turn until every read raises."""
    length = length_of(loader.dataset) or 0
    order = range(length)[::-1] if backward else range(length)
    reader, raised, end = Reader(loader, folder), None, time.monotonic() + COUNTING_SECONDS
    before = _attributes(loader.dataset)
    for number in count() if length else ():
        if raised is None and (number > most or time.monotonic() > end):
            break
        index = order[number % length]
        try:
            reader.read_as_is(index)
        except LoaderRaised as failure:
            raised = raised or (number, replace(failure.incident, index=shown_index(index)))
        else:
            if raised is not None:
                break
        if raised is not None and number == raised[0] + CONFIRMING_READS:
            changed = {name for name, value in _attributes(loader.dataset).items() if before.get(name) != value}
            # The very first read raises for a reason of its own.
            return ReadLimit(*raised, tuple(_setters(loader.dataset, changed))) if raised[0] else None
    return None


def _attributes(dataset: object) -> dict[str, object]:
    return {name: leaves_of(value) for name, value in vars(dataset).items()} if hasattr(dataset, "__dict__") else {}


def _setters(dataset: object, names: set[str]) -> Iterator[str]:
    """The public methods that assign one of these attributes."""
    methods = {name: method for kind in reversed(type(dataset).__mro__) for name, method in vars(kind).items()}
    for name, method in methods.items():
        code = getattr(method, "__code__", None)
        if code is None or name.startswith("_"):
            continue
        if any(step.opname == "STORE_ATTR" and step.argval in names for step in dis.get_instructions(code)):
            yield name
