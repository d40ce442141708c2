"""Judge a loader: one check against one lab, or a whole target."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from dataguard.checks import CATALOGUE
from dataguard.model import Report, Result, UsageError
from dataguard.process.launcher import nursery
from dataguard.process.progress import News, Tell
from dataguard.process.resume_store import forget_all, state_of
from dataguard.process.session import Session
from dataguard.process.start_methods import examine
from dataguard.process.torchrun import own_team
from dataguard.settings.settings import Settings, chosen, misspelled

Listener = Callable[[str, str, Result | News | None], None]
"""Called with a check's id and a loader's name when a judgement starts, with news of it, and with its result."""


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
    notes: tuple[str, ...] = ()
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
