"""One iteration over a guarded loader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dataguard.training.epoch_order import Order, Shuffler


@dataclass(slots=True)
class Pass:
    """From `iter()` to the end, or until it is abandoned.

    `gradients`: it is no evaluation, by what is known when it begins. `training`: the loader shuffles, too, or its role
    is train. `resumed`: it continues from a `state_dict`, so that it is not a whole epoch.
    """

    serial: int
    gradients: bool
    training: bool
    resumed: bool
    shuffler: Shuffler | None
    order: Order | None
    """The order of its indices; a stream has none."""
    planned: int | None = None
    """How many batches there will be, if the loader says so and is no stream."""
    stream: Callable[[], Any] | None = None
    """Returns the loader, if it reads a stream and still exists."""
    epoch: int = 0
    """How many passes with batches there were before."""
    delivered: int = 0
    waited: float = 0.0
    """Seconds that the loop waited for batches, without the first, for which workers start."""
    worked: float = 0.0
    """Seconds that the loop took with them."""
    returned: float | None = None
    """When the loop was given its last batch."""
    ended: bool = False
    size: int | None = None
    """The samples of each batch so far; 0 if the batches differ, None before the first."""

    @property
    def may_replay(self) -> bool:
        """Whether it is an epoch of training by the order of its indices: one that does not ascend."""
        return self.gradients and self.order is not None and (self.training or not self.order.ascending)

    def next_indices(self, *, in_order: bool) -> list[Any] | None:
        """The indices of the batch that is delivered now; None if unknown."""
        if self.order is None or not self.order.waiting:
            return None
        indices = self.order.waiting.popleft()
        return indices if in_order and not self.resumed else None

    def is_single(self, count: int | None) -> bool:
        """Whether a batch has one sample, after batches that all had the same number of several."""
        before, self.size = self.size, count if self.size in (None, count) else 0
        return count == 1 and before is not None and before > 1
