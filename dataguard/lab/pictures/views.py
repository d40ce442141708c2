"""What to show of a sample, and what was shown. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from dataguard.figures import Picture


@dataclass(frozen=True, slots=True)
class Undo:
    """A normalization to undo: `value = gain * colour + offset` in each channel, for colours from 0 to 255.

    `label` says whose it is.
    """

    gains: tuple[float, ...]
    offsets: tuple[float, ...]
    label: str


@dataclass(frozen=True, slots=True)
class View:
    """What to show of a sample: the image leaf at a path, or the first one, in some states of all generators.

    Paths begin with sample, or with batch for what collate_fn makes of the sample alone. A `mask` leaf is laid over the
    image, with `labels` as the values that it may have; so do `boxes`, with their format. `undo` is a normalization.
    With `closeup`, the part of the mask with the most blended values is shown enlarged.
    """

    leaf: str = "sample"
    draws: tuple[int, ...] = (0,)
    mask: str | None = None
    labels: tuple[float, ...] | None = None
    boxes: str | None = None
    box_format: str = ""
    undo: Undo | None = None
    closeup: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """One sample: its image as the file holds it, None if no file was decoded, and what the model sees, by draw.

    `closeup` is the part of a mask with the most blended values.
    """

    original: Picture | None
    seen: tuple[Picture, ...]
    closeup: Picture | None = None
