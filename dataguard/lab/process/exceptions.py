"""Exceptions of the user's code as plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dataguard.incident import Incident
from dataguard.target.loading import frames_of


def incident_of(
    error: BaseException, stage: str, index: Any = None, batch: Sequence[Any] = (), worker: int | None = None
) -> Incident:
    """Describe an exception of the user's code as plain data."""
    words = _attempt(str, error)
    bases = [cls.__name__ for cls in type(error).__mro__[1:-1]]
    return Incident(
        stage=stage,
        message=f"{type(error).__name__}: {words}" if words else type(error).__name__,
        frames=frames_of(error),
        index=None if index is None else _attempt(repr, index)[:80],
        batch=tuple(_attempt(repr, item)[:40] for item in batch[:16] if item is not None),
        worker=worker,
        error_type=type(error).__name__,
        error_bases=tuple(bases),
    )


def _attempt(describe: Callable[[Any], str], value: Any) -> str:
    """The `str` or `repr` of a user-defined object, whose `__str__` and `__repr__` may raise."""
    try:
        return describe(value)
    except Exception:  # noqa: BLE001 - see above
        return f"<{type(value).__name__} that cannot be shown>"
