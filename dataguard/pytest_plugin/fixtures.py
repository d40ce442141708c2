"""dataguard in the user's own tests: checks as parameters, reports and loaders as fixtures.

The processes that run loaders live for the whole session, so that tests of the same target share observations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from dataguard.checks import CATALOGUE
from dataguard.core.model import Check, Result, Status, UsageError
from dataguard.observer.entry import observe_here
from dataguard.process.session import Session
from dataguard.process.start_methods import Sessions
from dataguard.render.escapes import one_line, printable
from dataguard.render.text import render_result
from dataguard.settings.settings import Settings, changed, chosen, require_known
from dataguard.settings.target_spelling import hold, suggest
from dataguard.targets.spelling import require_findable, spelling_of

if TYPE_CHECKING:
    from dataguard.report import Report
    from dataguard.targets.variants import Loader

CHECKS, TARGET = "dataguard_checks", "dataguard_target"
"""The marks of tests that take a check as argument, and of tests whose fixtures use their own target."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One check and one loader; calling it in a test runs the check.

    It skips the test if the check does not apply or cannot decide, and fails the test with the findings, as a scan
    with these settings would.
    """

    check: Check
    loader: str
    session: Session

    def __call__(self) -> Result:
        """Run the check; return its result if it passed, or if its findings are less severe than `fail_on`."""
        __tracebackhide__ = True
        result = self.session.judge(self.check, self.loader)
        settings, reason = self.session.settings, one_line(result.reason or "")
        if result.stopped and result.cause not in {check.code for check in chosen(CATALOGUE, settings)}:
            pytest.fail(f"the loader does not run, {reason}", pytrace=False)
        if result.status is Status.SKIPPED:
            pytest.skip(reason)
        if result.status is Status.INCONCLUSIVE:
            (pytest.fail if settings.fail_on_undecided else pytest.skip)(f"inconclusive: {reason}")
        if result.status is Status.EXPECTED:
            pytest.xfail(reason)
        tolerated = result.status is Status.FAILED and result.severity.rank > settings.fail_on.rank
        if result.status in (Status.FAILED, Status.BROKEN) and not tolerated:
            pytest.fail(render_result(result, self.check.doc, width=100, colour=False), pytrace=False)
        return result


@dataclass(frozen=True, slots=True)
class Laboratory:
    """A target: the names of its loaders, and the result of any check on them."""

    target: str
    settings: Settings
    session: Session

    @property
    def loaders(self) -> tuple[str, ...]:
        """The names of the target's loaders."""
        return self.session.loaders()

    def judge(self, check: str, loader: str | None = None) -> Result:
        """The result of the check with this code or name on a loader, the first one by default.

        Raises UsageError for a check or a loader that does not exist.
        """
        (check_named, *others) = chosen(CATALOGUE, changed(self.settings, select=(check,), ignore=()))
        name = self.loaders[0] if loader is None else loader
        if others:
            raise UsageError(f"{check!r} matches {1 + len(others)} checks: name one")
        if name not in self.loaders:
            raise UsageError(f"{self.target} has no loader {name!r}{suggest(name, self.loaders)}")
        return self.session.judge(check_named, name)


@dataclass
class Toolbox:
    """The sessions and reports of one pytest run, by target and settings; closed at the end of the run."""

    settings: Settings
    """The settings of the run."""
    sessions: Sessions = field(default_factory=lambda: Sessions(observe_here))
    reports: dict[str, Report] = field(default_factory=dict)

    def session(self, target: str, settings: Settings) -> Session:
        """The session of a target with these settings."""
        require_findable([target], settings.import_path)
        return self.sessions.of(target, settings)

    def report(self, settings: Settings) -> Report:
        """The report of a scan with these settings."""
        from dataguard.engine import scan

        key = repr(settings)
        if key not in self.reports:
            self.reports[key] = scan(settings.targets, settings, here=observe_here)
        return self.reports[key]

    def settings_of(self, request: pytest.FixtureRequest) -> Settings:
        """The settings of the run, updated with the target and options of the test's mark, if any."""
        settings = self.settings
        mark = request.node.get_closest_marker(TARGET)
        if mark:
            spellings = tuple(mark.args)
            options = {name: value for name, value in mark.kwargs.items() if name != "loader"}
            settings = changed(settings, targets=spellings, **options)
        if not settings.targets:
            raise UsageError(
                f"{request.fixturename} needs a target: give --dataguard=pkg.mod:attr, set it in an ini or settings "
                f"file, or use @dataguard.use_target('pkg.mod:attr')"
            )
        return settings

    def laboratory(self, request: pytest.FixtureRequest) -> Laboratory:
        """The only target of the settings."""
        settings = self.settings_of(request)
        if len(settings.targets) > 1:
            raise UsageError(f"{len(settings.targets)} targets: choose one with @dataguard.use_target('pkg.mod:attr')")
        target = settings.targets[0]
        return Laboratory(target, settings, self.session(target, settings))

    def loader(self, request: pytest.FixtureRequest) -> Loader:
        """A new loader of the target, built in this process."""
        from dataguard.targets.loading import load

        settings = self.settings_of(request)
        mark = request.node.get_closest_marker(TARGET)
        wanted = mark.kwargs.get("loader") if mark else None
        sys.path[:] = dict.fromkeys(settings.import_path)  # its dataset may import more when it is read
        target, given = load(settings.targets[0]), {"seed": settings.seed}
        if wanted is not None:
            return target.build(wanted, given)
        built = target.build_all(given)
        if len(built) > 1:
            raise UsageError(f"loaders {', '.join(built)}: choose one with @dataguard.use_target(..., loader='...')")
        return next(iter(built.values()))

    def pytest_unconfigure(self) -> None:
        """Stop every process that was started, however the run ended."""
        self.sessions.close()


def _spelled(source: Any) -> str:
    """The name of a target, if another process can import it; else it is observed in forks of this process."""
    with suppress(UsageError):
        return spelling_of(source)
    return hold(source)


def parametrize_with_checks(
    factory: Any, *, expect: Mapping[str, str] | None = None, **options: Any
) -> Callable[[Any], Any]:
    """Run a test once for each check and loader of a factory; the test calls its argument `check`.

    `factory` may be a name, a function, or a loader in hand. `expect` maps known findings to reasons; `options` are
    fields of `Settings`.
    """
    mark = getattr(pytest.mark, CHECKS)
    decorated: Callable[[Any], Any] = mark(_spelled(factory), expect=dict(expect or {}), **options)
    return decorated


def use_target(factory: Any, *, loader: str | None = None, **options: Any) -> Callable[[Any], Any]:
    """Set the target of a test's fixtures: a factory, its name or a loader in hand, and options of `Settings`.

    `loader` is the name of one of its loaders.
    """
    mark = getattr(pytest.mark, TARGET)
    decorated: Callable[[Any], Any] = mark(_spelled(factory), loader=loader, **options)
    return decorated


def parametrize(metafunc: pytest.Metafunc, mark: pytest.Mark, toolbox: Toolbox) -> None:
    """Parametrize a marked test with its checks. Calls the factory to learn the names of its loaders."""
    try:
        if "check" not in metafunc.fixturenames:
            raise UsageError(f"{metafunc.function.__name__} needs an argument named check, which it calls")
        (target,) = mark.args
        settings = changed(toolbox.settings, targets=(target,), **mark.kwargs)
        session = toolbox.session(target, settings)
        loaders = session.loaders(contain=True)
        require_known(replace(settings, expect=mark.kwargs.get("expect") or {}, roles={}), loaders)
        judgements = [Judgement(check, loader, session) for loader in loaders for check in chosen(CATALOGUE, settings)]
    except UsageError as error:
        raise pytest.UsageError(printable(str(error))) from error
    names = [f"{judgement.check.id}-{judgement.loader}" for judgement in judgements]
    metafunc.parametrize("check", judgements, ids=names)
