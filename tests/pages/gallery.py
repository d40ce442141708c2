"""The gallery: for each family of checks that draws, a figure of a sample's report, and the finding that it shows."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from html import escape, unescape
from pathlib import Path
from typing import Any

import dataguard
from dataguard.checks import CATALOGUE
from dataguard.core.figures import Matrix, Pictures
from dataguard.render.check_pages import grouped, sentence
from dataguard.render.html.figures import FigureRenderer

FOLDER = Path(__file__).parents[2] / "docs" / "gallery"
SHOWN = {
    "DG101": "tests.loaders.photographs:equal_crops",
    "DG201": "sample_datasets.dg201_unsharded_workers:bad",
    "DG505": "tests.loaders.photographs:bgr_photographs",
    "DG508": "tests.loaders.photographs:rotated_photographs",
    "DG511": "sample_datasets.dg511_blended_mask:bad",
    "DG512": "sample_datasets.dg512_desynced_target:bad_boxes",
    "DG514": "sample_datasets.dg514_leaked_split:bad",
    "DG531": "sample_datasets.dg531_ignored_sample_rate:bad",
}
"""The targets that are shown, by check. Only figures that look the same in each run: no times, no memory."""
_CELL = {"pictures": 176, "matrix": 56}
"""Pixels of a side of a cell, by kind of figure."""
_LABEL, _LINE, _GAP = 120, 15, 12
"""Pixels of the column of labels, of a line of text and between cells."""
_LETTERS = {"label": 15, "picture": 30}
"""Characters that fit into the column of labels, and of small text into a picture's width."""
_WORDS = re.compile(r"<title>(.*?)</title>\n<desc>(.*?)</desc>", re.DOTALL)
_CHECKS = {check.code: check for check in CATALOGUE}


def stale() -> Iterator[tuple[Path, str]]:
    """The pictures whose words are not those of a scan, which this starts for each; bytes of images may differ."""
    for code, target in SHOWN.items():
        path, picture = FOLDER / f"{code.lower()}.svg", scanned(code, target)
        if not path.exists() or words_of(path.read_text(encoding="utf-8")) != words_of(picture):
            yield path, picture


def scanned(code: str, target: str) -> str:
    """The first figure in a report of a target, as SVG."""
    report = dataguard.scan(target, select=[code], pictures=True)
    result = next(result for result in report.failed if result.figures)
    figure = next(figure for figure in result.figures if isinstance(figure, Pictures | Matrix))
    return drawn(figure, result.findings[0].message)


def words_of(svg: str) -> tuple[str, str]:
    """The message of the finding that a picture shows, and what it says to a reader who does not see it."""
    found = _WORDS.search(svg)
    assert found, "the picture has no description"
    return unescape(found[1]), unescape(found[2])


def drawn(figure: Pictures | Matrix, message: str) -> str:
    """The figure of a finding as SVG, which loads nothing."""
    view = FigureRenderer([figure]).draw(figure)
    side = _CELL[view["kind"]]
    lefts = [_LABEL + number * (side + _GAP) for number in range(len(figure.columns))]
    parts = [_text(left + side / 2, _LINE, name, "middle") for left, name in zip(lefts, figure.columns, strict=True)]
    top = float(_LINE + _GAP)
    for label, cells in view["rows"]:
        row = _counts if view["kind"] == "matrix" else _pictures
        lines, height, below = row(list(zip(lefts, cells, strict=True)), top, side)
        words = textwrap.wrap(label, _LETTERS["label"])
        middle = top + height / 2 - _LINE * (len(words) - 2) / 2
        parts += [_text(_LABEL - _GAP, middle + _LINE * line, text, "end") for line, text in enumerate(words)]
        parts += lines
        top += height + below + _GAP
    description = f"{figure.summary} {'; '.join(filter(None, [*figure.columns, *figure.rows]))}"
    size = f'width="{lefts[-1] + side + _GAP}" height="{top:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="13">'
    title = f"<title>{escape(message)}</title>\n<desc>{escape(description)}</desc>"
    return "\n".join([head, title, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


Row = tuple[list[str], float, float]
"""The elements of a row, its height, and that of the text below it."""


def _counts(cells: Sequence[tuple[float, tuple[str, int]]], top: float, side: float) -> Row:
    """A row of a matrix: a cell is the darker the more it counts."""
    parts = []
    for left, (words, level) in cells:
        paint = f'fill="#3f51b5" fill-opacity="{level / 12:.2f}" stroke="#ccc"'
        parts.append(f'<rect x="{left:g}" y="{top:g}" width="{side:g}" height="{side:g}" {paint}/>')
        parts.append(_text(left + side / 2, top + side / 2 + 5, words, "middle"))
    return parts, side, 0


def _pictures(cells: Sequence[tuple[float, dict[str, Any] | None]], top: float, side: float) -> Row:
    """A row of pictures, with their labels below."""
    there = [(left, cell, side / max(cell["width"], cell["height"])) for left, cell in cells if cell]
    height = max((cell["height"] * scale for _, cell, scale in there), default=0)
    parts: list[str] = []
    most = 0
    for left, cell, scale in there:
        parts += _picture(left, top, cell["width"] * scale, cell["height"] * scale, cell)
        words = textwrap.wrap(cell["label"], _LETTERS["picture"])
        most = max(most, len(words))
        below = top + height + _LINE
        parts += [_text(left, below + _LINE * line, text, small=True) for line, text in enumerate(words)]
    return parts, height, _LINE * most


def _text(left: float, top: float, words: str, anchor: str = "start", *, small: bool = False) -> str:
    size = ' font-size="11" fill="#555"' if small else ""
    return f'<text x="{left:g}" y="{top:g}" text-anchor="{anchor}"{size}>{escape(words)}</text>'


def _picture(left: float, top: float, width: float, height: float, cell: dict[str, Any]) -> Iterator[str]:
    """An image with its mask and its boxes, and the letter that it shares with those that are identical."""
    place = f'x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}"'
    smooth = ' style="image-rendering:pixelated"' if cell["small"] else ""
    for source in filter(None, (cell["src"], cell["mask"])):
        yield f'<image {place}{smooth} preserveAspectRatio="none" href="{source}"/>'
    for box in cell["boxes"]:
        x, y = left + width * box["x"] / 100, top + height * box["y"] / 100
        wide, high = width * box["width"] / 100, height * box["height"] / 100
        corner, size = f'x="{x:g}" y="{y:g}"', f'width="{wide:g}" height="{high:g}"'
        yield f'<rect {corner} {size} fill="none" stroke="red" stroke-width="2"/>'
    if cell["letter"]:
        yield f'<rect x="{left:g}" y="{top:g}" width="20" height="20" fill="white"/>'
        yield _text(left + 10, top + 15, cell["letter"], "middle")


def gallery() -> str:
    """The text of `docs/gallery.md`."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield "<!-- Generated by `python -m tests.pages` from scans. -->\n\n"
    yield "# Gallery: what the model saw\n\n"
    yield "Figures of real reports, of small loaders with one defect each: `dataguard scan TARGET --pictures "
    yield "--output report.html` draws them of your own data. Images with the same letter are identical. "
    yield "[Findings](findings.md) has an example of every check, [Reports](reports.md) what a report shows.\n"
    for title, codes in grouped(SHOWN).items():
        yield f"\n## {title}\n"
        for code in codes:
            check, picture = _CHECKS[code], FOLDER / f"{code.lower()}.svg"
            message, description = words_of(picture.read_text(encoding="utf-8"))
            yield f"\n[{check.id}](checks/{check.stem}.md): `{' '.join(message.split()).replace('`', '')}`\n\n"
            yield f"{sentence(check.doc.symptom)}\n\n![{_alternative(description)}](gallery/{picture.name})\n"


def _alternative(text: str) -> str:
    """Text in one line, in the brackets of an image of Markdown."""
    return " ".join(text.split()).replace("[", "\\[").replace("]", "\\]")
