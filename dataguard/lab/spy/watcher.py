"""The spy in one process: its instruments, and how far the process has got."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from dataguard.incident import Incident
from dataguard.lab.core.instrument import HookLists, Process
from dataguard.lab.core.records import Failure
from dataguard.lab.process.exceptions import incident_of
from dataguard.lab.spy.plan import Plan
from dataguard.lab.spy.transferability import BatchSender, why_not_raised


class Watcher:
    """Watches one process: worker number `worker`, or the main process if that is None."""

    def __init__(self, plan: Plan, worker: int | None, epoch: int = 0, user_init: Any = None) -> None:
        self.plan = plan
        self.user_init = user_init
        self.process = Process(plan.folder, worker, epoch)
        self.hooks = HookLists(instrument.start(self.process) for instrument in plan.instruments)
        self.sender = BatchSender(worker) if worker is not None else None
        self.epoch = epoch - 1  # each fetcher begins an epoch
        self.fetches = 0
        self.failed = False

    def begin_epoch(self) -> None:
        """Start counting fetches from 0."""
        self.epoch, self.fetches = self.epoch + 1, 0

    def begin_fetch(self) -> int:
        """The number of the fetch that begins now; it begins an epoch if the plan limits their length."""
        if self.fetches == self.plan.length:
            self.begin_epoch()
        self.fetches += 1
        return self.fetches - 1

    def fail(self, incident: Incident) -> None:
        """Spool an incident."""
        self.failed = True
        self.process.spool.write(Failure(self.process.worker, self.epoch, incident))

    @contextlib.contextmanager
    def catching(self, stage: str, index: Any = None, batch: Sequence[Any] = ()) -> Iterator[None]:
        """Spool what the user's code raises (once), and let torch see it."""
        self.process.recorder.mark(self.process.worker, stage, index)
        try:
            yield
        except StopIteration:
            raise
        # Nothing is swallowed: SystemExit and KeyboardInterrupt end a worker, and are distinguished later.
        except BaseException as error:
            if not self.failed:
                incident = incident_of(error, stage, index, batch, self.process.worker)
                unsent = why_not_raised(error) if self.sender is not None and isinstance(error, Exception) else None
                if unsent is not None:
                    self.fail(replace(incident, stage="raise", message=f"{incident.headline} ({unsent})"))
                    raise RuntimeError(unsent) from error
                self.fail(incident)
            raise
