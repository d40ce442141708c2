"""The kinds of values that settings have. Standard library only.

A kind is called with a raw value and its origin, and raises UsageError for an invalid value; its shape is the JSON
schema of values in a settings file. It may accept more than the shape says, such as numbers in quotes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dataguard.model import Severity, UsageError
from dataguard.settings.suggestions import shown, suggest
from dataguard.settings.target_spelling import parsed
from dataguard.settings.user_files import require_path

Shape = Mapping[str, Any]

LARGEST = 1_000_000_000
"""The largest number in a setting without a limit of its own: far above any use, and below what counters hold."""
MOST_SECONDS = 10_000_000
"""The longest time: no scan takes 115 days, and timers overflow at some multiples of it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value."""

    parse: Callable[[Any, str], Any]
    shape: Shape

    def __call__(self, value: Any, where: str) -> Any:
        """The value, parsed."""
        return self.parse(value, where)


def table_of(properties: Mapping[str, Any], *required: str) -> Shape:
    """The shape of a table with these keys."""
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": list(required)}


def _words(value: Any, where: str) -> tuple[str, ...]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"{where}: expected a list of strings, got {shown(value)}")
    return tuple(part.strip() for word in words for part in word.split(",") if part.strip())


def whole(minimum: int, maximum: int = LARGEST) -> Kind:
    """An integer from `minimum` to `maximum`, which may be written as text."""

    def parse(value: Any, where: str) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool) or number < minimum:
            raise UsageError(f"{where}: expected an integer of at least {minimum}, got {shown(value)}")
        if number > maximum:
            raise UsageError(f"{where}: expected an integer of at most {maximum}, got {shown(value)}")
        return number

    return Kind(parse, {"type": "integer", "minimum": minimum, "maximum": maximum})


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, of an amount that can be computed with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_COMPUTED <= value <= _COMPUTED


_COMPUTED = 1e30


def is_integer(value: Any) -> bool:
    """Whether a value is an integer that fits into 64 bits, such as a label."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where}: expected true or false, got {shown(value)}")
    return value


def parse_seconds(value: Any, where: str) -> float:
    """A positive number of seconds."""
    try:
        number = float(value)
    except OverflowError:  # of an integer
        number = math.inf
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not number > 0:
        raise UsageError(f"{where}: expected a positive number of seconds, got {shown(value)}")
    if number > MOST_SECONDS:
        raise UsageError(f"{where}: expected at most {MOST_SECONDS} seconds, got {shown(value)}")
    return number


def one_of(choices: tuple[str, ...]) -> Kind:
    """One of these words."""

    def parse(value: Any, where: str) -> str:
        if value not in choices:
            hint = suggest(value if isinstance(value, str) else "", choices, "")
            raise UsageError(f"{where}: expected one of {', '.join(choices)}, got {shown(value)}{hint}")
        return str(value)

    return Kind(parse, {"enum": list(choices)})


def parse_text(value: Any, where: str) -> str:
    """Text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: expected text, got {shown(value)}")
    return value


def _path(value: Any, where: str) -> str:
    require_path(text := parse_text(value, where), where)
    return text


def _paths(value: Any, where: str) -> tuple[str, ...]:
    for path in (paths := _words(value, where)):
        require_path(path, where)
    return paths


def parse_spelling(value: Any, where: str) -> str:
    """The name of a Python object, perhaps with arguments: `pkg.mod:make_model(depth=18)`."""
    text = parse_text(value, where)
    try:
        parsed(text)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return text


def parse_severity(value: Any, where: str) -> Severity:
    """The severity of this name."""
    return Severity(one_of(tuple(severity.value for severity in Severity))(value, where))


def table(value: Any, where: str) -> Mapping[str, Any]:
    """A table."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: expected a table, got {shown(value)}")
    return value


def known_keys(value: Any, known: Collection[str], where: str) -> Mapping[str, Any]:
    """The table; raises UsageError for an unknown key."""
    for key in table(value, where):
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}{suggest(key, known)}")
    return dict(value)


TEXT = Kind(parse_text, {"type": "string", "minLength": 1})
FLAG = Kind(_flag, {"type": "boolean"})
WORDS = Kind(_words, {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
PATH = Kind(_path, TEXT.shape)
PATHS = Kind(_paths, WORDS.shape)
ABOVE_0 = {"type": "number", "exclusiveMinimum": 0}
SECONDS = Kind(parse_seconds, {**ABOVE_0, "maximum": MOST_SECONDS})
INTEGER = {"type": "integer"}
SPELLING = {"type": "string", "pattern": r"^[\w.-]+:\w[\w.]*(\(.+\))?$"}
