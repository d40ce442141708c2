"""The reporting side of a scan: starts the observing process, queries it, and stops it whatever happens.

No user code runs here and nothing heavy is imported: this process survives a loader that kills its whole process
tree. The reaper between the two processes stops the tree even if this process is killed.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from shlex import quote
from typing import Any

from dataguard import baseline
from dataguard.core.figures import SampleViews, Wanted
from dataguard.core.model import Check, DataguardError, Result, UsageError
from dataguard.core.source_lines import with_source
from dataguard.machine.machine import oom_kills, read_allowance
from dataguard.machine.units import counted, size
from dataguard.measured import BenchOptions, Fingerprint, LoaderTimes
from dataguard.process.host_lost import (
    HostLost,
    Misused,
    Refused,
    StartFailure,
    before_building,
    of_bug,
    of_misuse,
    result_of,
)
from dataguard.process.launcher import Here, Reaper, missing_threads, new_folder, start
from dataguard.process.messages import Questions, require_result
from dataguard.process.process_tree import how_it_ended, signal_name, work_done
from dataguard.process.progress import PROGRESS, Listener, Waiting
from dataguard.process.reaper import LOG, STACKS
from dataguard.settings.settings import PATIENCE, Settings, expectation
from dataguard.settings.target_spelling import is_held, parsed, script_of, shown_target

_IMPORTED = time.time()
"""When dataguard was imported here, which is about when the code of objects in hand was."""
SLACK = 30.0
"""Seconds that the checks may take for each loader beyond its budget, to start and end processes and to judge."""
_LAST_RESORT = 600.0
"""Seconds to wait for the next message where no budget ends the wait: while all samples are read, and for a
measurement. Each observation has a shorter deadline of its own, which the observing process keeps."""
_UPDATE = 1.0
"""Seconds between two progress updates of a wait: about as often as a reader looks."""
_MOST_NAMED = 3
"""Names of what was left in /dev/shm that a note lists."""
_UNWATCHED = "ended, as the process that watches it was killed"
"""How the observing process ended if the reaper reported no status."""
_CLOSING = 20.0
"""Seconds that the reaper gets to stop everything. It waits `GRACE` seconds itself before it kills, so that more means
a process that cannot be killed, for instance because of a dead network mount."""


class Session:
    """A target in an observing process; a context manager.

    The process is started on first use and restarted for the next check when it is lost. It is not restarted after a
    loss that would happen again (`HostLost.final`): twice in a row for one reason, or because time is up. All checks
    together may take the budget and `SLACK` seconds for each loader, whatever the user's code does. `close` stops the
    process with every process that it or the user's code started.
    """

    def __init__(self, spelling: str, settings: Settings, here: Here | None = None) -> None:
        self.spelling = spelling
        self.settings = settings
        self._here = here if is_held(spelling) else None
        self._loaded_at = _IMPORTED if self._here else time.time()
        """Files that changed later may not be what runs: when the target is imported, or when dataguard was."""
        self.environment: Mapping[str, Any] = {}
        self.name = parsed(spelling).name
        self.on_progress: Listener | None = None
        """Called with progress updates of the observing process."""
        self._baseline = baseline.read(settings.baseline)
        self._loaders: tuple[str, ...] | None = None
        self._building = False
        self._notes: tuple[str, ...] = ()
        self._left_over: tuple[str, ...] = ()
        self._final_loss: HostLost | StartFailure | Misused | None = None
        """Why the observing process is not started again: every further check raises it."""
        self._last_loss: HostLost | None = None
        """The loss that the latest check met, to recognise a second one for the same reason."""
        self._seconds_left = math.inf
        """How long this process may still wait for answers, over all checks; known once the loaders are."""
        self._planned: dict[tuple[str, str], int] = {}
        """The number, by code and loader, of what `plan` announced and `judge` was not asked for yet."""
        self._results: dict[int, Result] = {}
        """Results of the plan, by number, that arrived before they were asked for."""
        self._arriving: Iterator[tuple[int, Result]] = iter(())
        self._oom_kills = 0
        """What the kernel had killed, as memory ran out, when the observing process was started."""
        self._reaper: Reaper | None = None
        self._pipe: Questions | None = None
        self._folder: Path | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def loaders(self, *, contain: bool = False, contain_misuse: bool = False) -> tuple[str, ...]:
        """The names of the target's loaders. Raises UsageError for an invalid target.

        With `contain`, a bug of dataguard is not raised: the checks of this target report it, and others are not lost.
        With `contain_misuse`, an invalid target is reported likewise.
        """
        if self._loaders is None:
            try:
                self._start()
            except UsageError as error:
                if not contain_misuse:
                    raise
                self._final_loss = Misused(error)
                self._loaders = (self.name,)
            except DataguardError as error:
                if isinstance(error, HostLost) and self._building:
                    error.final = True
                    self._final_loss = error
                elif contain:
                    self._final_loss = StartFailure(str(error))
                else:
                    raise
                self._loaders = (self.name,)  # its checks meet the loss, and report it
        return self._loaders or ()

    @property
    def notes(self) -> tuple[str, ...]:
        """How the loaders were built, and what had to be left once they ended, for the reader of the report."""
        return self._notes + tuple(_note_of(self._left_over))

    @property
    def bug(self) -> StartFailure | None:
        """The bug of dataguard for which the loaders are unknown, if any."""
        return self._final_loss if isinstance(self._final_loss, StartFailure) else None

    @property
    def misused(self) -> UsageError | None:
        """Why an invalid target has no loaders, if that is contained."""
        return self._final_loss.error if isinstance(self._final_loss, Misused) else None

    def plan(self, wanted: Sequence[tuple[Check, str]]) -> None:
        """Announce what `judge` will be asked for, so that it runs side by side, beginning with the first request."""
        self._planned = {(check.code, loader): number for number, (check, loader) in enumerate(wanted)}
        self._results.clear()
        self._arriving = self.judge_all(wanted)

    def judge_all(self, wanted: Sequence[tuple[Check, str]]) -> Iterator[tuple[int, Result]]:
        """Run checks on loaders, side by side; yields the number of each with its result as it is made.

        If the observing process is lost, those without a result are run one at a time, which shows who took it down.
        """
        remaining = dict(enumerate(wanted))
        try:
            for number, result in self._results_of(wanted):
                yield number, self._as_expected(result, *remaining.pop(number))
        except HostLost as lost:
            self._record_loss(lost)
        except DataguardError:  # a bug, which the checks meet again
            pass
        if remaining:
            self.close()
        for number, (check, loader) in remaining.items():
            yield number, self._judge(check, loader)

    @property
    def seconds_left(self) -> float | None:
        """How long the checks may still take; None if there is no limit."""
        return self._seconds_left if math.isfinite(self._seconds_left) else None

    def judge(self, check: Check, loader: str) -> Result:
        """Run a check on one of the loaders, or wait for its result; never raises for what the user's code does."""
        number = self._planned.pop((check.code, loader), None)
        if number is None:
            return self._judge(check, loader)
        while number not in self._results:
            self._results.update([next(self._arriving)])
        return self._results.pop(number)

    def _judge(self, check: Check, loader: str) -> Result:
        started = time.monotonic()
        try:
            ((_, result),) = self._results_of([(check, loader)])
            self._last_loss = None
            return self._as_expected(result, check, loader)
        except HostLost as lost:
            self._record_loss(lost)
            result = result_of(check, loader, lost, building=self._building)
        except UsageError as error:
            result = result_of(check, loader, error, building=self._building)
        except Misused as misuse:
            result = self._as_expected(of_misuse(check, loader, self.spelling, misuse), check, loader)
        except DataguardError as bug:
            result = of_bug(check, loader, bug)
        self.close()
        return replace(result, seconds=time.monotonic() - started, target=self.spelling)

    def _results_of(self, wanted: Sequence[tuple[Check, str]]) -> Iterator[tuple[int, Result]]:
        """Results of the observing process. Raises DataguardError with a traceback for a bug in it."""
        if self._final_loss is not None:
            raise self._final_loss.with_traceback(None)  # a traceback would grow with each check that raises it
        if self._reaper is None:
            self._start()
        self._send(("judge", [(check.code, check.severity, loader) for check, loader in wanted]))
        awaited = dict(enumerate(wanted))
        while awaited:
            kind, answer = self._answer_in_time(_LAST_RESORT if self.settings.all else self._seconds_left, "result")
            if kind != "result":
                raise DataguardError(answer)
            number, result = answer
            require_result(result, awaited.pop(number, None))
            yield number, replace(result, target=self.spelling)

    def _answer_in_time(self, patience: float, *kinds: str, what: str = "") -> tuple[str, Any]:
        """The next answer within `patience` seconds, or within what is left to all checks of this target, if less.

        Waiting takes from what is left, however it ends. Raises HostLost like `_next_answer`; it is final if the wait
        ended because no time is left to the checks.
        """
        started = time.monotonic()
        try:
            return self._next_answer(min(patience, self._seconds_left), *kinds, what=what)
        except HostLost as lost:
            raise self._time_is_up if lost.late and self._seconds_left <= patience else lost from None
        finally:
            self._seconds_left -= time.monotonic() - started

    @property
    def _time_limit(self) -> float:
        """Seconds that all checks may take together; there is no limit if all samples are read."""
        return math.inf if self.settings.all else len(self._loaders or ()) * (self.settings.budget + SLACK)

    @property
    def _time_is_up(self) -> HostLost:
        return HostLost(
            f"the checks took more than {self._time_limit:.0f} s together, {SLACK:.0f} s per loader beyond its budget",
            final=True,
        )

    def _record_loss(self, lost: HostLost) -> None:
        """Decide whether the process is started again: not after a final loss, or a second one for the same reason.

        A check that gets its result in between clears the first one: then it was a check that the process did not
        survive, and not the target.
        """
        if lost.final:
            self._final_loss = lost
        elif lost.has_reason_of(self._last_loss):
            reason = f"{lost}, as once before: it is not started again"
            self._final_loss = HostLost(reason, lost.signal, unwatched=lost.unwatched, final=True)
        self._last_loss = lost

    def _as_expected(self, result: Result, check: Check, loader: str) -> Result:
        """The result with what the settings and the baseline expect, and the source of its findings."""
        result = with_source(result, self._loaded_at)
        return self._baseline.applied(baseline.expected(result, expectation(self.settings, check, loader)))

    def bench(self, loader: str, wanted: BenchOptions) -> LoaderTimes:
        """Measure one of the loaders. Raises UsageError, with the reason, when it does not run."""
        times: LoaderTimes = self._measured("bench", loader, wanted, "measured")
        return times

    def fingerprint(self, loader: str, batches: int) -> Fingerprint:
        """The digests of so many batches of a loader. Raises UsageError, with the reason, when it does not run."""
        fingerprint: Fingerprint = self._measured("fingerprint", loader, batches, "read")
        return fingerprint

    def show(self, loader: str, wanted: Wanted) -> SampleViews:
        """Samples of a loader. Raises UsageError, with the reason, when it cannot be read."""
        views: SampleViews = self._measured("show", loader, wanted, "shown")
        return views

    def _measured(self, question: str, loader: str, wanted: Any, done: str) -> Any:
        try:
            if self._reaper is None:
                self._start()
            self._send((question, (wanted, loader)))
            kind, answer = self._next_answer(_LAST_RESORT, question, "failed")
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
            reaper.dismiss(_CLOSING)
            self._left_over += reaper.left
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _start(self) -> None:
        """Start the observing process, and learn from it which loaders there are and where it runs."""
        if self._seconds_left <= 0:
            raise self._time_is_up
        imports = self.settings.import_timeout
        self._folder = new_folder()
        self._oom_kills = oom_kills()
        here, there = socket.socketpair()
        self._pipe = Questions(here)
        question = (self.spelling, self.settings, self._folder, self.settings.import_path)
        try:
            with there:
                self._reaper = start(self._folder, there.fileno(), imports, self._here)
            self._folder.mkdir(mode=0o700)
            self._send(question)
            kind, answer = self._answer_before_building(imports, "importing torch", "importing")
            if kind == "importing":  # the process itself ends an import that takes too long, and says where it was
                kind, answer = self._answer_before_building(
                    imports + SLACK, f"importing {shown_target(self.spelling)}", "building"
                )
            if kind == "building":
                self._building = True
                build = PATIENCE * self.settings.build_timeout(script=bool(script_of(self.spelling))) + SLACK
                kind, answer = self._answer_in_time(build, "ready", what=f"building {shown_target(self.spelling)}")
            if kind == "usage":
                raise UsageError(answer.replace(self.spelling, shown_target(self.spelling)))
            if kind == "broken":
                raise DataguardError(answer)
        except BaseException:  # Ctrl-C too
            self.close()
            raise
        self._building = False
        self._loaders, self.environment, notes = answer
        self._seconds_left = min(self._seconds_left, self._time_limit)
        self._notes = (*notes, *(missing_threads() if is_held(self.spelling) else ()))

    def _send(self, question: tuple[Any, ...]) -> None:
        assert self._pipe is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # waiting for the answer reports the loss
            self._pipe.send(question)

    def _answer_before_building(self, patience: float, what: str, following: str) -> tuple[str, Any]:
        """Wait for an answer before the factory is called: that the user's module is imported, or that it was.

        Raises UsageError when an import takes the process down, or too long.
        """
        importing = following == "building"
        try:
            return self._answer_in_time(patience, following, what=what)
        except HostLost as lost:
            if lost.late:
                limit = f"{self.settings.import_timeout:g} s"
                raise UsageError(f"{self.spelling}: {what} took more than {limit}: raise import_timeout") from lost
            if not isinstance(lost, Refused) and (lost.final or not (importing or lost.signal or lost.unwatched)):
                raise  # what its imports raise, it answers
            when = "during its import" if importing else "while it started"
            raise before_building(lost, self.spelling, when, self._read(STACKS)) from lost

    def _next_answer(self, patience: float, *kinds: str, what: str = "") -> tuple[str, Any]:
        """Wait for an answer of one of these kinds, or for what is wrong with the target or with dataguard.

        `what` the observing process is busy with is shown while it lasts. While all samples are read, patience begins
        again with each sign of life: a message, or CPU time used. Raises HostLost for any other answer, and, with the
        last line that was printed, when there is none.
        """
        assert self._pipe is not None
        assert self._reaper is not None
        listen = self.on_progress or (lambda _: None)
        since, work = time.monotonic(), 0.0
        while True:
            waited = time.monotonic() - since
            ready = wait([self._pipe, self._reaper.stdout.fileno()], max(0.0, min(patience - waited, _UPDATE)))
            if not ready:
                if what:
                    listen(Waiting(what, waited))
                if waited < patience:
                    continue
                before, work = work, work_done(self._reaper.pid) if self.settings.all else 0.0
                if work > before + _UPDATE:  # more than a second of CPU time since patience last ended
                    since = time.monotonic()
                    continue
                raise HostLost(f"the observing process did not answer for {patience:.0f} s", late=True)
            answer = self._pipe.answer(*kinds, "usage", "broken") if self._pipe in ready else None
            if answer is None:  # it closed its end, or the reaper reports that it has ended
                break
            if answer[0] != PROGRESS:
                return answer
            listen(answer[1])
            since = time.monotonic() if self.settings.all else since
        end, signal = self._end()
        if signal == "SIGKILL" and oom_kills() > self._oom_kills:  # no fault of the loader: a scan needs more than it
            limit = read_allowance().memory
            of = f" of {size(limit)}" if limit else ""
            raise HostLost(f"the kernel ended the observing process, because the memory{of} ran out")
        raise HostLost(f"the observing process {end}{self._last_line()}", signal, unwatched=end == _UNWATCHED)

    def _end(self) -> tuple[str, str | None]:
        """How the observing process ended, as the reaper reports it, and the signal that killed it, if one did."""
        assert self._reaper is not None
        reported = self._reaper.status(_CLOSING)
        if not reported:
            return "ended" if reported is None else _UNWATCHED, None
        status = int(reported)  # as of subprocess: a signal is negative
        return how_it_ended(status), signal_name(-status) if status < 0 else None

    def _last_line(self) -> str:
        lines = self._read(LOG).splitlines()
        return f" ({lines[-1].strip()[:200]})" if lines else ""

    def _read(self, name: str) -> str:
        assert self._folder is not None
        path = self._folder / name
        return path.read_text(errors="replace") if path.exists() else ""


def _note_of(left: Sequence[str]) -> Iterator[str]:
    """A note about shared tensors that were left, if there are any."""
    if left:
        others = f" and {counted(len(left) - _MOST_NAMED, 'others')}" if len(left) > _MOST_NAMED else ""
        yield (
            f"left in /dev/shm: {', '.join(left[:_MOST_NAMED])}{others}, named after processes of this scan; another "
            "container that shares it may have made them, so remove them only if no training runs there"
        )
