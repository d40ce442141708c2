"""Words of the user's code made safe to print: they can neither move a cursor nor command the program that reads them.

Standard library only.
"""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_COMMAND = re.compile(r"^(\s*)::", re.MULTILINE)
"""What a line of a log begins with to command GitHub Actions, which ignores spaces before it."""


def escaped(words: str) -> str:
    """The words with every control character but newlines shown as an escape sequence."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), words)


def one_line(words: str) -> str:
    """The words on a single line; a newline is shown as an escape sequence too."""
    return escaped(words).replace("\n", "\\n")


def without_commands(lines: str) -> str:
    r"""The lines, of which none is a command to GitHub Actions: `::error` becomes `\::error`."""
    return _COMMAND.sub(r"\1\\::", lines)
