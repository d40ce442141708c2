"""A callback for transformers: `Trainer(callbacks=[GuardCallback()])` guards the loaders of a training."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from dataguard.training.guard import guard


class GuardCallback(TrainerCallback):  # type: ignore[misc]
    """Guards the training loader that the trainer iterates, named `train`.

    Args:
        options: those of `dataguard.guard`, such as `on_violation="raise"`; `name` and `role` are given.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options

    def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **_: Any) -> None:
        """Guard the loader that the training is about to iterate."""
        guard(train_dataloader, name="train", role="train", **self.options)
