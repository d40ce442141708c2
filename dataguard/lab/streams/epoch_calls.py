"""Which `set_epoch` is called by what training iterates: a loader of the project's class, or a wrapper around it.

It may look for the method at a sampler that has none, or call that of another loader's. So it is iterated as training
does, its own `set_epoch` is called if it has one, and no other. Where it looks for `set_epoch` is recorded.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader, DistributedSampler, Sampler

from dataguard.core.incident import OWN, is_library
from dataguard.lab.core.loader_facts import attribute
from dataguard.lab.core.records import plain_index
from dataguard.lab.core.source_location import Place
from dataguard.lab.reading.recorded_order import draw_epoch, recorder
from dataguard.lab.streams.orders import EPOCHS
from dataguard.targets.discovery import held_by_training, holder_of, through_wrapper
from dataguard.targets.variants import Loader


@dataclass(frozen=True, slots=True)
class MissedEpoch:
    """`front`, which training iterates, looks for `set_epoch` in an object of the class `asked`, at a line.

    `has`: that object has the method, and does not draw the order.
    """

    front: str
    asked: str
    has: bool
    at: Place


def find_missed_epoch(build: Callable[..., Loader], length: int | None) -> MissedEpoch | None:
    """Where the epoch goes that does not reach the sampler; None if the order changes, or nothing looks for it."""
    recorded, schedule = recorder(length)
    loader = through_wrapper(build(num_workers=0, schedule=schedule))
    holder = holder_of(loader)
    front = held_by_training(loader) if holder is None else holder
    orders, looks = [], list[_Look]()

    def announce(_: Loader, epoch: int) -> None:
        if callable(own := attribute(front, "set_epoch")):
            own(epoch)

    for epoch in range(EPOCHS):
        with _looked_for(looks):
            draw_epoch(loader, recorded, epoch, announce)
        orders.append([plain_index(one) for order in recorded for batch in order.batches for one in batch])
    samplers = [one for order in recorded for one in (order.inner, attribute(order.inner, "sampler"))]
    missed = [look for look in looks if not (look.has and any(look.holder is sampler for sampler in samplers))]
    if not missed or not orders[0] or any(order != orders[0] for order in orders):
        return None
    first = missed[0]
    return MissedEpoch(type(front).__name__, type(first.holder).__name__, first.has, first.at)


@dataclass(frozen=True, slots=True)
class _Look:
    """An object whose `set_epoch` the user's code looks for, whether it `has` one, and the line."""

    holder: Any
    has: bool
    at: Place


class _Missing:
    """In place of a `set_epoch` that a class of torch does not have. It may be set, as it has no `__set__`."""

    def __init__(self, looks: list[_Look]) -> None:
        self._looks = looks

    def __get__(self, holder: Any, kind: type) -> Any:
        _note(self._looks, holder, has=False)
        raise AttributeError(f"{kind.__name__!r} object has no attribute 'set_epoch'")


@contextlib.contextmanager
def _looked_for(looks: list[_Look]) -> Iterator[None]:
    sharding: Any = DistributedSampler
    lacking: tuple[Any, ...] = (Sampler, DataLoader)
    original = sharding.set_epoch

    def set_epoch(sampler: Any, epoch: int) -> None:
        _note(looks, sampler, has=True)
        original(sampler, epoch)

    sharding.set_epoch = set_epoch
    for kind in lacking:
        kind.set_epoch = _Missing(looks)
    try:
        yield
    finally:
        sharding.set_epoch = original
        for kind in lacking:
            del kind.set_epoch


def _note(looks: list[_Look], holder: Any, *, has: bool) -> None:
    """Add what is looked for by a line of the user's code, and not by a library that this calls."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(OWN):
        frame = frame.f_back
    if holder is not None and frame is not None and not is_library(frame.f_code.co_filename):
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        looks.append(_Look(holder, has, (code.co_filename, frame.f_lineno, name)))
