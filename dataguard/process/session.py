"""The reporting side of a scan: starts the observing process, queries it, and stops it whatever happens.

No user code runs here and nothing heavy is imported: this process survives a loader that kills its whole process
tree. The reaper between the two processes stops the tree even if this process is killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

from dataguard import baseline
from dataguard.fingerprint import Fingerprint
from dataguard.in_memory_targets import is_held, shown
from dataguard.model import Check, DataguardError, Result, UsageError
from dataguard.process.host_lost import BrokenStart, HostLost, Refused, before_building, of_bug, result_of
from dataguard.process.launcher import Here, Reaper, missing_threads, new_folder, start
from dataguard.process.messages import Questions, require_result
from dataguard.process.process_tree import how_it_ended, signal_name
from dataguard.process.progress import PROGRESS, ProgressListener
from dataguard.process.reaper import LOG, STACKS
from dataguard.sample_view import SampleViews, Wanted
from dataguard.settings.settings import Settings, expectation
from dataguard.settings.target_spelling import parsed
from dataguard.timings import BenchOptions, LoaderTimes

START_PATIENCE = 120.0
"""Seconds that importing torch may take."""
_UNWATCHED = "ended, as the process that watches it was killed"
"""How it ended if no status was reported."""
_PARTING = 20.0
"""Seconds that the reaper gets to stop everything."""


class Session:
    """A target in an observing process; a context manager.

    The process is started on first use and restarted when it is lost; `close` stops it with every process that it or
    the user's code started.
    """

    def __init__(self, spelling: str, settings: Settings, here: Here | None = None) -> None:
        self.spelling = spelling
        self.settings = settings
        self._here = here if is_held(spelling) else None
        self.environment: Mapping[str, Any] = {}
        self.notes: tuple[str, ...] = ()
        """How the loaders were built, for the reader of the report."""
        self.name = parsed(spelling).name
        self.on_progress: ProgressListener | None = None
        """Called with progress updates of the observing process."""
        self._known = baseline.read(settings.baseline)
        self._loaders: tuple[str, ...] | None = None
        self._building = False
        self._lost: HostLost | BrokenStart | None = None
        self._planned: dict[tuple[str, str], int] = {}
        self._made: dict[int, Result] = {}
        self._coming: Iterator[tuple[int, Result]] = iter(())
        self._reaper: Reaper | None = None
        self._pipe: Questions | None = None
        self._folder: Path | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def loaders(self, *, contain: bool = False) -> tuple[str, ...]:
        """The names of the target's loaders. Raises UsageError for an invalid target.

        With `contain`, a bug of dataguard is not raised: the checks of this target report it, and others are not lost.
        """
        if self._loaders is None:
            try:
                self._start()
            except UsageError:
                raise
            except DataguardError as error:
                if isinstance(error, HostLost) and self._building:
                    self._lost = error
                elif contain:
                    self._lost = BrokenStart(str(error))
                else:
                    raise
                self._loaders = (self.name,)  # each check meets it
        return self._loaders or ()

    @property
    def bug(self) -> BrokenStart | None:
        """The bug of dataguard for which the loaders are unknown, if any."""
        return self._lost if isinstance(self._lost, BrokenStart) else None

    def plan(self, wanted: Sequence[tuple[Check, str]]) -> None:
        """Announce what `judge` will be asked for, so that it runs side by side, beginning with the first request."""
        self._planned = {(check.code, loader): number for number, (check, loader) in enumerate(wanted)}
        self._made.clear()
        self._coming = self.judge_all(wanted)

    def judge_all(self, wanted: Sequence[tuple[Check, str]]) -> Iterator[tuple[int, Result]]:
        """Run checks on loaders, side by side; yields the number of each with its result as it is made.

        If the observing process is lost, those that are left are run one at a time, which shows who took it down.
        """
        left = dict(enumerate(wanted))
        with contextlib.suppress(DataguardError):
            for number, result in self._asked(wanted):
                yield number, self._without_known(result, *left.pop(number))
        if left:
            self.close()
        for number, (check, loader) in left.items():
            yield number, self._judge(check, loader)

    def judge(self, check: Check, loader: str) -> Result:
        """Run a check on one of the loaders, or wait for its result; never raises for what the user's code does."""
        number = self._planned.pop((check.code, loader), None)
        if number is None:
            return self._judge(check, loader)
        while number not in self._made:
            self._made.update([next(self._coming)])
        return self._made.pop(number)

    def _judge(self, check: Check, loader: str) -> Result:
        started = time.monotonic()
        try:
            ((_, result),) = self._asked([(check, loader)])
            return self._without_known(result, check, loader)
        except (HostLost, UsageError) as lost:
            result = result_of(check, loader, lost, building=self._lost is not None)
        except DataguardError as bug:
            result = of_bug(check, loader, bug)
        self.close()
        return replace(result, seconds=time.monotonic() - started, target=self.spelling)

    def _asked(self, wanted: Sequence[tuple[Check, str]]) -> Iterator[tuple[int, Result]]:
        """Results of the observing process. Raises DataguardError with a traceback for a bug in it."""
        if self._lost is not None:
            raise self._lost.with_traceback(None)  # which would grow with each check
        due = dict(enumerate(wanted))
        try:
            if self._reaper is None:
                self._start()
            self._send(("judge", [(check.code, check.severity, loader) for check, loader in wanted]))
            while due:
                kind, answer = self._answer(self._patience, "result", "usage", "broken")
                if kind != "result":
                    raise DataguardError(answer)
                number, result = answer
                require_result(result, due.pop(number, None))
                yield number, replace(result, target=self.spelling)
        except Refused as refused:
            self._lost = refused  # the same code would run again
            raise

    def _without_known(self, result: Result, check: Check, loader: str) -> Result:
        """The result with what the settings and the baseline expect."""
        return self._known.applied(baseline.expected(result, expectation(self.settings, check, loader)))

    def bench(self, loader: str, wanted: BenchOptions) -> LoaderTimes:
        """Measure one of the loaders. Raises UsageError, with the reason, when it does not run."""
        times: LoaderTimes = self._made_of("bench", loader, wanted, "measured")
        return times

    def fingerprint(self, loader: str, batches: int) -> Fingerprint:
        """The digests of so many batches of a loader. Raises UsageError, with the reason, when it does not run."""
        fingerprint: Fingerprint = self._made_of("fingerprint", loader, batches, "read")
        return fingerprint

    def show(self, loader: str, wanted: Wanted) -> SampleViews:
        """Samples of a loader. Raises UsageError, with the reason, when it cannot be read."""
        views: SampleViews = self._made_of("show", loader, wanted, "shown")
        return views

    def _made_of(self, question: str, loader: str, wanted: Any, done: str) -> Any:
        try:
            if self._reaper is None:
                self._start()
            self._send((question, (wanted, loader)))
            kind, answer = self._answer(self._patience, question, "failed", "usage", "broken")
        except HostLost as lost:
            kind, answer = "failed", str(lost)
        if kind == question:
            return answer
        self.close()
        if kind == "broken":
            raise DataguardError(answer)
        scan = f"`dataguard scan {quote(self.spelling)}` shows more"
        raise UsageError(f"{self.spelling} [{loader}] cannot be {done}: {answer}; {scan}")

    def close(self) -> None:
        """Stop the observing process and its descendants; safe to call twice."""
        reaper, self._reaper = self._reaper, None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if reaper is not None:
            reaper.dismiss(_PARTING)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def _patience(self) -> float | None:
        """Seconds to wait for one check, far beyond the deadlines of its observations, as a last resort.

        None for a scan of all samples, which takes as long as there are samples.
        """
        if self.settings.all:
            return None
        return START_PATIENCE + 2 * self.settings.budget + 20 * self.settings.timeout

    def _start(self) -> None:
        """Start the observing process, and learn from it which loaders there are and where it runs."""
        self._folder = new_folder()
        here, there = socket.socketpair()
        self._pipe = Questions(here)
        question = (self.spelling, self.settings, self._folder, self.settings.import_path)
        try:
            with there:
                self._reaper = start(self._folder, there.fileno(), self._here)
            self._folder.mkdir(mode=0o700)
            self._send(question)
            kind, answer = self._early_answer(START_PATIENCE, "importing")
            if kind == "importing":
                kind, answer = self._early_answer(self._patience, "building")
            if kind == "building":
                self._building = True
                kind, answer = self._answer(self._patience, "ready", "usage", "broken")
            if kind == "usage":
                raise UsageError(answer.replace(self.spelling, shown(self.spelling)))
            if kind == "broken":
                raise DataguardError(answer)
        except BaseException:  # Ctrl-C too
            self.close()
            raise
        self._loaders, self.environment, notes = answer
        self.notes = (*notes, *(missing_threads() if is_held(self.spelling) else ()))

    def _send(self, question: tuple[Any, ...]) -> None:
        assert self._pipe is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # waiting for the answer reports the loss
            self._pipe.send(question)

    def _early_answer(self, patience: float | None, following: str) -> tuple[str, Any]:
        """Wait for an answer before the factory is called: that the user's module is imported, or that it was.

        Raises UsageError when an import takes the process down.
        """
        importing = following == "building"
        try:
            return self._answer(patience, following, "usage", "broken")
        except HostLost as lost:
            if lost.signal is None and not importing and not lost.unwatched:
                raise  # what its imports raise, it answers
            when = "during its import" if importing else "while it started"
            raise before_building(lost, self.spelling, when, self._read(STACKS)) from lost

    def _answer(self, patience: float | None, *kinds: str) -> tuple[str, Any]:
        """Wait for an answer of one of these kinds.

        Raises HostLost for any other, and, with the last line that the observing process printed, when it does not
        answer.
        """
        assert self._pipe is not None
        assert self._reaper is not None
        while True:
            ready = select.select([self._pipe.fileno(), self._reaper.stdout.fileno()], [], [], patience)[0]
            if not ready:
                raise HostLost(f"the observing process did not answer for {patience:.0f} s")
            answer = self._pipe.answer(*kinds) if self._pipe.fileno() in ready else None
            if answer is None:
                break
            if answer[0] != PROGRESS:
                return answer
            if self.on_progress is not None:
                self.on_progress(answer[1])
        end, signal = self._end()
        unwatched = end == _UNWATCHED
        raise HostLost(f"the observing process {end}{self._last_words()}", signal, unwatched=unwatched)

    def _end(self) -> tuple[str, str | None]:
        """How the observing process ended, as the reaper reports it, and the signal that killed it, if one did."""
        assert self._reaper is not None
        if not select.select([self._reaper.stdout], [], [], _PARTING)[0]:
            return "ended", None
        reported = os.read(self._reaper.stdout.fileno(), 16)
        if not reported:
            return _UNWATCHED, None
        status = int(reported)
        return how_it_ended(status), signal_name(-status) if status < 0 else None

    def _last_words(self) -> str:
        lines = self._read(LOG).splitlines()
        return f" ({lines[-1].strip()[:200]})" if lines else ""

    def _read(self, name: str) -> str:
        assert self._folder is not None
        path = self._folder / name
        return path.read_text(errors="replace") if path.exists() else ""
