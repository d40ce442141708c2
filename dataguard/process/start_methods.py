"""Run a target under the requested start method: its own, or with `all` also every other one."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from dataguard.core.model import Check, Result, Status
from dataguard.process.launcher import Here, shared_zygote
from dataguard.process.session import Session
from dataguard.settings.parsers import EVERY_METHOD
from dataguard.settings.settings import Settings

_DEFAULT_OF = {
    "spawn": "spawn, the default on macOS and Windows",
    "forkserver": "forkserver, the default on Linux from Python 3.14 on",
    "fork": "fork",
}
_INDEPENDENT = "DG3"
"""Checks with codes below this one depend on the start method; the others examine samples and batches, which don't."""
_REPORTED = (Status.FAILED, Status.EXPECTED)


class EveryStart(Session):
    """A session that runs a check with the loader's own start method, and then with the other ones.

    A check that fails only with another start method is reported with the name of that method.
    """

    def __init__(self, spelling: str, settings: Settings, here: Here | None = None) -> None:
        super().__init__(spelling, replace(settings, start_method=None), here)
        sampled = replace(settings, all=False)
        methods = [method for method in _DEFAULT_OF if method in multiprocessing.get_all_start_methods()]
        self._others = {method: Session(spelling, replace(sampled, start_method=method), here) for method in methods}

    def plan(self, wanted: Sequence[tuple[Check, str]]) -> None:
        """Nothing runs ahead: which start methods a check needs depends on its result with the loader's own."""

    def judge_all(self, wanted: Sequence[tuple[Check, str]]) -> Iterator[tuple[int, Result]]:
        """Run checks on loaders, one at a time; yields the number of each with its result."""
        for number, (check, loader) in enumerate(wanted):
            yield number, self.judge(check, loader)

    def judge(self, check: Check, loader: str) -> Result:
        """Run a check on one of the loaders; never raises for what the user's code does."""
        result = super().judge(check, loader)
        # Under another method a warning may be an error.
        settled = result.status in _REPORTED and result.severity is check.severity
        if settled or check.code >= _INDEPENDENT:
            return result
        started_here = self.environment.get("start_method")
        for method, session in self._others.items():
            if method == started_here:
                continue
            other = session.judge(check, loader)
            if other.status in _REPORTED:
                return _under(method, other)
            if result.status is Status.SKIPPED and other.status is Status.PASSED:
                result = replace(other, reason=f"workers were started with {_DEFAULT_OF[method]}")
        return result

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of the session with the loader's own start method, and of the others."""
        others = (note for session in self._others.values() for note in session.notes)
        return tuple(dict.fromkeys((*super().notes, *others)))

    def close(self) -> None:
        """Stop every observing process; safe to call twice."""
        with ExitStack() as stack:
            for session in self._others.values():
                stack.callback(session.close)
            super().close()


def _under(method: str, result: Result) -> Result:
    """A failure with the name of the start method in its messages."""
    findings = (
        replace(finding, message=f"under {_DEFAULT_OF[method]}: {finding.message}") for finding in result.findings
    )
    return replace(result, findings=tuple(findings))


def examine(spelling: str, settings: Settings, here: Here | None = None) -> Session:
    """A session for a target with the start method, or methods, of its settings; `here` observes one in hand."""
    settings = settings.of_target(spelling)
    return (EveryStart if settings.start_method == EVERY_METHOD else Session)(spelling, settings, here)


class Sessions:
    """The sessions of one run, by target and settings. They share one import of torch, and are closed together.

    `here` observes targets in hand.
    """

    def __init__(self, here: Here | None = None) -> None:
        self._here = here
        self._open: dict[tuple[str, str], Session] = {}
        self._stack = ExitStack()

    def of(self, target: str, settings: Settings) -> Session:
        """The session of a target under these settings."""
        key = (target, repr(settings))
        if not self._open:
            self._stack.enter_context(shared_zygote())
        if key not in self._open:
            self._open[key] = self._stack.enter_context(examine(target, settings, self._here))
        return self._open[key]

    def close(self) -> None:
        """End every process that was started; safe to call twice."""
        self._open.clear()
        self._stack.close()
