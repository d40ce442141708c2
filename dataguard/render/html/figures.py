"""Figures as the templates draw them: positions in percent, paths, and images as data URIs.

`FigureRenderer` draws the figures of one page. Charts have linear scales (`Axis`), and fewer points where there are
more than a reader can distinguish.
"""

from __future__ import annotations

import math
import random
import struct
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dataguard.core.figures import Box, Figure, Line, Matrix, Picture, Pictures, Plot, Span, Swatches, Timeline
from dataguard.machine.units import counted, size

View = dict[str, Any]
Point = tuple[float, ...]
"""The position of a point, x and y, and what else is drawn with it."""


class FigureRenderer:
    """Draws the figures of one page, the most important first, and keeps to what a page may hold."""

    def __init__(self, figures: Iterable[Figure]) -> None:
        all_figures = list(figures)
        lines = sum(len(figure.lines) for figure in all_figures if isinstance(figure, Plot))
        timelines = sum(isinstance(figure, Timeline) for figure in all_figures)
        self._points = min(max(_POINTS // max(lines, 1), _LEAST_OF_A_LINE), _MOST_OF_A_LINE)
        self._spans = min(max(_SPANS // max(timelines, 1), _LEAST_OF_A_TIMELINE), _MOST_OF_A_TIMELINE)
        self._room = IMAGE_BYTES
        self._number = 0
        self.images = self.left_out = 0

    def draw(self, figure: Figure) -> View:
        """Return what the template of this kind of figure needs."""
        self._number += 1
        view = {"kind": type(figure).__name__.lower(), "id": f"dg-figure-{self._number}"}
        view |= {"title": figure.title, "summary": figure.summary}
        if isinstance(figure, Pictures):
            return view | self._pictures(figure)
        if isinstance(figure, Swatches):
            return view | _swatches(figure)
        if isinstance(figure, Matrix):
            return view | _matrix(figure)
        return view | (_plot(figure, self._points) if isinstance(figure, Plot) else _timeline(figure, self._spans))

    def _pictures(self, figure: Pictures) -> View:
        there = [cell for row in figure.cells for cell in row if cell]
        cost = sum(4 * (len(cell.png) + len(cell.mask or b"")) // 3 for cell in there)
        if cost > self._room:
            self.left_out += len(there)
            return {"left_out": counted(len(there), "images")}
        self._room -= cost
        self.images += len(there)
        letters = _letters(there)
        rows = [
            (
                label,
                [cell and _picture(cell, label, column, letters) for column, cell in _padded(figure.columns, cells)],
            )
            for label, cells in zip(figure.rows, figure.cells, strict=True)
        ]
        return {"left_out": "", "columns": figure.columns, "rows": rows, "identical": bool(letters)}


IMAGE_BYTES = 4_400_000
"""The most characters of images in one page, so that it stays below 5 MB."""
_POINTS, _MOST_OF_A_LINE, _LEAST_OF_A_LINE = 12_000, 1_500, 60
"""The most points of all charts of a page, and the bounds of what one line gets of them."""
_SPANS, _MOST_OF_A_TIMELINE, _LEAST_OF_A_TIMELINE = 1_200, 400, 24
"""The most spans of all timelines of a page, and the bounds of what one timeline gets of them."""


def _padded(columns: Sequence[str], cells: Sequence[Picture | None]) -> Iterator[tuple[str, Picture | None]]:
    for number, column in enumerate(columns):
        yield column, cells[number] if number < len(cells) else None


def _letters(pictures: Iterable[Picture]) -> dict[bytes, str]:
    """A letter for each image that is there more than once."""
    several = [png for png, count in Counter(picture.png for picture in pictures).items() if count > 1]
    return {png: chr(ord("A") + number) for number, png in enumerate(several[:26])}


def _picture(picture: Picture, row: str, column: str, letters: dict[bytes, str]) -> View:
    width, height = _pixels(picture.png)
    label = "" if picture.label in (row, column) else picture.label
    words = [", ".join(filter(None, (row, column))), label]
    return {
        "src": _uri(picture.png),
        "label": label,
        "alt": ": ".join(filter(None, words)),
        "width": width,
        "height": height,
        "small": max(width, height) <= _SMALL,
        "mask": _uri(picture.mask) if picture.mask else "",
        "boxes": [_box(box) for box in picture.boxes],
        "letter": letters.get(picture.png, ""),
    }


_SMALL = 64
"""Images of at most this many pixels are enlarged without smoothing."""


def _pixels(png: bytes) -> tuple[int, int]:
    """The width and height that the header of a PNG states."""
    width, height = struct.unpack(">II", png[16:24]) if len(png) >= 24 else (1, 1)
    return int(width) or 1, int(height) or 1


def _uri(png: bytes) -> str:
    return f"data:image/png;base64,{b64encode(png).decode()}"


def _box(box: Box) -> View:
    left, top, right, bottom = (
        percent(min(max(edge, 0.0), 1.0)) for edge in (box.left, box.top, box.right, box.bottom)
    )
    wide, high = round(abs(right - left), 2), round(abs(bottom - top), 2)
    return {"x": min(left, right), "y": min(top, bottom), "width": wide, "height": high, "label": box.label}


def _swatches(figure: Swatches) -> View:
    values = [value for _, row in figure.rows for value in row if math.isfinite(value)]
    most = max(values, default=0.0) or 1.0

    def cell(value: float) -> tuple[str, float]:
        return f"{value:.4g}", percent(value / most) if math.isfinite(value) else 0.0

    rows = [(label, _colour(row), [cell(value) for value in row]) for label, row in figure.rows]
    # A bar begins at zero.
    bars = min(values, default=0.0) >= 0
    return {"channels": figure.channels, "rows": rows, "coloured": any(colour for _, colour, _ in rows), "bars": bars}


def _colour(values: Sequence[float]) -> str:
    """The colour that three channels from 0 to 1, or to 255, stand for."""
    if len(values) != 3 or not all(0 <= value <= 255 for value in values):
        return ""
    top = 1 if max(values) <= 1 else 255
    return "#" + "".join(f"{round(255 * value / top):02x}" for value in values)


def _matrix(figure: Matrix) -> View:
    most = max((count for row in figure.counts for count in row), default=0) or 1
    rows = [
        (label, [(f"{count:,}", math.ceil(_SHADES * count / most) if count > 0 else 0) for count in row[:_MOST_CELLS]])
        for label, row in zip(figure.rows[:_MOST_CELLS], figure.counts, strict=False)
    ]
    beyond = [
        counted(len(names) - _MOST_CELLS, f"more {units}")
        for names, units in ((figure.rows, "rows"), (figure.columns, "columns"))
        if len(names) > _MOST_CELLS
    ]
    return {"columns": figure.columns[:_MOST_CELLS], "rows": rows, "note": " and ".join(beyond)}


_MOST_CELLS = 48
"""The most rows and columns of a table."""
_SHADES = 8
"""Shades of the cells of a table: more cannot be distinguished."""


def _plot(figure: Plot, most: int) -> View:
    measured = [_measured(line, most, joined=figure.joined) for line in figure.lines]
    across = Axis.over([x for points in measured for x, *_ in points])
    up = Axis.over([y for points in measured for _, *ys in points for y in ys], zero=figure.joined).widened()
    series = [
        _series(points, across, up, joined=figure.joined) | {"shape": number % _SHAPES if figure.joined else 0}
        for number, points in enumerate(measured)
    ]
    # Points of several series hide each other: each gets a chart, side by side on the same scale.
    charts = (
        [("", series)]
        if figure.joined
        else [(line.label, [chart]) for line, chart in zip(figure.lines, series, strict=True)]
    )
    fewer = max((len(line.points) for line in figure.lines), default=0) > most
    return {
        "x": figure.x,
        "y": figure.y,
        "x_ticks": across.ticks(),
        "y_ticks": [(round(100 - share, 2), words) for share, words in up.ticks()],
        "grid": "".join(f"M0 {round(GRID * (1 - share / 100))}h{GRID}" for share, _ in up.ticks()),
        "charts": charts,
        "legend": [(number % _SHAPES, line.label) for number, line in enumerate(figure.lines)]
        if figure.joined and len(figure.lines) > 1
        else [],
        "note": f"{most:,} points of each series are drawn" if fewer else "",
    }


_SHAPES = 4
"""Lines and spans differ by colour and shape; the fifth looks like the first."""


def _measured(line: Line, most: int, *, joined: bool) -> list[Point]:
    """What is drawn of a line: x and y, and the lowest and highest y where it has a spread."""
    points: list[Point] = list(line.points)
    if line.spread:
        points = [(*point, *ends) for point, ends in zip(line.points, line.spread, strict=False)]
    kept = thinned(points, most) if joined else drawn(points, most)
    return [point for point in kept if all(map(math.isfinite, point))]


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most about `most` of the points of a line, with the lowest and highest of each stretch."""
    if len(points) <= most:
        return list(points)
    width = math.ceil(2 * len(points) / most)
    kept: list[Point] = []
    for start in range(0, len(points), width):
        part = range(start, min(start + width, len(points)))
        ends = {min(part, key=lambda number: points[number][1]), max(part, key=lambda number: points[number][1])}
        kept += [points[number] for number in sorted(ends)]
    return kept


def drawn(points: Sequence[Point], most: int) -> list[Point]:
    """At most `most` of the points of a cloud: a random choice, as every n-th may be those of a single worker."""
    if len(points) <= most:
        return list(points)
    return [points[number] for number in sorted(random.Random(0).sample(range(len(points)), most))]


def _series(points: Sequence[Point], across: Axis, up: Axis, *, joined: bool) -> View:
    middle = [(x, y) for x, y, *_ in points]
    spread = [(x, ends[0], ends[1]) for x, _, *ends in points if ends]
    band = [(x, high) for x, _, high in spread] + [(x, low) for x, low, _ in reversed(spread)]
    return {
        "path": _path(middle, across, up, "L") if joined else "",
        "dots": _path(middle, across, up, "") if not joined or len(points) <= _MOST_MARKED else "",
        "dense": len(points) > _DENSE,
        "band": _path(band, across, up, "L") + "z" if joined and len(spread) > 1 else "",
    }


_MOST_MARKED = 40
"""A line of at most this many points has a dot for each."""
_DENSE = 250
"""The dots of more points than this are smaller."""


def _path(points: Sequence[tuple[float, float]], across: Axis, up: Axis, join: str) -> str:
    """A line through the points, or without `join` a dot at each: a stroke of no length with round ends."""
    places = [f"{round(GRID * across.share(x))} {round(GRID * (1 - up.share(y)))}" for x, y in points]
    return "M" + join.join(places) if join else "".join(f"M{point}h0" for point in dict.fromkeys(places))


def _timeline(figure: Timeline, most: int) -> View:
    spans = [span for _, lane in figure.lanes for span in lane]
    first = min((span.start for span in spans), default=0.0)
    last = max((span.end for span in spans), default=0.0)
    unit, factor = ("s", 1.0) if last - first >= 1 else ("ms", 1e3)
    axis = Axis.over([0.0, (last - first) * factor])
    kinds = list(dict.fromkeys(span.kind for span in spans))
    longest = sorted(spans, key=lambda span: span.start - span.end)[:most]
    kept = set(map(id, longest))

    def placed(span: Span) -> View:
        start, end = (axis.share((moment - first) * factor) for moment in (span.start, span.end))
        words = f"{span.label}, {span.kind}, {(span.end - span.start) * factor:.3g} {unit}" if span.label else ""
        return {
            "x": percent(start),
            "width": max(percent(end - start), 0.1),
            "shape": kinds.index(span.kind) % _SHAPES,
            "words": words,
        }

    return {
        "lanes": [(name, [placed(span) for span in lane if id(span) in kept]) for name, lane in figure.lanes],
        "ticks": axis.ticks(),
        "unit": unit,
        "legend": [(number % _SHAPES, kind) for number, kind in enumerate(kinds)],
        "note": f"the {most} longest of {len(spans):,} are drawn" if len(spans) > most else "",
    }


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale from `low` to `high` with a tick every `step`."""

    low: float
    high: float
    step: float

    @classmethod
    def over(cls, values: Sequence[float], *, zero: bool = False, ticks: int = 5) -> Axis:
        """Return the axis that holds all finite `values`, and zero if asked, with about so many ticks."""
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        if low == high:
            low, high = (low, low + 1) if low == 0 else (min(low, 0.0), max(high, 0.0))
        step = _round_step((high - low) / ticks)
        if all(value == int(value) for value in finite):
            step = max(step, 1.0)
        return cls(low, high, step)

    def widened(self) -> Axis:
        """The axis from tick to tick."""
        low, high = math.floor(self.low / self.step + 1e-9), math.ceil(self.high / self.step - 1e-9)
        return Axis(low * self.step, high * self.step, self.step)

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def ticks(self) -> list[tuple[float, str]]:
        """The position of each tick in percent, and its number."""
        first, last = math.ceil(self.low / self.step - 1e-9), math.floor(self.high / self.step + 1e-9)
        return [
            (percent(self.share(number * self.step)), number_words(number * self.step, self.step))
            for number in range(first, last + 1)
        ]


GRID = 1000
"""Charts are drawn on a grid of this many steps in each direction, and stretched to the width of the page."""


def percent(share: float) -> float:
    """A share as a short number of percent."""
    return round(100 * share, 2)


def number_words(value: float, step: float) -> str:
    """`1,500`, `0.25`: as many decimals as the step needs."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step < 1 else 0
    return f"{value + 0.0:,.{decimals}f}" if abs(value) < 1e7 else f"{value:.3g}"


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(round_ for round_ in (power, 2 * power, 5 * power, 10 * power) if round_ >= step * (1 - 1e-9))


def sentence(studio: FigureRenderer) -> str:
    """What a page says of the images it contains."""
    if not studio.images and not studio.left_out:
        return "This report contains no images of your data."
    words = f"This report contains {counted(studio.images, 'images')} of samples."
    if studio.left_out:
        words += (
            f" {counted(studio.left_out, 'images')} of less severe findings were left out to keep it below {size(5e6)}."
        )
    return words
