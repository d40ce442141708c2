"""What a finding looks like, as plain data that a renderer draws. Standard library only.

Every figure has a `title`, and a `summary`: a sentence that says the same to a reader who does not see the figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

Measured = Annotated[float, "may be infinite or no number"]
"""A value that was observed, such as the mean of a channel of the user's images."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle on a picture; its corners are fractions of the picture's width and height, from 0 to 1."""

    left: Measured
    top: Measured
    right: Measured
    bottom: Measured
    label: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of the user's data: an encoded PNG, and what is laid over it.

    `mask` is a PNG with an alpha channel, laid over the whole picture.
    """

    png: bytes
    label: str
    boxes: tuple[Box, ...] = ()
    mask: bytes | None = None


@dataclass(frozen=True, slots=True)
class Pictures:
    """Pictures in rows and columns, such as one item under each worker and epoch; None where there is none."""

    title: str
    summary: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Picture | None, ...], ...]

    def __post_init__(self) -> None:
        if len(self.rows) != len(self.cells):
            raise ValueError(f"{len(self.cells)} rows of pictures with {len(self.rows)} names")


@dataclass(frozen=True, slots=True)
class Swatches:
    """Statistics of each channel side by side, drawn as colours: `rows` holds a label and a value per channel."""

    title: str
    summary: str
    channels: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Measured, ...]], ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Counts of two things that cross, such as samples per rank and worker."""

    title: str
    summary: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a plot: points, and the lowest and highest value of each where they were measured repeatedly."""

    label: str
    points: tuple[tuple[Measured, Measured], ...]
    spread: tuple[tuple[Measured, Measured], ...] = ()


@dataclass(frozen=True, slots=True)
class Plot:
    """Series over a common axis; `joined` draws a line through the points of each."""

    title: str
    summary: str
    x: str
    y: str
    lines: tuple[Line, ...]
    joined: bool = True


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time on a lane of a timeline, in seconds; `kind` sets the colour and stands in the legend."""

    start: Measured
    end: Measured
    kind: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """What each process did when: one lane per process, by name."""

    title: str
    summary: str
    lanes: tuple[tuple[str, tuple[Span, ...]], ...]


Figure = Pictures | Swatches | Matrix | Plot | Timeline
