"""Masks of one sample in several random states: whether left and right classes are swapped where they are flipped."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, describe, iter_leaves
from dataguard.lab.images.image_containers import SMALLEST, is_image, planes_of

MARKS = (-100, -1, 255)
"""Values of pixels without a class."""


@dataclass(frozen=True, slots=True)
class Sides:
    """The number of the keypoint or class that each one changes places with, `where` it is declared, and one pair."""

    where: str
    partner: tuple[int, ...]
    pair: tuple[str, str] | None


def mask_flips(samples: Sequence[Any], declared: Mapping[int, Sides]) -> Iterator[tuple[str, Sides, str]]:
    """The masks of these states that are flipped between two of them: "swapped", or "kept" if classes stay.

    States in which another leaf differs, such as a flag of the flip, are not compared.
    """
    states = [_state(sample) for sample in samples] if declared else []
    for (one, beside), (two, others) in itertools.combinations(states, 2):
        for path in one.keys() & two.keys():
            if beside != others or one[path].shape != two[path].shape or (one[path] == two[path]).all():
                continue
            kinds = [(sides, _flip_between(one[path], two[path], sides)) for sides in declared.values()]
            clear = [(sides, kind) for sides, kind in kinds if kind]
            yield from [(path, *clear[0])] if len(clear) == 1 else []


def _state(sample: Any) -> tuple[dict[str, np.ndarray], set[tuple[str, bytes]]]:
    """The masks of integers in a sample, and all that is not an image."""
    masks, beside = {}, set()
    for path, leaf in iter_leaves(sample):
        if not is_image(leaf):
            beside.add((path, describe(path, leaf).digest))
            continue
        planes = planes_of(leaf if not isinstance(leaf, torch.Tensor) else array_of(leaf))
        if len(planes) == 1 and planes.dtype.kind in "iu" and min(planes.shape[-2:]) >= SMALLEST:
            masks[path] = planes[0].astype(np.int64)
    return masks, beside


def _flip_between(one: np.ndarray, two: np.ndarray, sides: Sides) -> str | None:
    """Whether a mask equals a second one flipped, with classes "kept" or "swapped"; class 1 may be the first name."""
    values = set(np.unique(one).tolist()) - {*MARKS}
    count = len(sides.partner)
    offsets = [offset for offset in (0, 1) if max(values, default=0) < count + offset]
    flipped = one[:, ::-1]
    swapped = [_swapped(flipped, sides.partner, offset) for offset in offsets]
    if not swapped or any((other == flipped).all() for other in swapped):
        return None  # no class with a side is there, or it is not known which
    if (two == flipped).all():
        return "kept"
    return "swapped" if any((two == other).all() for other in swapped) else None


def _swapped(mask: np.ndarray, partner: Sequence[int], offset: int) -> np.ndarray:
    swapped = mask.copy()
    for number, other in enumerate(partner):
        swapped[mask == number + offset] = other + offset
    return swapped
