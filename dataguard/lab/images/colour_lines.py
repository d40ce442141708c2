"""The lines of the user's code after which the colours of an image change, for findings about them.

A sample is read with a black, a white and a red image, under one random state, and its values are followed line by
line. What black, white and red are after each line shows where values are scaled, moved, or put in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dataguard.lab.culprit.line_trace import Look, Traced, numbered
from dataguard.lab.images.painter import is_image, planes_of

DIGITS = 4
"""Significant digits of a value by which states are compared: float16 has three."""

Levels = tuple[float, ...]
"""The median of each plane of an image."""


@dataclass(frozen=True, slots=True)
class ColourStep(Traced):
    """What black, white and red are in each plane of an image after a line of the user's code."""

    black: Levels
    white: Levels
    red: Levels
    is_float: bool

    @property
    def span(self) -> float:
        """The width of the range between black and white, of the widest plane."""
        return max(abs(high - low) for low, high in zip(self.black, self.white, strict=True))

    @property
    def red_plane(self) -> int:
        """The number of the plane that holds most of red."""
        shares = [
            (red - low) / (high - low) if high != low else 0.0
            for red, low, high in zip(self.red, self.black, self.white, strict=True)
        ]
        return max(range(len(shares)), key=shares.__getitem__)


def levels(array: np.ndarray) -> tuple[Levels, bool] | None:
    """The median of each of up to four planes of an image, and whether they are floats; None of anything else."""
    if not is_image(array) or array.dtype.kind == "b":
        return None
    planes = planes_of(array)
    if len(planes) not in (1, 3, 4):
        return None
    return tuple(float(f"{np.median(plane):.{DIGITS}g}") for plane in planes), array.dtype.kind == "f"


def steps_of(blacks: Sequence[Look], whites: Sequence[Look], reds: Sequence[Look]) -> Iterator[ColourStep]:
    """Looks at images that follow the colour, where levels change from one line to the next, or become floats."""
    white_of, red_of = numbered(whites), numbered(reds)
    last: Any = None
    for key, look in numbered(blacks).items():
        white, red = white_of.get(key), red_of.get(key)
        if white is None or red is None or look.state == white.state:
            continue  # a mask, or a part that this random state skips
        charted: Any = (look.state, white.state, red.state)  # those of `levels`
        state = *(planes for planes, _ in charted), all(is_float for _, is_float in charted)
        if state != last and len({len(planes) for planes, _ in charted}) == 1:
            last = state
            yield ColourStep(look.file, look.line, look.function, look.name, look.exact, *state)
