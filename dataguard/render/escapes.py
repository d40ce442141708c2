"""Words of the user's code made safe to print: they can neither move a cursor nor command the program that reads them.

Standard library only.
"""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_IGNORED = "\xad\u034f\u180e\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff"
"""Characters of no width, which .NET ignores where it compares strings; the runners of GitHub and Azure run on it."""
_AT_START = re.compile(rf"^([^\S\n]*)(?=[{_IGNORED}]*:[{_IGNORED}]*:)", re.MULTILINE)
"""`::error` of GitHub Actions, which ignores spaces before it."""
_ANYWHERE = re.compile(rf"#(?=[{_IGNORED}]*#[\w{_IGNORED}]*\[)")
"""`##[error]` of GitHub Actions and Azure, `##vso[` of Azure and `##teamcity[` are commands anywhere in a line."""


def one_line(words: str) -> str:
    """The words on a single line; a newline is shown as an escape sequence too."""
    return escaped(words).replace("\n", "\\n")


def escaped(words: str) -> str:
    r"""The words with every control character but newlines as an escape sequence, and `##[error]` as `#\#[error]`."""
    return _ANYWHERE.sub(r"#\\", _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), words))


def printable(words: str) -> str:
    """The words as lines that can be printed to any terminal or log."""
    return without_commands(escaped(words))


def without_commands(lines: str) -> str:
    r"""The lines, of which none begins with a command to GitHub Actions: `::error` becomes `\::error`."""
    return _AT_START.sub(r"\1\\", lines)


def json_without_commands(document: str) -> str:
    """The same JSON document, of which no line is a command: its strings hold `#` as an escape where one would be."""
    return _ANYWHERE.sub(r"\\u0023", document)


_ASCII = str.maketrans(
    {"━": "=", "✗": "x", "✓": "+", "→": "->", "·": "-", "…": "...", "—": "--", "≥": ">=", "≤": "<=", "≈": "~"}
    | {"\u2013": "-", "\xd7": "x", "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'}
)


def cleaned(words: str, *, unicode: bool) -> str:
    """Escape control characters; unless a terminal takes `unicode`, everything beyond ASCII."""
    words = escaped(words.replace("\r\n", "\n").expandtabs(4))
    return words if unicode else words.translate(_ASCII).encode("ascii", "backslashreplace").decode()
