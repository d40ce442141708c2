"""The order of indices in two epochs. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dataguard.figures import Line, Plot
from dataguard.machine.units import counted

if TYPE_CHECKING:
    from dataguard.lab.core.index import Index
    from dataguard.lab.lab import Lab
    from dataguard.model import Finding

MOST = 500
"""Points of each epoch."""


def two_epochs(lab: Lab, findings: Sequence[Finding]) -> Iterator[Plot]:
    """The index at each position of the first two epochs."""
    del findings
    epochs = lab.streams.orders.epochs[:2]
    if len(epochs) < 2:
        return
    lines = tuple(_line(number, order) for number, order in enumerate(epochs))
    count = len(epochs[0])
    order = "in the same order" if epochs[0] == epochs[1] else "in different orders"
    some = f" One in {_step(count)} is shown." if _step(count) > 1 else ""
    summary = f"Epochs 0 and 1 request {counted(count, 'indices')} each, {order}."
    yield Plot("Order of indices in two epochs", summary + some, "position in the epoch", "index", lines, joined=False)


def _line(number: int, order: Sequence[Index]) -> Line:
    points = [(float(place), float(index)) for place, index in enumerate(order) if isinstance(index, int)]
    return Line(f"epoch {number}", tuple(points[:: _step(len(order))]))


def _step(count: int) -> int:
    return -(-count // MOST) or 1
