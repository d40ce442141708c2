"""The first look at a target: its loaders by name, and the settings of each."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataguard.lab import facts, isolation, passes
from dataguard.lab.facts import LoaderFacts
from dataguard.model import UsageError
from dataguard.settings import Settings
from dataguard.target import Target, load


def requested(settings: Settings) -> Mapping[str, Any]:
    """The overrides of `DataLoader.__init__` that the user's settings ask for."""
    wanted: dict[str, Any] = {}
    if settings.workers is not None:
        wanted["num_workers"] = settings.workers
    if settings.start_method is not None:
        wanted["multiprocessing_context"] = settings.start_method
    return wanted


def describe(target: Target, settings: Settings, folder: Path) -> tuple[dict[str, LoaderFacts], list[str]]:
    """Build a target's loaders in a process of its own, and read their settings, by loader name.

    Also names the modules that the factory imported, in their order, so that the next processes need not do so again.
    Raises UsageError when the target is none, and LoaderFailed when the user's code does not get through.
    """
    own = Path(tempfile.mkdtemp(dir=folder))

    def look() -> tuple[dict[str, LoaderFacts], list[str]]:
        before = set(sys.modules)
        if settings.key and not callable(load(settings.key).source):
            raise UsageError(f"contract.key: {settings.key} is no function that could be called with a sample")
        loaders = passes.gated_build_all(target, settings.seed, requested(settings))
        known = {name: facts.facts_of(name, loader, settings.roles, target.name) for name, loader in loaders.items()}
        return known, [module for module in sys.modules if module not in before]

    return isolation.isolated(look, own, timeout=settings.timeout, allowed=float("inf"))
