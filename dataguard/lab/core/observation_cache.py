"""The observations of a loader and the time left: each is made once, in a separate process."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, overload

from dataguard.core.incident import LoaderFailed
from dataguard.core.model import NotApplicable, Undecided, prevented
from dataguard.lab.process import isolation
from dataguard.lab.process.side_by_side import Budget, Charge, ConcurrencySlots, TookTooLong, charged, wait_until
from dataguard.settings.settings import Settings

T = TypeVar("T")

LITTLE_SHARE = 0.05
"""The share of the budget up to which an observation reads as many samples as it likes: there are dozens of them."""
SHORT_SECONDS = 1.0
"""Seconds of reads, and of computing, that are never too many, whatever is left of the budget."""


def returned(_: Path, answer: Any) -> Any:
    """Read an observation that is what its process returned."""
    return answer


_recalling: ContextVar[bool] = ContextVar("recalling", default=False)


@contextmanager
def recalling(only: bool = True) -> Iterator[None]:
    """Inside the context, return observations that were made and make no others, whatever is left of the budget.

    `recalling(only=False)` lifts that again.
    """
    before = _recalling.set(only)
    try:
        yield
    finally:
        _recalling.reset(before)


class ObservationCache:
    """Observations of one loader by key, made in the `turns` that all loaders of a target share."""

    def __init__(self, settings: Settings, folder: Path, turns: ConcurrencySlots | None = None) -> None:
        self.settings = settings
        self._folder = folder
        self._turns = turns or ConcurrencySlots()
        self._made: dict[object, object] = {}
        self._afforded: set[object] = set()
        self._refused: dict[object, float] = {}
        self._budget = Budget(settings.budget, self._turns.time)

    @property
    def ran_out(self) -> bool:
        """Whether an observation was refused or cut short because too little of the budget was left."""
        return bool(self._refused) or any(isinstance(made, _CutShort) for made in self._made.values())

    def share(self, others: Sequence[ObservationCache]) -> Budget:
        """Put what is left of this budget and of those of other loaders into one, from which all take from now on.

        What was cut short can be observed again.
        """
        pool = Budget(sum(max(cache.left, 0) for cache in (self, *others)), self._turns.time)
        for cache in (self, *others):
            cache._budget = pool
            cache._refused.clear()
            cache._made = {key: made for key, made in cache._made.items() if not isinstance(made, _CutShort)}
        return pool

    def beside(self, budget: float) -> ObservationCache:
        """A cache with a budget of its own, whose observations take turns with those of this one."""
        return ObservationCache(replace(self.settings, budget=budget), self._folder, self._turns)

    @property
    def left(self) -> float:
        """The rest of the budget in seconds; it lasts as long as any observation of the loader runs."""
        return self._budget.left

    def afford(self, key: object, seconds: float) -> None:
        """Raise Undecided if the seconds of reads that an observation takes are more than what is left of the budget.

        This waits until the observation could run, since more urgent ones use the budget first. What was afforded once
        under a `key` always is: it was observed. The budget that the message recommends suffices for all that was
        refused so far.
        """
        if _recalling.get():
            return
        wait_until(lambda: key in self._afforded or self._turns.is_free())
        if key in self._afforded:
            return
        if seconds <= max(self.left, SHORT_SECONDS):
            self._afforded.add(key)
            return
        self._refused[key] = seconds
        budget, asked = self.settings.budget, sum(self._refused.values())
        # A tenth more, as reads do not take the same time twice, and a round number.
        needed = math.ceil(1.1 * (budget - min(self.left, 0) + asked) / 10) * 10
        raise Undecided(
            f"the budget of {budget:g} s ran out before this check (it needs about {seconds:.2g} s): "
            f"use --budget {needed}"
        )

    def takes_little(self, seconds: float) -> bool:
        """Whether an observation of so many seconds leaves nearly all of the budget to others."""
        return seconds <= LITTLE_SHARE * self.settings.budget

    def allowance(self) -> Charge:
        """What one computation may take, which is charged to the budget: what is left, and at least `SHORT_SECONDS`."""
        used = 0.0

        def charge(seconds: float) -> bool:
            nonlocal used
            used += seconds
            self._budget.spend(seconds)
            return used > SHORT_SECONDS and self.left <= 0 and not self.settings.all

        return charge

    def too_long(self, purpose: str) -> Undecided:
        """Why a computation ended early, and which budget would do."""
        budget = self.settings.budget
        return Undecided(f"the budget of {budget:g} s is too short {purpose}: use --budget {2 * budget:g}")

    @overload
    def observe(self, key: object, run: Callable[[Path], T], *, unbounded: bool = ..., exclusive: bool = ...) -> T: ...

    @overload
    def observe(
        self,
        key: object,
        run: Callable[[Path], Any],
        read: Callable[[Path, Any], T],
        *,
        unbounded: bool = ...,
        exclusive: bool = ...,
        watch: Callable[[Path], Callable[[], None]] | None = ...,
    ) -> T: ...

    def observe(
        self,
        key: object,
        run: Callable[[Path], Any],
        read: Callable[[Path, Any], Any] = returned,
        *,
        unbounded: bool = False,
        exclusive: bool = False,
        watch: Callable[[Path], Callable[[], None]] | None = None,
    ) -> Any:
        """Make an observation, or return the cached one; failures are cached too.

        `run` is called with a scratch folder in a separate process. `read` is called in this process with that folder
        and the result of `run` (None if the budget cut it short), and returns the observation, which otherwise is that
        result. An `unbounded` observation continues as long as it makes progress, whatever the budget; one that takes
        times or measures what processes share is made `exclusive`, others run side by side. `watch` returns, for that
        folder, a function that is called meanwhile. Raises Undecided if the budget ran out before there was anything to
        read.
        """
        if _recalling.get() and self._made.get(key, _UNFINISHED) is _UNFINISHED:
            raise Undecided("this was not observed")
        with charged(None):  # a judgement that ended here would leave turns taken, and forks running
            wait_until(lambda: self._made.get(key) is not _UNFINISHED)
            if key not in self._made:
                self._made[key] = _UNFINISHED
                try:
                    self._made[key] = self._observed(_Request(run, read, unbounded, watch), exclusive=exclusive)
                except BaseException:  # a bug of dataguard: the next caller gets it as well
                    del self._made[key]
                    raise
        made = self._made[key]
        if isinstance(made, Exception):
            raise made
        return made

    def _observed(self, request: _Request, *, exclusive: bool) -> Any:
        """The observation, or the exception that prevented it."""
        outcome, accompanied = self._make(request, exclusive=exclusive)
        if isinstance(outcome, LoaderFailed) and accompanied:
            outcome, _ = self._make(request, exclusive=True)  # what ran beside it may have made it fail
        return outcome

    def _make(self, request: _Request, *, exclusive: bool) -> tuple[Any, bool]:
        """The outcome of one attempt, and whether another observation ran meanwhile."""
        try:
            self._folder.mkdir(exist_ok=True)  # user code may remove all temporary files
            folder = Path(tempfile.mkdtemp(dir=self._folder))
        except OSError as error:
            return prevented(f"no folder can be made in {self._folder.parent}: {error.strerror}"), False
        clock = nullcontext() if request.unbounded else self._budget
        with self._turns.taken(exclusive=exclusive) as turn, clock:
            return self._attempted(request, folder), turn.accompanied

    def _attempted(self, request: _Request, folder: Path) -> Any:
        cut = None
        try:
            answer, cut = self._run(request, folder)
            with charged(None if request.unbounded else self.allowance()):
                made = request.read(folder, answer)
            if cut and made is None:
                raise Undecided(f"the budget of {self.settings.budget:g} s ran out")
            return made
        except Undecided as outcome:
            return _CutShort(f"{outcome}: use --budget {2 * self.settings.budget:g}") if cut else outcome
        except (LoaderFailed, NotApplicable) as outcome:
            return outcome
        except TookTooLong:
            return self.too_long("to read what was observed")

    def _run(self, request: _Request, folder: Path) -> tuple[Any, isolation.OutOfTime | None]:
        """The result, and the exception that cut it short, if any."""
        allowed = math.inf if request.unbounded else max(self._budget.until_spent, 1.0)
        try:
            return isolation.isolated(
                lambda: request.run(folder),
                folder,
                timeout=self.settings.timeout,
                allowed=allowed,
                meanwhile=request.watch(folder) if request.watch else lambda: None,
            ), None
        except isolation.OutOfTime as cut:
            return None, cut


_UNFINISHED = object()


class _CutShort(Undecided):
    """The budget ended an observation before there was anything to read."""


@dataclass(frozen=True, slots=True)
class _Request:
    """The arguments of `ObservationCache.observe`."""

    run: Callable[[Path], Any]
    read: Callable[[Path, Any], Any]
    unbounded: bool
    watch: Callable[[Path], Callable[[], None]] | None
