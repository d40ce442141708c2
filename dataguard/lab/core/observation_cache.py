"""What was observed so far, and the time that is left: observations are made once, each in a process of its own."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dataguard.incident import LoaderFailed
from dataguard.lab.process import isolation
from dataguard.model import NotApplicable, Undecided
from dataguard.settings.settings import Settings

T = TypeVar("T")


class Memory:
    """Observations of one loader by their keys; `left` is what is left of the budget, in seconds."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.left = settings.budget
        self._folder = folder
        self._made: dict[object, object] = {}

    def afford(self, seconds: float) -> None:
        """Raise Undecided when reading samples for so long takes more than a third of the time that is left."""
        if seconds > max(self.left, 0) / 3:
            left = f"{max(self.left, 0):.0f} s of the budget are left"
            raise Undecided(f"reading samples again and again takes {seconds:.2g} s, and {left}: raise --budget")

    def observe(
        self,
        key: object,
        run: Callable[[Path], Any],
        read: Callable[[Path, Any], T] | None = None,
        folder: Path | None = None,
        bulletin: Callable[[Path], Callable[[], None]] | None = None,
    ) -> T:
        """Make an observation, or recall it: `run` in a process of its own, then `read` what it left in its folder.

        The folder is a new one where none is given. `bulletin` makes, for that folder, what is called meanwhile.
        """
        if key not in self._made:
            folder = folder or Path(tempfile.mkdtemp(dir=self._folder))
            self._made[key] = self._make(run, read, folder, bulletin(folder) if bulletin else lambda: None)
        remembered: Any = self._made[key]
        if isinstance(remembered, Exception):
            raise remembered
        result: T = remembered
        return result

    def observe_all(
        self,
        key: object,
        run: Callable[[Path], Any],
        read: Callable[[Path, Any], T],
        folder: Path | None = None,
        bulletin: Callable[[Path], Callable[[], None]] | None = None,
    ) -> T:
        """Like `observe`, for what may take as long as it goes on: it has no share in the budget."""
        left, self.left = self.left, math.inf
        try:
            return self.observe(key, run, read, folder, bulletin)
        finally:
            self.left = left

    def apart(
        self, key: object, run: Callable[[Path], Any], read: Callable[[Path, Any], T], *, whole: bool = False
    ) -> T:
        """Make an observation under settings that are not the loader's own: that the loader fails decides nothing."""
        try:
            return (self.observe_all if whole else self.observe)(key, run, read)
        except LoaderFailed as failure:
            reason = f"it fails under the settings of this observation: {failure.incident.headline}"
            raise Undecided(reason) from failure

    def _make(
        self,
        run: Callable[[Path], Any],
        read: Callable[[Path, Any], Any] | None,
        folder: Path,
        meanwhile: Callable[[], None],
    ) -> Any:
        started = time.monotonic()
        try:
            answer, cut = self._run(run, folder, meanwhile)
            made = read(folder, answer) if read else answer
            if cut and (read is None or made is None):
                raise Undecided(f"the budget of {self.settings.budget:g} s ran out") from cut
            return made
        except (LoaderFailed, NotApplicable, Undecided) as outcome:
            return outcome
        finally:
            self.left -= time.monotonic() - started

    def _run(
        self, run: Callable[[Path], Any], folder: Path, meanwhile: Callable[[], None]
    ) -> tuple[Any, isolation.OutOfTime | None]:
        """What it answers, and what cut it short, if anything did."""
        allowed, timeout = max(self.left, 1.0), self.settings.timeout
        try:
            return isolation.isolated(
                lambda: run(folder), folder, timeout=timeout, allowed=allowed, meanwhile=meanwhile
            ), None
        except isolation.OutOfTime as cut:
            return None, cut
