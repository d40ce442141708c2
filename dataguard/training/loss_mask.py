"""The labels of language models that count for the loss: how many of them batches and epochs have (DG423)."""

from __future__ import annotations

from collections import Counter

import numpy as np
from torch import Tensor

from dataguard.lab.tokens.roles import roles_of
from dataguard.training.batch_structure import Arrays
from dataguard.training.batch_values import IGNORED, is_integer

FEW = 8
"""How many epochs the report lists: the last ones."""


class LossMask:
    """Counts the labels of tokens in the batches of one loader whose values are checked."""

    def __init__(self, ignored: int | None) -> None:
        self.ignored = {IGNORED, IGNORED if ignored is None else ignored}
        self.batches = 0
        self.labels: Counter[int] = Counter()
        """How many labels of tokens an epoch had."""
        self.learned: Counter[int] = Counter()
        """How many of them were not the ignored index."""

    def see(self, epoch: int, arrays: Arrays) -> str | None:
        """Count the labels of a batch; the path of its labels if none of them counts for the loss."""
        leaves = {path: leaf for path, leaf in arrays if is_integer(leaf)}
        path = roles_of(leaves, {}).get("labels")
        if path is None or leaves[path].ndim < 2:
            return None
        values = leaves[path].detach().numpy() if isinstance(leaves[path], Tensor) else leaves[path]
        learned = int(np.isin(values, list(self.ignored), invert=True).sum())
        self.batches += 1
        self.labels[epoch] += values.size
        self.learned[epoch] += learned
        return None if learned or not values.size else path

    @property
    def shares(self) -> str:
        """The share of labels that count, epoch by epoch, in words; empty without any."""
        shares = [f"{self.learned[epoch] / count:.0%}" for epoch, count in sorted(self.labels.items()) if count]
        more = "… " if len(shares) > FEW else ""
        return f"{more}{', '.join(shares[-FEW:])} of the labels count for the loss, by epoch" if shares else ""
