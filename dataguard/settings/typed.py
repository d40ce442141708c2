"""Objects of dataclasses from JSON, as `dataclasses.asdict` wrote them. Standard library only."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def built(kind: type[T], value: Any, where: str = "") -> T:
    """An object of a dataclass from a mapping of its fields; unknown ones are ignored.

    Raises ValueError, with the place, for a missing field, and for a value of another type than the field's.
    """
    made: T = _built(kind, value, where)
    return made


def _built(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if is_dataclass(kind):
        given, hints = _of(dict, value, where), get_type_hints(kind)
        missing = [field.name for field in fields(kind) if field.name not in given]
        if missing:
            raise ValueError(f"{where}: no {', '.join(missing)}".lstrip(": "))
        make: Any = kind
        return make(**{field.name: _built(hints[field.name], given[field.name], field.name) for field in fields(kind)})
    if origin in (Union, types.UnionType):
        (some,) = (argument for argument in arguments if argument is not type(None))
        return None if value is None else _built(some, value, where)
    if origin is tuple:
        return tuple(_built(arguments[0], item, where) for item in _of(list, value, where))
    if origin is Mapping:
        return {key: _built(arguments[1], item, where) for key, item in _of(dict, value, where).items()}
    if kind is float:
        number = _of((int, float), value, where)
        if isinstance(number, bool) or not math.isfinite(number) or number > 1e300:
            raise ValueError(f"{where}: not a number: {number!r:.40}")
        return float(number)
    if kind is int and isinstance(value, bool):
        raise ValueError(f"{where}: not an integer: {value!r}")
    return _of(kind, value, where)


def _of(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{where}: not expected: {value!r:.40}".lstrip(": "))
    return value
