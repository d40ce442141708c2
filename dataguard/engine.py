"""Run checks: one check on one lab, or all of them on every loader of a target."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from shlex import quote
from typing import Any

from dataguard.core.figures import Wanted
from dataguard.core.model import DECIDED, RUNNING, Check, DataguardError, Interrupted, Result, Status, UsageError
from dataguard.machine.units import counted
from dataguard.process.launcher import Here, shared_zygote
from dataguard.process.progress import CheckProgress, Listener
from dataguard.process.session import Session
from dataguard.process.start_methods import examine
from dataguard.process.torchrun import own_team
from dataguard.report import Report, SampleViews
from dataguard.settings.settings import Settings, chosen, require_known, unselected
from dataguard.settings.target_spelling import ROLE_UNKNOWN, is_held, parsed, shown_target, suggest
from dataguard.targets.spelling import require_findable


def _shown(loader: str, session: Session, spellings: Sequence[str]) -> str:
    """The loader's name in a report, unique even when several targets have loaders of the same name."""
    if len(spellings) == 1:
        return loader
    names = [parsed(spelling).name for spelling in spellings]
    owner = session.name if names.count(session.name) == 1 else session.spelling
    return owner if loader == session.name else f"{owner}.{loader}"


def scan(
    targets: Sequence[str] | str,
    settings: Settings | None = None,
    listen: Listener | None = None,
    here: Here | None = None,
) -> Report:
    """Run the selected checks on every loader of the targets (`[name=]pkg.mod:attr`).

    When torchrun started several ranks to share a scan of all samples, only rank 0 judges, and the reports of the other
    ranks are empty. Objects in hand are observed by forks of this process, which `here` makes. Of several targets, one
    that cannot be imported, or returns no loader, fails DG001.
    Raises UsageError for a wrong target or setting, and Interrupted on Ctrl-C; whatever the user's loaders do becomes a
    result. So does a bug of dataguard, unless it leaves no target to report of: then it is raised.
    """
    spellings = (targets,) if isinstance(targets, str) else tuple(targets)
    settings = settings or Settings()
    if not spellings:
        raise UsageError("no target given")
    require_findable((*spellings, *settings.functions), settings.import_path)
    if settings.pictures and find_spec("PIL") is None:
        raise UsageError("pictures of samples need Pillow: pip install pillow")
    from dataguard.checks import CATALOGUE  # here, as importing them takes longer than answering a typo

    team = own_team(shared=settings.all)
    leads = team is None or team.leads
    checks = chosen(CATALOGUE, settings) if leads else ()
    scanned = _Scan(spellings, settings, checks, unselected(CATALOGUE, settings) if leads else (), listen, here)
    with shared_zygote() if len(spellings) > 1 else nullcontext():
        for spelling in spellings:
            try:
                scanned.add(spelling)
            except KeyboardInterrupt as stop:
                raise Interrupted(scanned.report(), scanned.total) from stop
    for failures in (scanned.bugs, scanned.misused):
        if len(failures) == len(spellings):
            raise failures[0]
    return scanned.report()


def show(
    spelling: str,
    wanted: Wanted,
    settings: Settings | None = None,
    loader: str | None = None,
    here: Here | None = None,
) -> SampleViews:
    """Read some samples of a loader of a target (default: the first), in another process, and describe them.

    A target in hand is observed by a fork of this process, which `here` makes. Raises UsageError for a wrong target or
    loader; what the user's loader raises is shown.
    """
    settings = settings or Settings()
    require_findable([spelling], settings.import_path)
    with examine(spelling, replace(settings, all=False), here) as session:
        loaders = session.loaders()
        if loader is not None and loader not in loaders:
            raise UsageError(f"--loader {loader}: no such loader in {shown_target(spelling)}{suggest(loader, loaders)}")
        views = session.show(loader or loaders[0], wanted)
        return SampleViews(views.target, views.loader, views.samples, views.others)


class _Scan:
    """The results of a scan, target by target."""

    def __init__(
        self,
        spellings: Sequence[str],
        settings: Settings,
        checks: Sequence[Check],
        unselected: Sequence[Check],
        listen: Listener | None,
        here: Here | None,
    ) -> None:
        self._started = time.monotonic()
        self._spellings = tuple(spellings)
        self._settings = settings
        self._checks = (*unselected, *checks)
        self._unselected = {check.code for check in unselected}
        self._listen = listen
        self._here = here
        self._results: dict[int, Result] = {}
        self._names: dict[str, None] = {}
        self._environment: Mapping[str, object] = {}
        self._notes: tuple[str, ...] = ()
        self.total = 0
        self.bugs: list[DataguardError] = []
        """What broke before any check of a target ran."""
        self.misused: list[UsageError] = []
        """What is wrong with targets that have no loaders, where there are others."""

    def add(self, spelling: str) -> None:
        """Run the checks on every loader of one target."""
        self._announce(building=spelling)
        session = examine(spelling, self._settings, self._here)
        try:
            with session:
                self._judge(spelling, session)
        finally:
            self._notes += session.notes

    def _judge(self, spelling: str, session: Session) -> None:
        session.on_progress = self._listen
        several = len(self._spellings) > 1
        loaders = session.loaders(contain=True, contain_misuse=several)
        self.bugs += filter(None, [session.bug])
        self.misused += filter(None, [session.misused])
        self._names |= dict.fromkeys(loaders)
        self._names |= dict.fromkeys(f"{session.name}.{loader}" for loader in loaders if several)
        if spelling == self._spellings[-1]:
            require_known(self._settings, self._names)
        self._environment = session.environment or self._environment
        wanted = [(check, loader) for loader in loaders for check in self._checks]
        shown = [_shown(loader, session, self._spellings) for _, loader in wanted]
        before, self.total = self.total, self.total + len(wanted)
        waiting = {number: (check.id, shown[number]) for number, (check, _) in enumerate(wanted)}
        self._announce(running=next(iter(waiting.values()), None))
        for number, result in session.judge_all(wanted):
            named = self._results[before + number] = replace(result, loader=shown[number])
            del waiting[number]
            following = (other for other in waiting if other > number)  # some of the first have to wait for all others
            running = waiting.get(next(following, next(iter(waiting), -1)))
            self._announce(result=named, running=running, left=session.seconds_left)
        if shown:  # not on a rank that only reads
            names = dict(zip(loaders, shown[:: len(self._checks)], strict=True))
            self._add_causes(session, range(before, self.total), names)

    def _add_causes(self, session: Session, numbers: Sequence[int], shown: Mapping[str, str]) -> None:
        """Run the checks that say why a loader does not run, of loaders of which no selected check was decided."""
        from dataguard.checks import CATALOGUE

        results = [self._results[number] for number in numbers]
        ran = {result.loader for result in results if result.status in DECIDED and result.code not in RUNNING}
        stopped = {(result.loader, result.cause) for result in results if result.loader not in ran}
        selected = {check.code for check in self._checks}
        missing = [check for check in CATALOGUE if check.code not in selected]
        self._unselected |= {check.code for check in missing}
        for loader, name in shown.items():
            for check in missing:
                if (name, check.code) in stopped:
                    result = session.judge(check, loader)
                    self._results[self.total] = replace(result, loader=name)
                    self.total += 1

    def _announce(self, **news: Any) -> None:
        if self._listen:
            seconds = time.monotonic() - self._started
            self._listen(CheckProgress(len(self._results), self.total, seconds=seconds, **news))

    def _is_reported(self, result: Result) -> bool:
        return result.code not in self._unselected or result.status in (Status.FAILED, Status.EXPECTED, Status.BROKEN)

    def report(self) -> Report:
        """What has been found so far, in the order of targets, loaders and checks."""
        results = (self._results[number] for number in sorted(self._results))
        return Report(
            targets=tuple(map(shown_target, self._spellings)),
            results=tuple(filter(self._is_reported, results)),
            environment=self._environment,
            settings=self._settings.as_mapping(),
            seconds=time.monotonic() - self._started,
            notes=(*self._notes, *self._without_role()),
        )

    def _without_role(self) -> Iterator[str]:
        """A note for each loader whose unknown role cost checks."""
        skipped = Counter(result.loader for result in self._results.values() if ROLE_UNKNOWN in (result.reason or ""))
        for loader, count in skipped.items():
            checks = f"{counted(count, 'checks')} {'was' if count == 1 else 'were'}"
            held = any(map(is_held, self._spellings))
            way = f'roles={{{json.dumps(loader)}: "train"}}' if held else f"--role {quote(loader)}=train"
            yield f"{loader}: {ROLE_UNKNOWN}, so {checks} not tested; add {way} (or val, test, predict)"
