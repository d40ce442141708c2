"""Judge a loader: one check against one lab, or a whole target."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from dataguard.checks import CATALOGUE
from dataguard.incident import LoaderFailed
from dataguard.model import Check, Finding, Looked, NotApplicable, Report, Result, Status, Undecided, UsageError
from dataguard.process.launcher import nursery
from dataguard.process.progress import News, Tell
from dataguard.process.resume_store import forget_all, state_of
from dataguard.process.session import Session
from dataguard.process.start_methods import examine
from dataguard.process.torchrun import own_team
from dataguard.settings.settings import Settings, chosen, expectation, misspelled

if TYPE_CHECKING:
    from dataguard.lab.lab import Lab

Listener = Callable[[str, str, Result | News | None], None]
"""Called with a check's id and a loader's name when a judgement starts, with news of it, and with its result."""


def run(check: Check, lab: Lab, loader: str) -> Result:
    """Let one check judge one loader, and turn every outcome into a `Result`."""
    started = time.monotonic()
    findings: list[Finding] = []
    looked = Looked({})
    status, reason = Status.PASSED, None
    judgement = check.judge(lab)
    try:
        while True:
            findings.append(next(judgement))
    except StopIteration as stop:
        looked = stop.value
        reason = looked.note
        status = Status.FAILED if findings else Status.PASSED
    except NotApplicable as why:
        status, reason = Status.SKIPPED, str(why)
    except (Undecided, UsageError) as why:  # a factory that makes other loaders at each call is no usage error by now
        status, reason = Status.INCONCLUSIVE, str(why)
    except LoaderFailed as why:
        status, reason = Status.SKIPPED, f"see {why.code}: {why.incident.headline}"
    except Exception:  # noqa: BLE001 - a bug of ours, never the user's: it is reported as such and the rest goes on
        status, reason = Status.BROKEN, traceback.format_exc()
    repro = f"dataguard scan {lab.target.spelling} --select {check.code}{_options(lab.settings)}"
    findings = [replace(finding, repro=finding.repro or repro) for finding in findings]
    result = Result(
        check.code,
        check.name,
        check.severity,
        loader,
        status,
        tuple(findings),
        reason,
        looked.exercised,
        time.monotonic() - started,
    )
    return expected(result, expectation(lab.settings, check, loader))


def _options(settings: Settings) -> str:
    """What the settings changed about the loader, as options of a scan."""
    flags = " --all" if settings.all else ""
    asked = {"workers": settings.workers, "start-method": settings.start_method, "ranks": settings.ranks}
    return flags + "".join(f" --{name} {value}" for name, value in asked.items() if value is not None)


def expected(result: Result, reason: str | None) -> Result:
    """Apply what the user expects: a known finding is EXPECTED, an expectation that no longer fires is said."""
    if reason is None:
        return result
    if result.status is Status.FAILED:
        return replace(result, status=Status.EXPECTED, reason=reason)
    if result.status is Status.PASSED:
        return replace(result, reason=f"expected to fail ({reason}), but it passes: remove the expectation")
    return result


def _shown(loader: str, session: Session, spellings: Sequence[str]) -> str:
    """The loader's name in a report: distinct, even where several targets have loaders of one name."""
    if len(spellings) == 1:
        return loader
    names = [Session.name_of(spelling) for spelling in spellings]
    owner = session.name if names.count(session.name) == 1 else session.spelling
    return owner if loader == session.name else f"{owner}.{loader}"


def _relayed(listen: Listener | None, check: str, loader: str) -> Tell | None:
    return (lambda news: listen(check, loader, news)) if listen else None


def scan(targets: Sequence[str] | str, settings: Settings | None = None, listen: Listener | None = None) -> Report:
    """Examine every loader of the targets (`[name=]pkg.mod:attr`) with every chosen check.

    Where torchrun started several ranks to share a scan of all samples, only the first one judges: the reports of the
    others are empty. They forget what they kept once all of them are done; a process alone does so here.
    Raises UsageError for a target or setting that makes no sense; whatever the user's loaders do becomes results.
    """
    spellings = (targets,) if isinstance(targets, str) else tuple(targets)
    settings = settings or Settings()
    if not spellings:
        raise UsageError("no target given")
    team = own_team(shared=settings.all)
    checks = chosen(CATALOGUE, settings) if team is None or team.leads else ()
    started = time.monotonic()
    results: list[Result] = []
    names: dict[str, None] = {}
    environment: Mapping[str, object] = {}
    with nursery() if len(spellings) > 1 else nullcontext():
        for spelling in spellings:
            with examine(spelling, settings) as session:
                session.state = state_of(spelling, settings)
                session.hear = _relayed(listen, "", "")
                names |= dict.fromkeys(session.loaders())
                for loader in session.loaders():
                    shown = _shown(loader, session, spellings)
                    for check in checks:
                        if listen:
                            listen(check.id, shown, None)
                        session.hear = _relayed(listen, check.id, shown)
                        results.append(replace(session.judge(check, loader), loader=shown))
                        if listen:
                            listen(check.id, shown, results[-1])
                environment = session.environment
    if team is None:
        forget_all(spellings, settings)
    return Report(
        targets=spellings,
        results=tuple(results),
        environment=environment,
        settings=settings.as_mapping(),
        seconds=time.monotonic() - started,
        notes=tuple(misspelled(settings, names)),
    )
