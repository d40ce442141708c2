"""The tests that `--dataguard` adds to a pytest session: one for each check and loader.

Collection only asks for the names of the loaders. A loader is observed when the first of its tests is set up, in a
separate process that ends with the session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest._code.code import (
    ExceptionChainRepr,
    ReprEntryNative,
    ReprFileLocation,
    ReprTraceback,
    TerminalRepr,
    Traceback,
)

from dataguard.checks import CATALOGUE
from dataguard.core.model import PREVENTED, RUNNING, Check, DataguardError, Result, Status, UsageError, mostly_prevented
from dataguard.machine.units import counted
from dataguard.process.session import Session
from dataguard.process.start_methods import Sessions
from dataguard.render.escapes import one_line, printable
from dataguard.render.text import render_result
from dataguard.settings.settings import Settings, chosen, require_known
from dataguard.targets.spelling import require_findable

FOLDER = "dataguard"
"""The first part of the test ids: `dataguard::DG101-cloned-worker-rng[train]`."""
INCONCLUSIVE = "inconclusive: "
NOTE = "dataguard note"
"""The user property for the note of a passed check; xdist and junitxml preserve user properties."""
USAGE_ERROR = "dataguard_usage_error"
DOCS = {check.code: check.doc for check in CATALOGUE}


class ContractBroken(DataguardError):
    """A loader broke a contract; pytest shows the finding instead of a traceback."""

    def __init__(self, result: Result) -> None:
        super().__init__("; ".join(finding.message for finding in result.findings))
        self.result = result


@dataclass(frozen=True, slots=True)
class Named:
    """One loader of a target, and the unique label that its test ids carry."""

    session: Session
    target: str
    loader: str
    label: str


class LoaderContracts:
    """The plugin registered when `--dataguard` is given: it adds the tests, closes the sessions and reports."""

    def __init__(self, config: pytest.Config, settings: Settings, only: list[str]) -> None:
        self.config = config
        self.settings = settings
        self.only = only
        self.checks = chosen(CATALOGUE, settings)
        self._sessions = Sessions()
        self._tested: set[tuple[Named, str]] = set()
        """The loaders and the codes of their checks that this session runs."""
        self._applied: list[tuple[str, bool]] = []
        """The loader of each check that applied, and whether it was prevented."""
        self._decided = self._undecided = False

    def pytest_report_header(self) -> str:
        """Show targets, number of checks and seed."""
        checks = counted(len(self.checks), "checks")
        return f"dataguard: {one_line(', '.join(self.settings.targets))} ({checks}, seed {self.settings.seed})"

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Add our tests to those that the session collected; not called in the controller of xdist."""
        report = yield
        if isinstance(collector, pytest.Session) and report.passed and report.result is not None:
            try:
                contracts = self._contracts(self._named())
            except UsageError as error:
                words = getattr(self.config, "workeroutput", {})[USAGE_ERROR] = printable(str(error))
                raise pytest.UsageError(words) from error
            path = self.config.rootpath / FOLDER
            report.result.append(Contracts.from_parent(collector, path=path, contracts=contracts, plugin=self))
        return report

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tell each observing process which tests will run; a worker of xdist is handed its tests one at a time."""
        tests = {(item.named, item.check.code): item.check for item in session.items if isinstance(item, Contract)}
        self._tested |= tests.keys()
        if not hasattr(self.config, "workerinput"):
            running = {(named, check.code): check for named, _ in tests for check in CATALOGUE if check.code in RUNNING}
            chosen: dict[Session, list[tuple[Check, str]]] = {}
            for (named, _), check in (tests | running).items():
                chosen.setdefault(named.session, []).append((check, named.loader))
            for observing, wanted in chosen.items():
                observing.plan(wanted)

    def unseen_failure(self, named: Named) -> Result | None:
        """Why a loader does not run, if no test of this session fails for it; reported once."""
        for check in CATALOGUE:
            if check.code in RUNNING and (named, check.code) not in self._tested:
                self._tested.add((named, check.code))
                result = named.session.judge(check, named.loader)
                if result.status is Status.FAILED:
                    return result
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note whether any of our tests reached a verdict; in the controller of xdist too."""
        if report.nodeid.startswith(f"{FOLDER}::"):
            decided = report.failed or (report.when == "call" and (report.passed or hasattr(report, "wasxfail")))
            undecided = _is_undecided(report)
            if decided or undecided:
                loader = report.nodeid.partition("[")[2]
                self._applied.append((loader, undecided and _reason(report).startswith(INCONCLUSIVE + PREVENTED)))
            self._decided |= decided
            self._undecided |= undecided

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Raise a worker's usage error again in xdist's controller, because the worker's output is lost."""
        message = getattr(node, "workeroutput", {}).get(USAGE_ERROR)
        if message:
            raise pytest.UsageError(message)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report a skip at the target instead of the line of dataguard that raised it."""
        report = yield
        if isinstance(item, Contract) and isinstance(report.longrepr, tuple):
            report.longrepr = (*_place_of(item.named.target), report.longrepr[2])  # type: ignore[assignment] # see there
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the notes of passed checks, and count the inconclusive ones."""
        reports = [report for kind in ("passed", "skipped") for report in terminalreporter.stats.get(kind, ())]
        contracts = [report for report in reports if report.nodeid.startswith(f"{FOLDER}::")]
        notes = [(report, text) for report in contracts for name, text in report.user_properties if name == NOTE]
        undecided = [report for report in contracts if _is_undecided(report)]
        if notes or undecided:
            terminalreporter.section("dataguard")
        for report, text in notes:
            terminalreporter.line(f"{report.nodeid} - {text}")
        if undecided:
            fails = f"{self._void}: the run fails" if self._void else "which is not a pass"
            terminalreporter.line(f"{len(undecided)} inconclusive, {fails} (-rs shows the reasons)")

    @property
    def _void(self) -> str:
        """Why the run says too little to pass, if it does."""
        if self._undecided and not self._decided:
            return "no check reached a verdict"
        return "most checks were prevented" if mostly_prevented(self._applied) else ""

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run without a verdict; stop every process before an xdist worker is done, and may be killed."""
        if self._void and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self.pytest_unconfigure()

    def pytest_unconfigure(self) -> None:
        """Stop every process that was started, however the session ended."""
        self._sessions.close()

    def _named(self) -> list[Named]:
        require_findable(self.settings.targets, self.settings.import_path)
        sessions = {target: self._sessions.of(target, self.settings) for target in self.settings.targets}
        built = [(target, loader) for target, session in sessions.items() for loader in session.loaders(contain=True)]
        require_known(self.settings, {loader for _, loader in built})
        # The last label is always unique, because no target is listed twice.
        labels = [(loader, f"{sessions[target].name}.{loader}", f"{target}.{loader}") for target, loader in built]
        shared = Counter(label for choices in labels for label in choices)
        return [
            Named(sessions[target], target, loader, one_line(next(label for label in choices if shared[label] == 1)))
            for (target, loader), choices in zip(built, labels, strict=True)
        ]

    def _contracts(self, loaders: list[Named]) -> list[tuple[Check, Named]]:
        """Every check on every loader, or only those with their ids on the command line."""
        every = {f"{check.id}[{named.label}]": (check, named) for named in loaders for check in self.checks}
        for word in self.only:
            if not any(_selects(word, name) for name in every):
                raise UsageError(f"not found: {FOLDER}::{word} (--collect-only -q lists the ids)")
        return [pair for name, pair in every.items() if not self.only or any(_selects(w, name) for w in self.only)]


class Contracts(pytest.Directory):
    """The collector of our tests. Not a folder on disk; its path only serves for ids and headlines."""

    def __init__(self, *, contracts: list[tuple[Check, Named]], plugin: LoaderContracts, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.contracts = contracts
        self.plugin = plugin

    def collect(self) -> Iterator[Contract]:
        """Yield one test for each check and loader, loader by loader."""
        for check, named in self.contracts:
            name = f"{check.id}[{named.label}]"
            # Explicit, because the id that pytest 9.2 would derive is not the one that --lf reads back.
            nodeid = f"{self.nodeid}::{name}"
            yield Contract.from_parent(self, name=name, nodeid=nodeid, check=check, named=named, plugin=self.plugin)


class Contract(pytest.Item):
    """One test: one check on one loader."""

    result: Result

    def __init__(self, *, check: Check, named: Named, plugin: LoaderContracts, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.check = check
        self.named = named
        self.plugin = plugin
        self.extra_keyword_matches.update((check.code, check.name, named.label))
        self.add_marker(pytest.mark.dataguard)

    def setup(self) -> None:
        """Run the check here, so that a bug in dataguard is a set-up error and not a failure of the user's loader."""
        if self.config.getoption("setupplan", False):
            return
        try:
            self.result = self.named.session.judge(self.check, self.named.loader)
        except DataguardError as error:
            pytest.fail(printable(str(error)), pytrace=False)
        for unit, count in self.result.exercised.items():
            self.user_properties.append((f"exercised {unit}", count))
        if self.result.status is Status.BROKEN:
            words = f"a bug in dataguard, not in the loader\n{self.result.reason}"
            pytest.fail(printable(words), pytrace=False)

    def runtest(self) -> None:
        """Turn the result of the check into an outcome of pytest."""
        status, reason = self.result.status, one_line(self.result.reason or "")
        if status is Status.INCONCLUSIVE and self.plugin.settings.fail_on_undecided:
            pytest.fail(INCONCLUSIVE + reason, pytrace=False)
        if status is Status.INCONCLUSIVE:
            pytest.skip(INCONCLUSIVE + reason)
        if status is Status.SKIPPED:
            failure = self.plugin.unseen_failure(self.named)
            if failure is not None:
                raise ContractBroken(failure)
            pytest.skip(reason)
        if self.result.stale or status is Status.EXPECTED:
            self.add_marker(pytest.mark.xfail(reason=reason, strict=False))
        elif status is Status.PASSED and reason:
            self.user_properties.append((NOTE, f"passed: {reason}"))
        tolerated = status is Status.FAILED and self.result.severity.rank > self.plugin.settings.fail_on.rank
        if tolerated:
            texts = [f"{self.result.severity.value}: {finding.message}" for finding in self.result.findings]
            self.user_properties.extend((NOTE, one_line(text)) for text in texts)
        elif status in (Status.FAILED, Status.EXPECTED):
            raise ContractBroken(self.result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str | TerminalRepr:
        """Show the finding instead of a traceback through dataguard."""
        if isinstance(excinfo.value, ContractBroken):
            return self._finding(excinfo.value.result)
        return super().repr_failure(excinfo, style)

    def _traceback_filter(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Traceback:
        """Start any other traceback, such as that of a pytest-timeout, in this file and not deep inside pytest."""
        return excinfo.traceback.cut(path=__file__)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The location of the test for headlines and junitxml."""
        return self.path, None, self.name

    def _finding(self, result: Result) -> TerminalRepr:
        """A failure in the form whose headline survives xdist; the short summary shows it."""
        text = render_result(result, DOCS[result.code], width=_width(self.config), colour=False)
        first, *others = result.findings
        at = first.at
        path, line = (at.file, at.line) if at and at.file and at.line else _place_of(self.named.target)
        message = one_line(first.message) + (f" (and {len(others)} more)" if others else "")
        headline = ReprFileLocation(path, line, message)  # type: ignore[arg-type] # see `_place_of`
        entries = [] if self.config.option.tbstyle == "line" else [ReprEntryNative(text.splitlines(keepends=True))]
        body = ReprTraceback(entries, extraline=None, style="native")
        return ExceptionChainRepr([(body, headline, None)])


def _place_of(target: str) -> tuple[str, str]:
    """The two parts of a target, where pytest writes a file and its line with a colon between them."""
    module, _, attribute = one_line(target).rpartition(":")
    return module, attribute


def _selects(word: str, name: str) -> bool:
    return word in (name, name.partition("[")[0])


def _is_undecided(report: pytest.TestReport) -> bool:
    return _reason(report).startswith(INCONCLUSIVE)


def _reason(report: pytest.TestReport) -> str:
    """Why a test was skipped, if it was."""
    return report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""


def _width(config: pytest.Config) -> int:
    reporter = config.pluginmanager.get_plugin("terminalreporter")  # A worker of xdist has none.
    return config.get_terminal_writer().fullwidth if reporter else 100
