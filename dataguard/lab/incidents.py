"""From an exception of the user's code to plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dataguard.model import Incident
from dataguard.target import frames_of


def incident_of(
    error: BaseException, stage: str, index: Any = None, batch: Sequence[Any] = (), worker: int | None = None
) -> Incident:
    """Describe an exception of the user's code as plain data."""
    bases = [cls.__name__ for cls in type(error).__mro__[1:-1]]
    return Incident(
        stage=stage,
        message=f"{type(error).__name__}: {error}" if str(error) else type(error).__name__,
        frames=frames_of(error),
        index=None if index is None else repr(index)[:80],
        batch=tuple(repr(item)[:40] for item in batch[:16] if item is not None),
        worker=worker,
        error_type=type(error).__name__,
        error_bases=tuple(bases),
    )
