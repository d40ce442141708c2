"""Targets that cannot be imported by name: objects that `dataguard.scan` was given, and scripts. Loads no torch.

An object is an attribute of this module while it is scanned: processes that are forked from this one find it by a
spelling like any other.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from dataguard.model import UsageError

_numbers = count(1)


def hold(value: Any, name: str = "loader") -> str:
    """Keep an object, and return its spelling. Raises UsageError where processes cannot be forked."""
    if not hasattr(os, "fork"):
        kind = type(value).__name__
        raise UsageError(f"a {kind} in hand needs os.fork, which this system lacks: name a target, 'pkg.mod:factory'")
    attribute = f"object_{next(_numbers)}"
    globals()[attribute] = value
    return f"{name}={__name__}:{attribute}"


def is_held(spelling: str) -> bool:
    """Whether a spelling is that of a held object, which only a fork of this process can find."""
    return f"={__name__}:" in spelling


def shown(spelling: str) -> str:
    """A target for the reader: the name of a held object, else its spelling."""
    return spelling.partition("=")[0] if is_held(spelling) else spelling


@contextmanager
def held(values: Sequence[Any], names: Sequence[str] = ()) -> Iterator[tuple[str, ...]]:
    """The spellings of these targets: strings are spellings, other objects are held as long as the context lasts."""
    if not names:
        names = ("loader",) if len(values) == 1 else tuple(f"loader{number}" for number in range(1, len(values) + 1))
    spellings = [
        value if isinstance(value, str) else hold(value, name) for value, name in zip(values, names, strict=True)
    ]
    try:
        yield tuple(spellings)
    finally:
        for spelling in filter(is_held, spellings):
            del globals()[spelling.rpartition(":")[2]]


_SCRIPT, _MODULE = "run ", "-m "


def script_spelling(path: str, arguments: Iterable[str]) -> str:
    """The spelling of a script, or of `-m module`, that is called with these arguments."""
    return f"{_SCRIPT}{program(path)} {shlex.join(arguments)}".rstrip()


def program(path: str) -> str:
    """A script, or `-m module`, as a command line has it."""
    return path if path.startswith(_MODULE) else shlex.quote(path)


def module_of(path: str) -> str | None:
    """The module of `-m module`; None of a script."""
    return path.removeprefix(_MODULE) if path.startswith(_MODULE) else None


def script_of(spelling: str) -> list[str]:
    """The path of a script, or `-m module`, and its arguments; [] for any other target."""
    words = shlex.split(spelling.removeprefix(_SCRIPT)) if spelling.startswith(_SCRIPT) else []
    return [_MODULE + words[1], *words[2:]] if words[:1] == [_MODULE.strip()] else words
