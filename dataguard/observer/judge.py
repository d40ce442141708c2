"""Run one check on one loader, in the observing process."""

from __future__ import annotations

import contextlib
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING

from dataguard.checks.figures.registry import figures_of
from dataguard.figures import Figure
from dataguard.incident import LoaderFailed
from dataguard.lab.core.observation_cache import recalling
from dataguard.lab.process.computing_time import TookTooLong, charged
from dataguard.lab.process.side_by_side import seconds_waited
from dataguard.model import (
    Check,
    Coverage,
    Finding,
    Location,
    NotApplicable,
    Result,
    Severity,
    Status,
    Undecided,
    UsageError,
)
from dataguard.process.originals import time
from dataguard.settings.settings import Settings

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab


def judge(check: Check, lab: Lab, loader: str) -> Result:
    """Run one check on one loader, and turn every outcome into a `Result`."""
    started = time.monotonic()
    findings: list[Finding] = []
    looked = Coverage({})
    status, reason = Status.PASSED, None
    judgement = check.judge(lab)
    try:
        with charged(lab.cache.allowance()):
            while True:
                findings.append(next(judgement))
    except StopIteration as stop:
        looked = stop.value
        reason = looked.note
        status = Status.FAILED if findings else Status.PASSED
    except NotApplicable as why:
        status, reason = Status.SKIPPED, str(why)
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
    findings = [replace(finding, repro=finding.repro or repro, at=finding.at or at) for finding in findings]
    result = Result(
        check.code,
        check.name,
        _severity(check, findings),
        loader,
        status,
        tuple(findings),
        reason,
        looked.exercised,
        time.monotonic() - started - seconds_waited(),
    )
    return replace(result, figures=_figures(result, lab))


def _place(check: Check, lab: Lab) -> Location | None:
    """The place of findings that name none: what makes samples or batches, or the line that constructs the loader."""
    with contextlib.suppress(Exception, TookTooLong):
        if check.code[:3] in _OF_SAMPLES and check.code not in _OF_LOADERS:
            own = lab.facts.collate_at if check.code.startswith("DG4") else None
            return own or lab.dataset.location
        return lab.facts.made_at
    return None


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
