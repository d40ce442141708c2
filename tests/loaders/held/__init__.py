"""Loaders whose datasets hold something open, or something set, and use it for every sample."""

from __future__ import annotations

import importlib
from typing import Any

from torch.utils.data import DataLoader

from tests.loaders.held.kinds import KINDS, Held

MODULES = ("files", "archives", "databases", "arrays", "media", "memory", "processes", "settings", "endings")


def known() -> dict[str, Any]:
    """Every kind by name."""
    for module in MODULES:
        importlib.import_module(f"tests.loaders.held.{module}")
    return KINDS


def make(kinds: str) -> dict[str, DataLoader]:
    """A loader for each of some kinds, whose names stand in one text."""
    return {name: loader(name) for name in kinds.split()}


def loader(name: str, workers: int | None = None) -> DataLoader:
    kind = known()[name]
    held = kind.make()
    dataset = held if isinstance(held, Held) else Held(*held)
    return DataLoader(dataset, batch_size=4, shuffle=True, num_workers=kind.workers if workers is None else workers)
