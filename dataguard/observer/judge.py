"""Judge checks side by side, in the observing process.

`judge` runs one check on one loader and turns every outcome into a `Result`. `judged` runs many, in an order in which
the budget of a loader serves first what matters most.
"""

from __future__ import annotations

import contextlib
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dataguard.checks.figures import figures_of
from dataguard.core.figures import Figure
from dataguard.core.incident import LoaderFailed, observed_or_none
from dataguard.core.model import (
    Check,
    Coverage,
    Finding,
    Location,
    NotApplicable,
    NotTested,
    Result,
    Severity,
    Status,
    Undecided,
    UsageError,
)
from dataguard.lab.core.observation_cache import SHORT_SECONDS, recalling
from dataguard.lab.lab import Lab
from dataguard.lab.process.side_by_side import TookTooLong, charged, seconds_waited, side_by_side, wait_until
from dataguard.machine.units import counted
from dataguard.process.originals import time
from dataguard.settings.parsers import EVALUATION
from dataguard.settings.settings import Settings


def judge(check: Check, lab: Lab, loader: str) -> Result:
    """Run one check on one loader, and turn every outcome into a `Result`."""
    started, waited = time.monotonic(), seconds_waited()
    findings: list[Finding] = []
    coverage = Coverage({})
    status, reason = Status.PASSED, None
    judgement = check.judge(lab)
    try:
        with charged(lab.cache.allowance()):
            while True:
                findings.append(next(judgement))
    except StopIteration as stop:
        coverage = stop.value
        reason = coverage.note
        status = Status.FAILED if findings else Status.PASSED
    except NotApplicable as why:
        status, reason = Status.SKIPPED, str(why if isinstance(why, NotTested) else _unseen(lab) or why)
    except (Undecided, UsageError) as why:  # a factory that returns different loaders on each call ends up here
        status, reason = Status.INCONCLUSIVE, str(why)
    except TookTooLong:  # a finding stands, whatever would have followed it
        status = Status.FAILED if findings else Status.INCONCLUSIVE
        reason = str(lab.cache.too_long("to judge what was observed"))
    except LoaderFailed as why:
        status, reason = Status.SKIPPED, f"see {why.code}: {why.incident.headline}"
    except Exception:  # noqa: BLE001 - a bug of ours, never the user's: report it and continue with the other checks
        status, reason = Status.BROKEN, traceback.format_exc()
    repro = lab.repro.scan(check.code, _options(lab.settings))
    at = None if all(finding.at for finding in findings) else _place(check, lab)
    findings = [
        replace(
            finding,
            repro=finding.repro or repro,
            at=_in_own_code(finding.at or at, lab),
            evidence=_evidence(finding, lab),
        )
        for finding in findings
    ]
    result = Result(
        check.code,
        check.name,
        _severity(check, findings),
        loader,
        status,
        tuple(findings),
        reason,
        coverage.exercised,
        time.monotonic() - started - (seconds_waited() - waited),
    )
    return replace(result, figures=_figures(result, lab))


def _unseen(lab: Lab) -> NotTested | None:
    """Why a check does not apply to a stream that starts processes to make its batches."""
    if not lab.own_processes:
        return None
    started = f"batches come from {counted(lab.own_processes, 'processes')} that the loader starts itself"
    return NotTested(f"{started}: name what they read as a target, too")


def _place(check: Check, lab: Lab) -> Location | None:
    """The place of findings that name none: what makes samples or batches, or the line that constructs the loader."""
    with contextlib.suppress(Exception, TookTooLong):
        if check.code[:3] in _OF_SAMPLES and check.code not in _OF_LOADERS:
            collate_at = lab.facts.collate_at if check.code.startswith("DG4") else None
            return collate_at or lab.dataset.location
        return lab.facts.made_at
    return None


def _in_own_code(at: Location | None, lab: Lab) -> Location | None:
    """A place of a library's dataset or transform: the line of the user's code that makes that dataset."""
    if at is None or at.file is not None:
        return at
    with contextlib.suppress(Exception, TookTooLong):
        made = lab.places.dataset
        return replace(at, file=made.file, line=made.line) if made else at
    return at


def _evidence(finding: Finding, lab: Lab) -> Mapping[str, Any]:
    """The evidence of a finding, with what its sample is read from if that is known or one more read shows it."""
    words = ""
    if finding.sample is not None:
        with contextlib.suppress(Exception, TookTooLong):
            words = lab.provenance.read_from(finding.sample)
    return {**finding.evidence, "read from": words} if words else finding.evidence


_OF_SAMPLES, _OF_LOADERS = ("DG3", "DG4", "DG5"), ("DG403", "DG404", "DG405")


def _figures(result: Result, lab: Lab) -> tuple[Figure, ...]:
    """What the findings look like, from what was observed for the verdict; it costs no observation except pictures."""
    if result.status is Status.FAILED:
        # A verdict is worth more than its figures.
        with contextlib.suppress(Exception, TookTooLong), recalling(), charged(lab.cache.allowance()):
            return figures_of(result.code, lab, result.findings)
    return ()


def _severity(check: Check, findings: list[Finding]) -> Severity:
    """The severity of the check; at most a warning if all findings are ambiguous."""
    ambiguous = findings and all(finding.ambiguous for finding in findings)
    return Severity.WARNING if ambiguous and check.severity is Severity.ERROR else check.severity


def _options(settings: Settings) -> str:
    """The settings that change the loader, as command line options."""
    flags = " --all" if settings.all else ""
    asked = {"workers": settings.workers, "start-method": settings.start_method, "ranks": settings.ranks}
    return flags + "".join(f" --{name} {value}" for name, value in asked.items() if value is not None)


URGENT = (
    *("DG001", "DG002", "DG003", "DG101", "DG102", "DG307", "DG502", "DG505", "DG506", "DG507", "DG512", "DG514"),
    *("DG402", "DG301", "DG305", "DG306", "DG201", "DG204", "DG206", "DG401", "DG501", "DG511", "DG515"),
    *("DG421", "DG422", "DG202", "DG303", "DG304", "DG311", "DG309", "DG104", "DG524", "DG525", "DG526", "DG528"),
    *("DG212", "DG312", "DG701"),
)
"""The defects that are looked for first if samples are slow: the likely ones that ruin a training, then those
that take the fewest reads."""
OF_THE_CLASS = ("DG104", "DG105", "DG303", "DG304", "DG311")
"""Checks of what the classes of a dataset do and not the values that it holds: if samples are slow, what was seen on a
loader holds for another one of the same classes, and the budget of that one serves other checks."""
AS_IN_TRAINING = ("DG602", "DG604")
"""Checks of which the same holds, but only for evaluation, and what was seen in training, which does more."""
MEASURING = ("DG6", "DG8")
"""Families of checks that run alone, and come last."""


def judged(wanted: Sequence[tuple[Check, str]], labs: Mapping[str, Lab]) -> Iterator[tuple[int, Result]]:
    """Judge side by side; yields the number of each with its result as it is made.

    The ordinary epochs come first, since nearly all else needs them. What is undecided as the budget of its loader ran
    out is judged again within what other loaders left of theirs.
    """
    loaders = dict.fromkeys(loader for _, loader in wanted)
    if len(wanted) > len(loaders):
        deque(side_by_side([partial(read_epoch, labs[loader]) for loader in loaders]), maxlen=0)
    order = sorted(range(len(wanted)), key=lambda number: _rank(wanted[number][0]))
    made: dict[tuple[str, str], Result | None] = {(check.code, loader): None for check, loader in wanted}

    names = tuple(loaders)

    def judge_once(check: Check, loader: str) -> Result:
        earlier = names[: names.index(loader)]
        result = _of_twin(check.code, labs[loader], loader, earlier, made) or judge(check, labs[loader], loader)
        made[check.code, loader] = result
        return result

    ran: list[int] = []
    undecided: dict[int, Result] = {}
    for position, result in side_by_side([partial(judge_once, *wanted[number]) for number in order]):
        number = order[position]
        if result.code == "DG001" and result.status is Status.PASSED:
            ran.append(number)  # a later observation may still meet an exception
        elif result.status is Status.INCONCLUSIVE:
            undecided[number] = result  # a later loader may decide it, or leave some of its budget
        else:
            yield number, result
    for number, result in list(undecided.items()):
        if twin := _of_twin(result.code, labs[result.loader], result.loader, names, made):
            del undecided[number]
            yield number, twin
    again = [number for number in order if number in undecided and labs[wanted[number][1]].cache.ran_out]
    if again and _share_budgets([labs[name] for name in names]):
        made |= {(check.code, loader): None for check, loader in map(wanted.__getitem__, again)}
        for position, result in side_by_side([partial(judge_once, *wanted[number]) for number in again]):
            undecided[again[position]] = result
    yield from undecided.items()
    for number in ran:
        check, loader = wanted[number]
        yield number, judge(check, labs[loader], loader)


def _share_budgets(labs: Sequence[Lab]) -> bool:
    """Let loaders use what others left of their budgets; returns whether that may decide anything."""
    first, *others = (lab.cache for lab in labs)
    return bool(others) and first.share(others).left > SHORT_SECONDS


def _of_twin(
    code: str, lab: Lab, loader: str, others: Sequence[str], made: Mapping[tuple[str, str], Result | None]
) -> Result | None:
    """What a check of the class found on another loader of the same class, if it passed there and samples are slow.

    What it finds is looked for in each loader, where its place and evidence are.
    """
    evaluates = code in AS_IN_TRAINING and observed_or_none(lambda: lab.facts.role) in EVALUATION
    shared = evaluates or code in OF_THE_CLASS
    twins = observed_or_none(lambda: lab.twins) if shared and others else None
    for twin in twins or ():
        if twin not in others or (code, twin) not in made:
            continue
        if code in AS_IN_TRAINING and lab.siblings[twin].facts.role != "train":
            continue
        wait_until(lambda: made[code, twin] is not None)  # noqa: B023 - called at once
        result = made[code, twin]
        if result is not None and result.status is Status.PASSED:
            reason = f"seen on {twin}, which has the same class and settings"
            return replace(result, loader=loader, reason=reason, seconds=0.0)
    return None


def _rank(check: Check) -> tuple[int, int, int]:
    """What is judged first, since the budget of a loader may not suffice for all: the urgent, then errors."""
    urgency = URGENT.index(check.code) if check.code in URGENT else len(URGENT)
    return urgency, check.severity.rank, check.code.startswith(MEASURING)


def read_epoch(lab: Lab) -> None:
    """Read the ordinary epoch of a loader, whatever it raises."""
    with contextlib.suppress(Exception):  # each judgement meets it again
        lab.epoch  # noqa: B018 - to touch it is to make it
