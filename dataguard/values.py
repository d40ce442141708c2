"""Values of settings: how users write them, and what they mean. Standard library only.

Each parser takes a value as it came and where it came from, and raises UsageError for one that makes no sense.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dataguard.model import Severity, UsageError

ROLES = ("train", "val", "test")
EVERY_METHOD = "all"
"""Judge the loader's own start method, and what the others change."""
START_METHODS = ("fork", "spawn", "forkserver", EVERY_METHOD)
CONTRACT_KEYS = (
    "channels",
    "normalization",
    "value_range",
    "num_classes",
    "ignore_index",
    "target_form",
    "bbox_format",
    "repeat",
    "step_ms",
    "deterministic",
    "key",
)


def _words(value: Any, where: str) -> tuple[str, ...]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"{where}: expected a list of strings, got {value!r}")
    return tuple(part.strip() for word in words for part in word.split(",") if part.strip())


def _whole(minimum: int) -> Callable[[Any, str], int]:
    def parse(value: Any, where: str) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if not isinstance(number, int) or isinstance(number, bool) or number < minimum:
            raise UsageError(f"{where}: expected a whole number of at least {minimum}, got {value!r}")
        return number

    return parse


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where}: expected true or false, got {value!r}")
    return value


def _seconds(value: Any, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not 0 < number < math.inf:
        raise UsageError(f"{where}: expected a positive number of seconds, got {value!r}")
    return number


def _one_of(choices: tuple[str, ...]) -> Callable[[Any, str], str]:
    def parse(value: Any, where: str) -> str:
        if value not in choices:
            raise UsageError(
                f"{where}: expected one of {', '.join(choices)}, got {value!r}{suggest(str(value), choices)}"
            )
        return str(value)

    return parse


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: expected text, got {value!r}")
    return value


def _severity(value: Any, where: str) -> Severity:
    return Severity(_one_of(tuple(severity.value for severity in Severity))(value, where))


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: expected a table, got {value!r}")
    return value


def _reasons(value: Any, where: str) -> Mapping[str, str]:
    for code, reason in _table(value, where).items():
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError(f'{where}.{code}: a reason is mandatory, such as {code} = "depth maps are not RGB"')
    return dict(value)


def _roles(value: Any, where: str) -> Mapping[str, str]:
    return {loader: _one_of(ROLES)(role, f"{where}.{loader}") for loader, role in _table(value, where).items()}


def _contract(value: Any, where: str) -> Mapping[str, Any]:
    for key in _table(value, where):
        if key not in CONTRACT_KEYS:
            raise UsageError(f"{where}: unknown key {key!r}{suggest(key, CONTRACT_KEYS)}")
    if "key" in value:
        _text(value["key"], f"{where}.key")
    if "repeat" in value:
        _whole(1)(value["repeat"], f"{where}.repeat")
    return dict(value)


def suggest(word: str, known: Iterable[str]) -> str:
    """What to say of a word that is none of the known ones: the closest of them, or all."""
    options = list(known)
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(options)}"


PARSERS: Mapping[str, Callable[[Any, str], Any]] = {
    "targets": _words,
    "select": _words,
    "ignore": _words,
    "samples": _whole(1),
    "all": _flag,
    "budget": _seconds,
    "timeout": _seconds,
    "seed": _whole(0),
    "workers": _whole(0),
    "start_method": _one_of(START_METHODS),
    "ranks": _whole(1),
    "checks": _text,
    "fail_on": _severity,
    "expect": _reasons,
    "roles": _roles,
    "contract": _contract,
}
"""The parser of each setting."""
