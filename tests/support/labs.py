"""Labs in the process of a test, without a session."""

from __future__ import annotations

from pathlib import Path

from dataguard.lab.lab import Lab
from dataguard.lab.reading.checkpoint import survey
from dataguard.machine.machine import Machine
from dataguard.settings.settings import Settings
from dataguard.targets.loading import load


def lab_of(spelling: str, folder: Path, settings: Settings) -> Lab:
    """A lab for the only loader of a target."""
    target = load(spelling)
    ((_, facts),) = survey(target, settings, folder, alone=False).facts.items()
    return Lab(target, facts, settings, Machine.read(), folder)
