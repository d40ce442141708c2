"""Tokens that are masked at random, as masked language models are trained and evaluated."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, iter_leaves

IGNORED = (-100, -1, 0)
"""Labels where no token is masked."""
MOST = 0.5
"""The largest share of tokens that are masked."""


def masked_tokens(one: Any, other: Any) -> frozenset[str]:
    """The integer leaves of two draws that differ only in which tokens are masked: labels and inputs restore the rest.

    Both are draws of the same sample or batch.
    """
    first, second = _tokens(one), _tokens(other)
    same_shape = [path for path in first if path in second and first[path].shape == second[path].shape]
    changed = [path for path in same_shape if (first[path] != second[path]).any()]
    found: set[str] = set()
    for inputs, labels in permutations(changed, 2):
        if first[inputs].shape == first[labels].shape:
            drawn = [(tokens[inputs], tokens[labels]) for tokens in (first, second)]
            found |= {inputs, labels} if any(_restored(drawn, ignored) for ignored in IGNORED) else set()
    return frozenset(found)


def _restored(drawn: list[tuple[np.ndarray, np.ndarray]], ignored: int) -> bool:
    """Whether the tokens before masking are the same in both draws."""
    masked = [labels != ignored for _, labels in drawn]
    one, other = (np.where(mask, labels, inputs) for mask, (inputs, labels) in zip(masked, drawn, strict=True))
    few = all(mask.mean() <= MOST for mask in masked) and any(mask.any() for mask in masked)
    return few and bool((one == other).all())


def _is_row(leaf: Any) -> bool:
    """Whether it is an array or a flat list; a list in lists is a leaf where they are nested too deeply."""
    flat = isinstance(leaf, list) and not any(isinstance(item, list) for item in leaf)
    return flat or isinstance(leaf, torch.Tensor | np.ndarray)


def _tokens(value: Any) -> dict[str, np.ndarray]:
    """The arrays and lists of integers in a sample or batch, by path."""
    arrays = {path: array_of(leaf) for path, leaf in iter_leaves(value) if _is_row(leaf)}
    return {path: array for path, array in arrays.items() if array.dtype.kind in "iu" and array.ndim}
