"""Text layout: cleaned, wrapped with a hanging indent, long values shortened.

Knows about terminals, not about checks. Every string passes `Page.text`, so whatever the user's code puts into a
message can neither move the cursor nor fail to be encoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from dataguard.machine.units import counted
from dataguard.render.escapes import cleaned, one_line, without_commands

_CODE = re.compile(r"`+[^`]+`+")
_BULLET = re.compile(r"([-*]|\d+[.)]) +")
_PACKAGES = re.compile(r"(?<![^\s\"'(])[^\s\"'(]*[/\\](?:site|dist)-packages[/\\]")
_WORD = re.compile(r"\s*\S+\s*")
_MOST_ITEMS = 12
"""Entries of a list that are written without -v."""
_MOST_CHARACTERS = 400
"""Characters of a value that are written without -v: about four lines."""


Palette = Literal["standard", "256", "truecolor"]
"""The colours of a terminal: its 16, 256 or all."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a given width that text is written to from top to bottom."""

    console: Console
    unicode: bool
    home: re.Pattern[str] | None
    """Matches the current directory at the start of a path."""

    @classmethod
    def blank(
        cls,
        width: int,
        *,
        colour: bool,
        unicode: bool,
        palette: Palette = "standard",
    ) -> Page:
        """Return an empty page; without `colour` it contains no escape sequences."""
        console = Console(
            file=StringIO(),
            width=max(width, 20),
            force_terminal=colour,
            color_system=palette if colour else None,
            no_color=not colour,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            _environ={},
        )
        return cls(console, unicode, current_folder())

    def text(self, words: str, style: str = "") -> Text:
        """Return text that is safe to print, with `code` in backticks highlighted."""
        # A span and not a base style: text appended to a Text inherits its base style.
        text = Text.assemble((self.clean(words), style))
        text.highlight_regex(_CODE, "cyan")
        return text

    def clean(self, words: str) -> str:
        """Escape control characters; in ASCII mode, everything beyond ASCII."""
        return cleaned(words, unicode=self.unicode)

    def short(self, words: str) -> str:
        """Shorten paths below the current directory or the installed packages."""
        return shortened(words, self.home)

    def put(self, body: Text | str = "", *, lead: Text | str = "", fold: bool = True, hang: int = 0) -> None:
        """Write `body` after `lead`, and indent its other lines by the width of the lead and `hang` more.

        Without `fold` a line may exceed the width, so that paths and commands can be copied in one piece.
        """
        body = self.text(body) if isinstance(body, str) else body
        head = self.text(lead) if isinstance(lead, str) else lead
        indent = Text(" " * (head.cell_len + hang))
        room = max(self.console.width - indent.cell_len, 12)
        lines = _wrapped(body, room) if fold else body.split("\n")
        for number, part in enumerate(lines or [Text()]):
            line = (indent if number else head) + part
            line.rstrip()
            if self.console.is_terminal:
                self.console.print(line, soft_wrap=True)
            else:  # the same, in half the time
                self.console.file.write(f"{line.plain}\n")

    def flow(self, parts: Iterable[Text], *, lead: Text | str = "", between: str = ", ") -> None:
        """Write parts one after another, breaking lines only between them."""
        head = self.text(lead) if isinstance(lead, str) else lead
        room = self.console.width - head.cell_len - len(between.rstrip())
        line = Text()
        for part in parts:
            if line and line.cell_len + len(between) + part.cell_len > room:
                self.put(line + between, lead=head)
                head, line = Text(" " * head.cell_len), part
            else:
                line = line + between + part if line else part
        self.put(line, lead=head)

    def prose(self, words: str, *, lead: Text | str = "") -> None:
        """Write Markdown paragraphs, bullets and code, the first line after `lead`."""
        head = self.text(lead) if isinstance(lead, str) else lead
        indent = " " * head.cell_len
        for bullet, block, verbatim in blocks(words):
            self.put(block, lead=head + bullet, fold=not verbatim)
            head = Text(indent)

    def rule(self, title: str = "", note: str = "", *, style: str = "") -> None:
        """Write a horizontal rule with a title on the left and a note on the right."""
        left = self.text(f"━━ {one_line(title)} ".replace("  ", " ") if title else "━━", style)
        right = self.text(f" {note} ━━" if note else "", style)
        if left.cell_len + right.cell_len > self.console.width:
            right = Text()
        gap = max(self.console.width - left.cell_len - right.cell_len, 0)
        self.put(left + self.text("━" * gap, style) + right, fold=False)

    def finish(self) -> str:
        """Return everything written, without trailing spaces or consecutive blank lines."""
        stream = self.console.file
        assert isinstance(stream, StringIO)
        lines = [line.rstrip() for line in stream.getvalue().splitlines()]
        return without_commands(re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n")


def _wrapped(body: Text, room: int) -> Iterator[Text]:
    """The lines of a text broken between words: never inside a path or a name, nor in `code` that fits on a line."""
    for paragraph in body.split("\n", allow_blank=True):
        joined = _CODE.sub(lambda code: code[0] if len(code[0]) > room else code[0].replace(" ", "_"), paragraph.plain)
        column, breaks = 0, []
        for word in _WORD.finditer(joined):
            if column and column + cell_len(word[0].rstrip()) > room:
                breaks.append(word.start())
                column = 0
            column += cell_len(word[0])
        yield from paragraph.divide(breaks)


def fold(value: Any, *, full: bool = False) -> str:
    """Return a JSON-able value as readable text; unless `full`, a long one is cut and says by how much."""
    text = _spelled(value, full)
    if full or "\n" in text or len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS].rstrip()} … {counted(len(text) - _MOST_CHARACTERS, 'more characters')}"


def middle_out(lines: list[str], keep: int) -> list[str]:
    """Return the first and last lines if there are more than `keep`, with a line that counts the omitted ones."""
    if len(lines) <= keep:
        return lines
    first = keep // 2
    last = keep - first - 1
    return [*lines[:first], f"… {len(lines) - first - last} more lines (-v shows them) …", *lines[-last:]]


def _spelled(value: Any, full: bool) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return _listed([f"{key}: {_nested(item, full)}" for key, item in value.items()], full)
    if isinstance(value, list | tuple):
        return _listed([_nested(item, full) for item in value], full)
    return str(value)


def _nested(value: Any, full: bool) -> str:
    brackets = "{}" if isinstance(value, Mapping) else "[]" if isinstance(value, list | tuple) else None
    return _spelled(value, full) if brackets is None else f"{brackets[0]}{_spelled(value, full)}{brackets[1]}"


def _listed(items: list[str], full: bool) -> str:
    if not items:
        return "none"
    if full or len(items) <= _MOST_ITEMS:
        return ", ".join(items)
    return f"{', '.join(items[: _MOST_ITEMS - 2])}, … {len(items) - _MOST_ITEMS + 2:,} more"


def blocks(words: str) -> Iterator[tuple[str, str, bool]]:
    """Yield (bullet, text, verbatim): a paragraph or list item joined into one line, or one line of code."""
    bullet, joined, fenced = "", "", False
    for line in [*words.strip("\n").splitlines(), ""]:
        fence = line.lstrip().startswith("```")
        verbatim = fenced or (line.startswith("    ") and not joined)
        item = None if verbatim else _BULLET.match(line.lstrip())
        if joined and (fence or item or not line.strip()):
            yield bullet, joined, False
            bullet, joined = "", ""
        if fence:
            fenced = not fenced
        elif verbatim and line.strip():
            yield "", line if fenced is False else f"    {line}", True
        elif item:
            bullet, joined = item[0], line.lstrip()[item.end() :]
        elif line.strip():
            joined = f"{joined} {line.strip()}".strip()


def shortened(words: str, home: re.Pattern[str] | None) -> str:
    """The words with the paths below the current directory or the installed packages shortened."""
    words = home.sub("", words) if home else words
    return _PACKAGES.sub("…/", words) if "-packages" in words else words


def current_folder() -> re.Pattern[str] | None:
    """Matches the current directory at the start of a path; None where it shortens nothing."""
    try:
        here = Path.cwd()
    except OSError:
        return None  # the current directory was deleted: show absolute paths
    return None if here == Path(here.anchor) else re.compile(rf"(?<![\w./\\-]){re.escape(str(here))}[/\\](?=\S)")
