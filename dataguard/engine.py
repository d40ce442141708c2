"""Run checks: one check on one lab, or all of them on every loader of a target."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from dataguard.checks import CATALOGUE
from dataguard.model import Report, Result, UsageError
from dataguard.process.launcher import shared_zygote
from dataguard.process.progress import ProgressListener, ReadingProgress
from dataguard.process.resume_store import forget_all, state_of
from dataguard.process.session import Session
from dataguard.process.start_methods import examine
from dataguard.process.torchrun import own_team
from dataguard.settings.settings import Settings, chosen, misspelled
from dataguard.target.spelling import require_findable

Listener = Callable[[str, str, Result | ReadingProgress | None], None]
"""Called with a check's id and a loader's name: when the check starts, on progress, and with its result."""


def _shown(loader: str, session: Session, spellings: Sequence[str]) -> str:
    """The loader's name in a report, unique even when several targets have loaders of the same name."""
    if len(spellings) == 1:
        return loader
    names = [Session.name_of(spelling) for spelling in spellings]
    owner = session.name if names.count(session.name) == 1 else session.spelling
    return owner if loader == session.name else f"{owner}.{loader}"


def _relayed(listen: Listener | None, check: str, loader: str) -> ProgressListener | None:
    return (lambda progress: listen(check, loader, progress)) if listen else None


def scan(targets: Sequence[str] | str, settings: Settings | None = None, listen: Listener | None = None) -> Report:
    """Run the selected checks on every loader of the targets (`[name=]pkg.mod:attr`).

    When torchrun started several ranks to share a scan of all samples, only rank 0 judges, and the reports of the other
    ranks are empty. The ranks delete their checkpoints once all are done; a single process does so here.
    Raises UsageError for a wrong target or setting; whatever the user's loaders do becomes a result.
    """
    spellings = (targets,) if isinstance(targets, str) else tuple(targets)
    settings = settings or Settings()
    if not spellings:
        raise UsageError("no target given")
    require_findable(spellings)
    team = own_team(shared=settings.all)
    checks = chosen(CATALOGUE, settings) if team is None or team.leads else ()
    started = time.monotonic()
    results: list[Result] = []
    names: dict[str, None] = {}
    environment: Mapping[str, object] = {}
    notes: tuple[str, ...] = ()
    with shared_zygote() if len(spellings) > 1 else nullcontext():
        for spelling in spellings:
            with examine(spelling, settings) as session:
                session.state = state_of(spelling, settings)
                session.on_progress = _relayed(listen, "", "")
                names |= dict.fromkeys(session.loaders())
                wanted = [(check, loader) for loader in session.loaders() for check in checks]
                made: dict[int, Result] = {}
                for number, result in session.judge_all(wanted):
                    check, loader = wanted[number]
                    made[number] = replace(result, loader=_shown(loader, session, spellings))
                    if listen:
                        listen(check.id, made[number].loader, made[number])
                results.extend(made[number] for number in sorted(made))
                environment = session.environment
                notes += session.notes
    if team is None:
        forget_all(spellings, settings)
    return Report(
        targets=spellings,
        results=tuple(results),
        environment=environment,
        settings=settings.as_mapping(),
        seconds=time.monotonic() - started,
        notes=(*misspelled(settings, names), *notes),
    )
