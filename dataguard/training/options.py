"""What a user may say about a guarded loader."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from dataguard.model import UsageError
from dataguard.settings.role_names import spelled_role
from dataguard.training.violations import ACTIONS, CODES, Action

ROLES = ("train", "val", "test", "predict")


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of `guard`, which documents them."""

    role: str | None
    num_classes: int | None
    ignore_index: int | None
    label: str | int | None
    all_values: bool
    on_violation: Action
    ignore: Collection[str]
    save_to: Path | None
    max_wait: float | None
    ranks: bool
    rank_timeout: float

    def __post_init__(self) -> None:
        if self.on_violation not in ACTIONS:
            raise UsageError(f"on_violation is one of {', '.join(ACTIONS)}, not {self.on_violation!r}")
        if self.role is not None and self.role not in ROLES:
            raise UsageError(f"role is one of {', '.join(ROLES)}, not {self.role!r}")
        unknown = sorted(set(self.ignore) - set(CODES))
        if unknown:
            raise UsageError(f"guard does not watch {', '.join(unknown)}; ignore takes {', '.join(CODES)}")

    def role_of(self, name: str) -> str | None:
        """The role of a loader of this name."""
        return self.role or spelled_role(name)
