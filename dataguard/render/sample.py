"""The text output of `dataguard show`: each leaf of a sample on a line, and its pictures in a terminal with colours."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rich.text import Text

from dataguard.core.figures import LeafView, SampleView, SampleViews
from dataguard.render.escapes import one_line
from dataguard.render.layout import Page, Palette

if TYPE_CHECKING:
    from PIL.Image import Image

_WIDEST_PICTURE = 48
"""The widest picture in a terminal, in characters."""
_PATH, _TYPE, _SHAPE = 30, 24, 20
"""The widest columns; a longer entry shifts the rest of its line."""


def render(views: SampleViews, *, width: int = 100, colour: bool = False, unicode: bool = True, **look: Any) -> str:
    """Return the samples as text of `width` columns; pictures are drawn with `colour` and `unicode`."""
    many: Palette = "truecolor" if os.environ.get("COLORTERM") in ("truecolor", "24bit") else "256"
    page = Page.blank(width, colour=colour, unicode=unicode, palette=many)
    page.put(page.text(one_line(views.target), "bold") + page.text(f" [{one_line(views.loader)}]", "dim"))
    drawn = colour and unicode and find_spec("PIL") is not None
    for sample in views.samples:
        page.put()
        page.put(page.text(one_line(sample.name), "bold"))
        _write_leaves(page, sample.leaves)
        for number, (leaf, source) in enumerate(sample.sources):
            head = page.text(f"  {'' if number else 'from':<4}  {one_line(leaf)}{'  ' if leaf else ''}", "dim")
            page.put(page.text(one_line(source)), lead=head, fold=False)
        for line in sample.error.splitlines():
            page.put(page.text(page.short(line), "red"), lead="  ", fold=False)
        if drawn:
            _draw(page, sample)
    if views.others:
        page.put()
        page.put(f"other loaders: {one_line(', '.join(views.others))} (--loader)")
    return page.finish()


def _write_leaves(page: Page, leaves: Sequence[LeafView]) -> None:
    rows = [(one_line(leaf.path), one_line(leaf.type), shape_of(leaf)) for leaf in leaves]
    widths = [
        max((len(row[column]) for row in rows if len(row[column]) <= most), default=0)
        for column, most in enumerate((_PATH, _TYPE, _SHAPE))
    ]
    for leaf, (path, kind, shape_text) in zip(leaves, rows, strict=True):
        head = page.text(f"  {path:<{widths[0]}}  {kind:<{widths[1]}}  {shape_text:<{widths[2]}}  ")
        digest = page.text(f"  #{leaf.digest}" if leaf.digest else "", "dim")
        note = page.text(f"  {leaf.note}" if leaf.note else "", "yellow")
        page.put(page.text(one_line(leaf.values)) + digest + note, lead=head, fold=False)


def shape_of(leaf: LeafView) -> str:
    """`3 × 224 × 224`; empty for a single value."""
    return "" if leaf.shape is None else " × ".join(map(str, leaf.shape)) or "scalar"


def _draw(page: Page, sample: SampleView) -> None:
    from dataguard.render.sample_picture import composed

    for picture in sample.pictures:
        page.put()
        page.put(page.text(picture.label, "dim"), lead="  ")
        for line in _half_blocks(composed(picture), min(_WIDEST_PICTURE, page.console.width - 2)):
            page.put(line, lead="  ", fold=False)


def _half_blocks(image: Image, columns: int) -> Iterator[Text]:
    """Lines of characters, each of which shows two pixels, one above the other."""
    wide = min(columns, image.width)
    small = image.resize((wide, 2 * max(1, round(wide * image.height / image.width / 2))))
    pixels = small.tobytes()
    colours = [f"#{pixels[start : start + 3].hex()}" for start in range(0, len(pixels), 3)]
    for top in range(0, len(colours), 2 * wide):
        line = Text()
        for above, below in zip(colours[top : top + wide], colours[top + wide : top + 2 * wide], strict=True):
            line.append("▀", f"{above} on {below}")
        yield line
