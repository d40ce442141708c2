"""The last sample of a dataset, where windows are cut short, among those that an epoch read. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dataguard.incident import observed_or_none

if TYPE_CHECKING:
    from dataguard.lab.core.records import SampleRecord
    from dataguard.lab.lab import Lab


def with_last(lab: Lab, samples: Sequence[SampleRecord]) -> Sequence[SampleRecord]:
    """These samples, and the last one if the sampler draws it: few of the samples of a large dataset are read."""
    ends = observed_or_none(lambda: lab.dataset.ends)
    if not samples or ends is None or ends.last.incident:
        return samples
    orders = observed_or_none(lambda: lab.streams.orders)
    if orders is None or ends.last.index not in orders.epochs[0]:
        return samples
    return [*samples, replace(samples[0], index=ends.last.index, leaves=ends.last.leaves)]
