"""The line that a finding points at, if it was followed to one. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dataguard.core.incident import observed_or_none
from dataguard.core.model import Location

if TYPE_CHECKING:
    from dataguard.lab.culprit.line_trace import Traced


def line_at(observe: Callable[..., Traced | None], *asked: object) -> Location | None:
    """The place of the line that is observed; None if none is found, or if it takes too long to follow."""
    line = observed_or_none(lambda: observe(*asked))
    return line.location if line else None
