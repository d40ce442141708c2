"""What a terminal shows during a scan: how far it is, findings as they are made, samples read and unreadable ones."""

from __future__ import annotations

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TimeRemainingColumn
from rich.text import Text

from dataguard.core.model import Status
from dataguard.process.progress import CheckProgress, ReadingProgress, Waiting
from dataguard.render.escapes import one_line


class Rate(ProgressColumn):
    """Samples per second."""

    def render(self, task: Task) -> Text:
        """The rate over the last half minute."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.{0 if speed >= 10 else 1}f} samples/s")


class Terminal:
    """The progress lines at the bottom of a terminal; a context manager."""

    def __init__(self) -> None:
        self._done: dict[Status, int] = {}
        self._line = Text()
        # No refresh thread: the engine forks, and a fork must not copy a thread's locks.
        columns = (BarColumn(20), MofNCompleteColumn(), Rate(), TimeRemainingColumn(compact=True), "left")
        self._bar = Progress(*columns, auto_refresh=False)
        self._task: tuple[str, TaskID] | None = None
        self._live = Live(
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Terminal:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def listen(self, update: CheckProgress | ReadingProgress | Waiting) -> None:
        """Show what has happened; see `dataguard.process.progress.Listener`."""
        if isinstance(update, ReadingProgress):
            self._read(update)
        elif isinstance(update, CheckProgress):
            self._checked(update)
        else:
            self._line = _line(f"{update.what}  {update.seconds:.0f} s")
        self._live.update(Group(self._line, self._bar) if self._task else self._line, refresh=True)

    def show(self, what: str) -> None:
        """Show what is being done."""
        self._live.update(_line(what), refresh=True)

    def _checked(self, progress: CheckProgress) -> None:
        result = progress.result
        if result is not None:
            self._done[result.status] = self._done.get(result.status, 0) + 1
            self._end()
            for finding in result.findings if result.status is Status.FAILED else ():
                mark = f"{result.severity.value}: {result.code}{f' on {result.loader}' if result.loader else ''}"
                self._live.console.print(Text(one_line(f"{mark}: {finding.message}")), soft_wrap=True)
        done = f"check {min(progress.done + 1, progress.total)} of {progress.total}" if progress.total else ""
        now = (
            f"building {progress.building}" if progress.building else " on ".join(filter(None, progress.running or ()))
        )
        counts = ", ".join(f"{self._done[status]} {status.value}" for status in Status if status in self._done)
        time = f"{progress.seconds:.0f} s" if progress.total else ""
        time += f", at most {progress.left:.0f} s more" if progress.left is not None else ""
        self._line = _line("  ".join(filter(None, (done, time, now))))  # a narrow terminal cuts off the end
        self._line.append(f"  {counts}", "dim")

    def _read(self, progress: ReadingProgress) -> None:
        for unreadable in progress.unreadable:
            self._live.console.print(Text(one_line(f"unreadable: {progress.loader}: {unreadable}")), soft_wrap=True)
        if self._task is None or self._task[0] != progress.loader:
            self._end()
            self._task = progress.loader, self._bar.add_task("", total=progress.total)
        self._bar.update(self._task[1], completed=progress.read)

    def _end(self) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task[1])
            self._task = None


def _line(words: str) -> Text:
    """One line, cut off where the terminal ends."""
    return Text(one_line(words), no_wrap=True, overflow="ellipsis")
