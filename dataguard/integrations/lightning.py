"""A callback for Lightning: `Trainer(callbacks=[GuardCallback()])` guards the loaders of a training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from dataguard.training.guard import guard

_PACKAGE = "lightning.pytorch" if find_spec("lightning") else "pytorch_lightning"
_Callback: Any = import_module(_PACKAGE).Callback


class GuardCallback(_Callback):  # type: ignore[misc]
    """Guards the loaders that the trainer iterates, named `train` and `val`.

    Args:
        options: those of `dataguard.guard`, such as `on_violation="raise"`; `name` and `role` are given.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Guard the loaders when they are made: a first iteration begins before any other hook."""
        if stage == "fit":
            loop = trainer.fit_loop
            for role, source in (("train", loop._data_source), ("val", loop.epoch_loop.val_loop._data_source)):
                source.dataloader = partial(self._guarded, source.dataloader, role)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Record where the training is, with the option `resume`: see `guard.checkpoint`."""
        guard.checkpoint()

    def _guarded(self, make: Callable[[], Any], role: str) -> Any:
        loaders = make()
        return loaders if loaders is None else guard(loaders, name=role, role=role, **self.options)
