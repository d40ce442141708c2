"""A handler for ignite: `GuardHandler().attach(trainer)` guards the loader of an engine."""

from __future__ import annotations

from typing import Any

from ignite.engine import Events

from dataguard.training.guard import guard


class GuardHandler:
    """Guards the loader that an engine iterates.

    Args:
        options: those of `dataguard.guard`, such as `name="train"`.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options

    def attach(self, engine: Any) -> None:
        """Guard the loader of this engine when it starts."""
        engine.add_event_handler(Events.STARTED, self._start)

    def _start(self, engine: Any) -> None:
        if not guard.watches(engine.state.dataloader):
            guard(engine.state.dataloader, **self.options)
