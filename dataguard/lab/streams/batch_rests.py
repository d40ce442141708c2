"""Samples that a batch sampler of the user's leaves out, because they fill no batch.

One that makes batches of samples of one length or class may drop what is left of each group. A sampler may also leave
samples out on purpose, as a filter does. So the size of batches is changed to one, where nothing is left of any group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from dataguard.lab.core.loader_facts import attribute, length_of
from dataguard.lab.core.records import members, plain_index
from dataguard.lab.culprit.source_flow import BATCH_SIZE
from dataguard.lab.process.isolation import in_fork
from dataguard.lab.streams.offsets import given
from dataguard.targets.spelling import parameters_of
from dataguard.targets.variants import Loader, unwrapped

FORK_SECONDS = 20.0
"""How long it may take to draw an epoch with batches of one sample."""


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """How many indices a batch sampler leaves out with batches of one sample, and whether it has a `drop_last`."""

    indices: int
    drop_last: bool


def left_alone(build: Callable[[], Loader], again: Callable[[], Loader] | None, size: int) -> LeftAlone | None:
    """What the batch sampler leaves out with batches of one sample in place of `size`; None if that is not known.

    The size is an attribute of the sampler, or an argument of its constructor: then `again` calls the factory.
    """
    loader = build()
    sampler = unwrapped(loader.batch_sampler)
    names = [name for name, value in vars(sampler).items() if _is_size(name, value, size)]
    ways: list[Callable[[], Loader]] = [partial(_with_attributes, loader, sampler, names)] if names else []
    kind = type(sampler)
    arguments = [one.name for one in parameters_of(kind.__init__) if BATCH_SIZE.fullmatch(one.name)]
    if again is not None and len(arguments) == 1:
        ways.append(partial(_with_argument, again, kind, arguments[0]))
    left = [drawn for way in ways if (drawn := in_fork(partial(_left_out, way), FORK_SECONDS)) is not None]
    return LeftAlone(min(left), attribute(sampler, "drop_last") is True) if left else None


def _is_size(name: str, value: Any, size: int) -> bool:
    return type(value) is int and value == size and BATCH_SIZE.fullmatch(name) is not None


def _with_attributes(loader: Loader, sampler: Any, names: list[str]) -> Loader:
    for name in names:
        setattr(sampler, name, 1)
    return loader


def _with_argument(again: Callable[[], Loader], kind: type, name: str) -> Loader:
    with given(kind, name, 1):
        return again()


def _left_out(make: Callable[[], Loader]) -> int | None:
    """How many indices one epoch leaves out; None if its batches still have several samples."""
    loader = make()
    entries: Any = loader.batch_sampler
    batches = [list(map(plain_index, members(entry))) for entry in iter(entries)]
    if not batches or max(map(len, batches)) > 1:
        return None
    return (length_of(loader.dataset) or 0) - len({index for batch in batches for index in batch})
