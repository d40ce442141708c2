"""`dataguard.guard`: watch loaders while a model trains."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TypeVar

from torch.utils.data import Dataset

from dataguard.model import UsageError
from dataguard.report import Report
from dataguard.targets.discovery import is_loader, parts_of
from dataguard.training.guard_report import report_of
from dataguard.training.guarded_loader import guarded, watch_of
from dataguard.training.options import Options
from dataguard.training.violations import Action
from dataguard.training.watch import WATCHES

L = TypeVar("L")


class Guard:
    """The functions `guard(loader)`, `guard.watches(loader)`, `guard.report()` and `guard.reset()`."""

    def __call__(
        self,
        loader: L,
        *,
        name: str | None = None,
        role: str | None = None,
        num_classes: int | None = None,
        ignore_index: int | None = None,
        label: str | int | None = None,
        all_values: bool = False,
        on_violation: Action = "warn",
        ignore: Collection[str] = (),
        save_to: str | Path | None = None,
        max_wait: float | None = None,
        ranks: bool = False,
        rank_timeout: float = 300.0,
    ) -> L:
        """Watch a loader, and return it: the same object, which a training loop iterates as before.

        Each batch is looked at before the loop has it: NaN and Inf, labels out of range, another dtype or number of
        dimensions than before, a last batch of one sample. Epochs are compared: the same order again, as without
        `set_epoch`, and workers or epochs that draw the same random numbers. A violation is named by its check:
        `dataguard explain DG206`.

        Args:
            loader: a DataLoader or subclass, a wrapper or dict of them, or an object with an `__iter__` of its own.
            name: what the loader is called in warnings and reports; a name such as `val` is its role, too.
            role: `train`, `val`, `test` or `predict`. By default a loader that shuffles is a training loader, unless
                gradients are disabled while it is iterated.
            num_classes: labels are 0 to num_classes - 1; by default what the dataset declares, else unknown.
            ignore_index: a label beyond those that is on purpose; -100 always is.
            label: the key, or the position, of the labels in a batch; by default the second of a tuple, or `labels`.
            all_values: check the values of every batch. By default the first batches are checked, and later ones as
                often as takes half a percent of the time.
            on_violation: `warn` once for each check, `raise` ContractViolation for checks that are errors, or only
                `record` for the report.
            ignore: codes of checks whose violations are on purpose.
            save_to: a folder for the first batch that violates each check; without it, nothing is written.
            max_wait: the largest share of an epoch that the loop may wait for batches (DG801), such as 0.2.
            ranks: all ranks compare their numbers of batches once in an epoch; all of them must guard the loader.
            rank_timeout: seconds that a rank waits for the others.

        Raises UsageError for a wrong argument, and for an object that cannot be watched.
        """
        folder = None if save_to is None else Path(save_to)
        options = Options(
            role=role,
            num_classes=num_classes,
            ignore_index=ignore_index,
            label=label,
            all_values=all_values,
            on_violation=on_violation,
            ignore=tuple(ignore),
            save_to=folder,
            max_wait=max_wait,
            ranks=ranks,
            rank_timeout=rank_timeout,
        )
        for part, inner in _loaders_of(loader):
            named = ".".join(filter(None, (name, part))) or role or "loader"
            guarded(inner, _unique(named), options)
        return loader

    def watches(self, loader: Any) -> bool:
        """Whether any loader in an object is guarded."""
        return any(watch_of(inner) is not None for _, inner in _loaders_of(loader))

    def report(self, *loaders: Any) -> Report:
        """What these loaders showed so far; without arguments, all that this process has guarded."""
        own = [watch_of(inner) for loader in loaders for _, inner in _loaders_of(loader)]
        return report_of([watch for watch in own if watch] if loaders else WATCHES)

    def reset(self) -> None:
        """Forget the loaders guarded so far, which reports then leave out."""
        WATCHES.clear()


guard = Guard()


def _loaders_of(loader: Any) -> Iterator[tuple[str, Any]]:
    """What can be watched in an object, by name: loaders, else the object if it is iterated itself."""
    if isinstance(loader, Dataset) or hasattr(loader, "train_dataloader"):
        raise UsageError(f"guard takes a loader, not a {type(loader).__name__}")
    watchable = [("", loader)] if is_loader(loader) else [part for part in parts_of(loader) if is_loader(part[1])]
    if not watchable and not hasattr(type(loader), "__iter__"):
        raise UsageError(f"guard takes a loader, not a {type(loader).__name__}")
    yield from watchable or [("", loader)]


def _unique(name: str) -> str:
    """A name that no other loader of the report has."""
    taken = {watch.name for watch in WATCHES}
    numbers = (name if number == 1 else f"{name}-{number}" for number in range(1, len(taken) + 2))
    return next(candidate for candidate in numbers if candidate not in taken)
