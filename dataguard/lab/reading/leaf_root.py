"""The root of leaf paths, in an observation of samples or of batches of one sample."""

from __future__ import annotations

from typing import Any

from dataguard.lab.rng.global_rng import seeded
from dataguard.targets.variants import Loader


class Rooted:
    """The root of leaf paths; `collated`: leaves are those of a batch."""

    __slots__ = ()
    collated: bool

    @property
    def root(self) -> str:
        """The root of leaf paths."""
        return "batch" if self.collated else "sample"


def collated_alone(loader: Loader, sample: Any, seed: int) -> tuple[Any, bool]:
    """A batch of one sample, collated with seeded generators, and True; or the sample itself, and False."""
    with seeded(seed):
        try:
            return loader.collate_fn([sample]), True
        except Exception:  # noqa: BLE001 - it may need full batches; then the sample itself is enough
            return sample, False
