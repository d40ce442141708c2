"""What a scan of a hostile loader must say: the name of a defect, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

FAMILIES = ("crashes", "exceptions", "hangs", "lies", "objects", "surroundings", "leftovers", "files", "names")
"""The modules of loaders, `tests.hostile.loaders_*`."""
_DECLARED = "hostile"


@dataclass(frozen=True, slots=True)
class Expected:
    """The outcome of a scan: the one check that fails, None for a loader that passes, and words of its message.

    `select` are the checks that are run; `timeout` and `options` are those of the command line; `makes` matches the
    temporary files that the loader makes and leaves by itself; a `slow` scan is left to `tests.bench.hostile`.
    """

    code: str | None
    words: str = ""
    select: str = "DG0,DG301,DG501"
    timeout: float = 10.0
    options: tuple[str, ...] = ()
    makes: str | None = None
    slow: bool = False


@dataclass(frozen=True, slots=True)
class Hostile:
    """A target, with what is expected of its scan."""

    name: str
    target: str
    expected: Expected

    def __str__(self) -> str:
        return self.name


Factory = Callable[[], Any]


def named(code: str, words: str = "", **how: Any) -> Callable[[Factory], Factory]:
    """A factory whose loaders fail this check, with these words in the message."""
    return _declare(Expected(code, words, **{"select": "DG0", **how}))


def hangs(words: str, **how: Any) -> Callable[[Factory], Factory]:
    """A factory whose loaders hang."""
    return _declare(Expected("DG003", words, **{"select": "DG0", "timeout": 1.0, **how}))


def passes(**how: Any) -> Callable[[Factory], Factory]:
    """A factory whose loaders are odd, and give their samples all the same."""
    return _declare(Expected(None, **how))


def _declare(expected: Expected) -> Callable[[Factory], Factory]:
    def mark(factory: Factory) -> Factory:
        setattr(factory, _DECLARED, expected)
        return factory

    return mark


@dataclass(frozen=True, slots=True)
class Refused:
    """A module that cannot be imported, by its source, and words of the answer."""

    name: str
    source: str
    words: str
    import_timeout: float = 60.0


REFUSED = (  # those that end their process are in tests/process/test_import_survival.py
    Refused("sleep", "import time; time.sleep(1000)", "importing its module takes too long", import_timeout=5.0),
    Refused("noise", "import os; os.write(1, os.urandom(9999)); 1 / 0", "raised ZeroDivisionError"),
    Refused("escapes", r"raise ValueError('\x1b]0;title\x07\x1bc')", "raised ValueError: \\x1b]0;title"),
)


def declared() -> Iterator[Hostile]:
    """All hostile loaders."""
    for family in FAMILIES:
        yield from _declared_in(import_module(f"tests.hostile.loaders_{family}"))


def _declared_in(module: ModuleType) -> Iterator[Hostile]:
    for name, value in vars(module).items():
        expected = getattr(value, _DECLARED, None)
        if expected is not None:
            yield Hostile(name, f"{module.__name__}:{name}", expected)
