"""What renderers draw, as plain data: figures of findings, and samples with their images. Standard library only.

Every `Figure` has a `title`, and a `summary`: a sentence that says the same to a reader who does not see it. `Wanted`
and `SampleViews` are the question and the answer of `dataguard show`; `View` and `Shown` those of `lab.pictures`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

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


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to show: samples by index (in a stream, by position), read one after the other `repeat` times.

    With `batch`, they are then collated, in a worker if the loader has any.
    """

    indices: tuple[Any, ...]
    batch: bool = False
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class LeafView:
    """One leaf of a sample or batch, in words.

    `path` begins with sample or batch; `type` is its type and dtype; `values` its range, or all of a few values;
    `digest` is a short hash of its content; `note` compares it with samples above.
    """

    path: str
    type: str
    shape: tuple[int, ...] | None
    values: str
    digest: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class SampleView:
    """One sample or batch: its leaves, with pictures of those that are images; or the error that reading it raised.

    `sources` are pairs of the path of a leaf, empty if that is not known, and the file and rows that it comes from.
    """

    name: str
    leaves: tuple[LeafView, ...] = ()
    pictures: tuple[Picture, ...] = ()
    error: str = ""
    sources: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SampleViews:
    """Some samples of one loader, in the order in which they were read; `others` are the target's other loaders."""

    target: str
    loader: str
    samples: tuple[SampleView, ...]
    others: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether one of them could not be read."""
        return any(sample.error for sample in self.samples)


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
