"""For accelerate: `prepare(accelerator, model, optimizer, loader)` prepares all of them, and guards the loaders."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from dataguard.training.guard import guard


def prepare(accelerator: Any, *objects: Any, **options: Any) -> Any:
    """What `accelerator.prepare` returns for these objects, its loaders guarded.

    Args:
        accelerator: an `accelerate.Accelerator`; it makes new loaders, which are those that a loop iterates.
        objects: what to prepare.
        options: those of `dataguard.guard`.
    """
    prepared = accelerator.prepare(*objects)
    for value in prepared if isinstance(prepared, tuple) else (prepared,):
        if isinstance(value, DataLoader):  # accelerate's own only pretend to be one
            guard(value, **options)
    return prepared
