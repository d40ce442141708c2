"""What the paths of leaves begin with, in an observation of samples or of batches of one."""

from __future__ import annotations

from typing import Any

from dataguard.lab.rng.global_rng import seeded
from dataguard.target.variants import Loader


class Rooted:
    """The part of such an observation that knows it: `collated` tells that leaves are those of a batch."""

    __slots__ = ()
    collated: bool

    @property
    def root(self) -> str:
        """What the paths of leaves begin with."""
        return "batch" if self.collated else "sample"


def collated_alone(loader: Loader, sample: Any, seed: int) -> tuple[Any, bool]:
    """A batch of a sample alone, drawn in a state of the generators; or the sample itself, and False."""
    with seeded(seed):
        try:
            return loader.collate_fn([sample]), True
        except Exception:  # noqa: BLE001 - it may want whole batches; the sample itself tells enough then
            return sample, False
