"""The observations of a loader and the time left: each is made once, in a separate process."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, overload

from dataguard.incident import LoaderFailed
from dataguard.lab.process import isolation
from dataguard.model import NotApplicable, Undecided
from dataguard.settings.settings import Settings

T = TypeVar("T")

SHORT = 1.0
"""Seconds of reads that are never too many, whatever is left of the budget."""


def returned(_: Path, answer: Any) -> Any:
    """Read an observation that is what its process returned."""
    return answer


class ObservationCache:
    """Observations of one loader by key; `left` is the rest of the budget, in seconds."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.left = settings.budget
        self._folder = folder
        self._made: dict[object, object] = {}

    def afford(self, seconds: float) -> None:
        """Raise Undecided if so many seconds of reads are too many; see `affords`."""
        if not self.affords(seconds):
            raise self.shortage(seconds)

    def affords(self, seconds: float) -> bool:
        """Whether reading samples takes at most a third of the time that is left, or is short."""
        return seconds <= max(self.left / 3, SHORT)

    def shortage(self, seconds: float) -> Undecided:
        """Why so many seconds of reads are too many, and which budget would do."""
        left = f"{max(self.left, 0):.0f} s of the budget are left"
        needed = math.ceil((self.settings.budget - self.left + 3 * seconds) / 10) * 10
        return Undecided(f"{left}, too little for {seconds:.2g} s of repeated reads: use --budget {needed}")

    @overload
    def observe(self, key: object, run: Callable[[Path], T], *, unbounded: bool = ...) -> T: ...

    @overload
    def observe(
        self,
        key: object,
        run: Callable[[Path], Any],
        read: Callable[[Path, Any], T],
        *,
        unbounded: bool = ...,
        folder: Path | None = ...,
        watch: Callable[[Path], Callable[[], None]] | None = ...,
    ) -> T: ...

    def observe(
        self,
        key: object,
        run: Callable[[Path], Any],
        read: Callable[[Path, Any], Any] = returned,
        *,
        unbounded: bool = False,
        folder: Path | None = None,
        watch: Callable[[Path], Callable[[], None]] | None = None,
    ) -> Any:
        """Make an observation, or return the cached one; failures are cached too.

        `run` is called with a scratch folder in a separate process. `read` is called in this process with that folder
        and the result of `run` (None if the budget cut it short), and returns the observation, which otherwise is that
        result. An `unbounded` observation continues as long as it makes progress, whatever the budget. `folder`
        replaces a new one; `watch` returns, for that folder, a function that is called meanwhile. Raises Undecided if
        the budget ran out before there was anything to read.
        """
        if key not in self._made:
            folder = folder or Path(tempfile.mkdtemp(dir=self._folder))
            before = self.left
            self.left = math.inf if unbounded else before
            try:
                self._made[key] = self._make(run, read, folder, watch(folder) if watch else lambda: None)
            finally:
                self.left = before if unbounded else self.left
        made = self._made[key]
        if isinstance(made, Exception):
            raise made
        return made

    def _make(
        self,
        run: Callable[[Path], Any],
        read: Callable[[Path, Any], Any],
        folder: Path,
        meanwhile: Callable[[], None],
    ) -> Any:
        started, cut = time.monotonic(), None
        try:
            answer, cut = self._run(run, folder, meanwhile)
            made = read(folder, answer)
            if cut and made is None:
                raise Undecided(f"the budget of {self.settings.budget:g} s ran out")
            return made
        except Undecided as outcome:
            return Undecided(f"{outcome}: use --budget {2 * self.settings.budget:g}") if cut else outcome
        except (LoaderFailed, NotApplicable) as outcome:
            return outcome
        finally:
            self.left -= time.monotonic() - started

    def _run(
        self, run: Callable[[Path], Any], folder: Path, meanwhile: Callable[[], None]
    ) -> tuple[Any, isolation.OutOfTime | None]:
        """The result, and the exception that cut it short, if any."""
        allowed, timeout = max(self.left, 1.0), self.settings.timeout
        try:
            return isolation.isolated(
                lambda: run(folder), folder, timeout=timeout, allowed=allowed, meanwhile=meanwhile
            ), None
        except isolation.OutOfTime as cut:
            return None, cut
