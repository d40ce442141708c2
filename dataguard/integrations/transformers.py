"""A callback for transformers: `Trainer(callbacks=[GuardCallback()])` guards the loaders of a training."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, trainer

from dataguard.training.guard import guard


class GuardCallback(TrainerCallback):  # type: ignore[misc]
    """Guards the training loader that the trainer iterates, named `train`.

    Args:
        options: those of `dataguard.guard`, such as `on_violation="raise"`; `name` and `role` are given.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options
        self._skip: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **_: Any) -> None:
        """Guard the loader that the training is about to iterate, and the one that skips what a checkpoint has had."""
        guard(train_dataloader, name="train", role="train", **self.options)
        if self.options.get("resume") is not None:
            self._skip = trainer.skip_first_batches
            trainer.skip_first_batches = self._skip_first_batches

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Record where the training is, with the option `resume`: see `guard.checkpoint`."""
        guard.checkpoint()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Let the trainer skip by itself again."""
        if self._skip is not None:
            trainer.skip_first_batches, self._skip = self._skip, None

    def _skip_first_batches(self, loader: Any, num_batches: int = 0) -> Any:
        return guard(self._skip(loader, num_batches), name="train", role="train", **self.options)
