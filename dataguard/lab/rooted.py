"""What the paths of leaves begin with, in an observation of samples or of batches of one."""

from __future__ import annotations


class Rooted:
    """The part of such an observation that knows it: `collated` tells that leaves are those of a batch."""

    __slots__ = ()
    collated: bool

    @property
    def root(self) -> str:
        """What the paths of leaves begin with."""
        return "batch" if self.collated else "sample"
