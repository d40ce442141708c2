"""For accelerate: `prepare(accelerator, model, optimizer, loader)` prepares all of them, and guards the loaders."""

from __future__ import annotations

from typing import Any

import accelerate
from torch.utils.data import DataLoader

from dataguard.training.guard import guard


def prepare(accelerator: Any, *objects: Any, **options: Any) -> Any:
    """What `accelerator.prepare` returns for these objects, its loaders guarded.

    With the option `resume`, `accelerator.save_state` writes the record of a checkpoint, see `guard.checkpoint`.

    Args:
        accelerator: an `accelerate.Accelerator`; it makes new loaders, which are those that a loop iterates.
        objects: what to prepare.
        options: those of `dataguard.guard`.
    """
    prepared = accelerator.prepare(*objects)
    for value in prepared if isinstance(prepared, tuple) else (prepared,):
        if isinstance(value, DataLoader):  # accelerate's own only pretend to be one
            guard(value, **options)
    if options.get("resume") is not None:
        accelerator.register_save_state_pre_hook(lambda *_: guard.checkpoint())
    return prepared


def skip_first_batches(loader: Any, num_batches: int = 0, **options: Any) -> Any:
    """What `accelerate.skip_first_batches` returns, guarded.

    Args:
        loader: a prepared loader.
        num_batches: how many batches of the epoch the run has had before its checkpoint.
        options: those of `dataguard.guard`: the same `name` and `resume` as for the loader itself.
    """
    return guard(accelerate.skip_first_batches(loader, num_batches), **options)
