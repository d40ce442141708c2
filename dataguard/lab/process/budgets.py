"""The seconds that observations of each loader may take; loaders that are observed at the same time share them."""

from __future__ import annotations

from collections import Counter

from dataguard.process.originals import time


class SharedTime:
    """Time that is divided between the budgets that run down, as their observations share the cores."""

    def __init__(self) -> None:
        self._running: Counter[Budget] = Counter()
        self._since = 0.0

    @property
    def sharers(self) -> int:
        """How many budgets run down now."""
        return len(self._running)

    def settle(self) -> None:
        """Charge the time since this was called last."""
        now = time.monotonic()
        for budget in self._running:
            budget.remaining -= (now - self._since) / len(self._running)
        self._since = now

    def add(self, budget: Budget, count: int) -> None:
        """Count the observations that run under a budget."""
        self.settle()
        self._running[budget] += count
        if not self._running[budget]:
            del self._running[budget]

    def runs(self, budget: Budget) -> bool:
        """Whether a budget runs down now."""
        return budget in self._running


class Budget:
    """Seconds that run down while anything is inside this context manager."""

    def __init__(self, seconds: float, time: SharedTime) -> None:
        self.remaining = seconds
        self._time = time

    @property
    def left(self) -> float:
        """The seconds that are left; negative if it was overdrawn."""
        self._time.settle()
        return self.remaining

    @property
    def until_spent(self) -> float:
        """The seconds after which nothing is left, if as many loaders are observed as now."""
        return self.left * max(self._time.sharers, 1)

    def spend(self, seconds: float) -> None:
        """Take so many seconds off, unless time runs anyway."""
        if not self._time.runs(self):
            self.remaining -= seconds

    def __enter__(self) -> None:
        self._time.add(self, 1)

    def __exit__(self, *_: object) -> None:
        self._time.add(self, -1)
