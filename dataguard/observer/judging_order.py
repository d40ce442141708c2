"""Judges checks side by side, in an order in which the budget of a loader serves what matters most."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from dataguard.lab.lab import Lab
from dataguard.lab.process.side_by_side import side_by_side
from dataguard.model import Check, Result, Status
from dataguard.observer.judge import judge

URGENT = (
    *("DG001", "DG002", "DG003", "DG101", "DG102", "DG307", "DG502", "DG505", "DG506", "DG507", "DG512", "DG514"),
    *("DG402", "DG301", "DG305", "DG306", "DG201", "DG204", "DG206", "DG401", "DG501", "DG511", "DG515"),
    *("DG421", "DG422", "DG309", "DG104", "DG701", "DG303"),
)
"""The defects that are looked for first if samples are slow: the likely ones that ruin a training, then those
that take the fewest reads."""
MEASURING = ("DG6", "DG8")
"""Families of checks that run alone, and come last."""


def judged(wanted: Sequence[tuple[Check, str]], labs: Mapping[str, Lab]) -> Iterator[tuple[int, Result]]:
    """Judge side by side; yields the number of each with its result as it is made.

    The ordinary epochs come first, since nearly all else needs them.
    """
    loaders = dict.fromkeys(loader for _, loader in wanted)
    if len(wanted) > len(loaders):
        deque(side_by_side([partial(read_epoch, labs[loader]) for loader in loaders]), maxlen=0)
    order = sorted(range(len(wanted)), key=lambda number: _rank(wanted[number][0]))
    jobs = [partial(judge, check, labs[loader], loader) for check, loader in (wanted[number] for number in order)]
    ran: list[int] = []
    for number, result in side_by_side(jobs):
        if result.code == "DG001" and result.status is Status.PASSED:
            ran.append(order[number])  # a later observation may still meet an exception
        else:
            yield order[number], result
    for number in ran:
        check, loader = wanted[number]
        yield number, judge(check, labs[loader], loader)


def _rank(check: Check) -> tuple[int, int, int]:
    """What is judged first, since the budget of a loader may not suffice for all: the urgent, then errors."""
    urgency = URGENT.index(check.code) if check.code in URGENT else len(URGENT)
    return urgency, check.severity.rank, check.code.startswith(MEASURING)


def read_epoch(lab: Lab) -> None:
    """Read the ordinary epoch of a loader, whatever it raises."""
    with contextlib.suppress(Exception):  # each judgement meets it again
        lab.epoch  # noqa: B018 - to touch it is to make it
