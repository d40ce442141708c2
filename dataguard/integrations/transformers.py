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
        self._loader: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **_: Any) -> None:
        """Guard the loader that the training is about to iterate."""
        guard(train_dataloader, name="train", role="train", **self.options)
        self._loader = train_dataloader if self.options.get("resume") is not None and state.global_step else None

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Let the loader be guarded that skips what a checkpoint has had; the trainer makes it next, once."""
        if self._loader is not None:
            self._skip, trainer.skip_first_batches = trainer.skip_first_batches, self._skip_first_batches

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Let the trainer skip by itself again, if it had nothing to skip."""
        self._restore()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Record where the training is, with the option `resume`: see `guard.checkpoint`."""
        guard.checkpoint()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Let the trainer skip by itself again, if it took no step."""
        self._restore()

    def _restore(self) -> None:
        if self._skip is not None:
            trainer.skip_first_batches = self._skip
        self._skip = self._loader = None

    def _skip_first_batches(self, loader: Any, num_batches: int = 0) -> Any:
        skip, is_guarded = self._skip, loader is self._loader
        self._restore()  # before anything can raise: nobody would be told of the end of the training
        skipping = skip(loader, num_batches)
        return guard(skipping, name="train", role="train", **self.options) if is_guarded else skipping
