"""Jinja templates, and the filters that make every string safe and short enough to show."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from dataguard.machine.units import counted
from dataguard.render.check_pages import sentence
from dataguard.render.escapes import escaped, one_line, without_commands
from dataguard.render.layout import blocks


def page(template: str, *, layout: str = "page.html.j2", unicode: bool = True, **context: Any) -> str:
    """Return a page with this layout: a whole document, or what a notebook embeds.

    Without `unicode` it is pure ASCII and reads the same.
    """
    text = without_commands(_environment().get_template(template).render(layout=layout, **context))
    return text if unicode else text.encode("ascii", "xmlcharrefreplace").decode()


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("dataguard.render.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalize,
    )
    made.filters |= {"line": line, "prose": prose, "markdown": markdown, "counted": counted, "trusted": Markup}
    made.filters["highlighted"] = highlighted
    source, _, _ = PackageLoader("dataguard.render.html").get_source(made, "style.css")
    style = re.sub(r"/\*.*?\*/|^\s+", "", source, flags=re.DOTALL | re.MULTILINE)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    made.globals |= {"style": Markup(style), "style_hash": digest}
    return made


def _finalize(value: object) -> object:
    """What each expression of a template yields: markup as it is, anything else as safe text."""
    return value if isinstance(value, Markup) else clean(str(value))


_LINE, _PROSE = 160, 2_000
"""The most characters of one line, and of a paragraph."""


def line(words: object, most: int = _LINE) -> str:
    """A name or a path on a single line."""
    return one_line(cut(str(words), most))


def prose(words: str, most: int = _PROSE) -> Markup:
    """A sentence, with `code` in backticks as code."""
    return Markup(_CODE.sub(r"<code>\2</code>", str(escape(clean(words, most)))))


_CODE = re.compile(r"(`+)([^`]+)\1")
_MOST_CHARACTERS = 20_000
"""The most characters of one string, whatever it is; everything else is shorter."""


def clean(words: str, most: int = _MOST_CHARACTERS) -> str:
    """The words without control characters but newlines."""
    return escaped(cut(words, most).replace("\r\n", "\n").expandtabs(4))


def cut(words: str, most: int) -> str:
    """The first `most` characters of a longer string, and how many follow."""
    return words if len(words) <= most else f"{words[:most].rstrip()} … {counted(len(words) - most, 'more characters')}"


def markdown(words: str) -> Markup:
    """The paragraphs, lists and code of a section of a check's documentation."""
    return Markup().join(_elements(sentence(words)))


def _elements(words: str) -> Iterator[Markup]:
    kinds = (
        (("pre" if verbatim else "ol" if bullet[:1].isdigit() else "ul" if bullet else "p"), text)
        for bullet, text, verbatim in blocks(words)
    )
    for kind, group in groupby(kinds, key=lambda block: block[0]):
        texts = [text for _, text in group]
        if kind == "pre":
            yield Markup("<pre><code>{}</code></pre>").format("\n".join(text.removeprefix("    ") for text in texts))
        elif kind == "p":
            yield Markup().join(Markup("<p>{}</p>").format(prose(text)) for text in texts)
        else:
            items = Markup().join(Markup("<li>{}</li>").format(prose(text)) for text in texts)
            yield Markup("<{0}>{1}</{0}>").format(Markup(kind), items)


def highlighted(words: str) -> Markup:
    """Lines whose last one underlines columns with `^`, marked above it; any other words as they are."""
    *above, last = words.splitlines() or [""]
    spans = [match.span() for match in _UNDERLINED.finditer(last)]
    if not above or not spans or last[_NAME_CHARACTERS:].strip(" ^"):
        return Markup("{}").format(clean(words))
    return Markup("\n").join([*(_marked(line, spans) for line in above), Markup("{}").format(clean(last))])


_UNDERLINED = re.compile(r"\^+")
_NAME_CHARACTERS = 8
"""The characters of the name before each line of columns."""


def _marked(line: str, spans: Sequence[tuple[int, int]]) -> Markup:
    parts, done = Markup(), 0
    for start, end in spans:
        parts += Markup("{}<mark>{}</mark>").format(clean(line[done:start]), clean(line[start:end]))
        done = end
    return parts + Markup("{}").format(clean(line[done:]))
