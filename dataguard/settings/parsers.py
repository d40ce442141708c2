"""The kind of each setting. Standard library only.

Records, which are objects of dataclasses, as JSON and back. Standard library only.

Only what the type of a field allows is read, whoever wrote the JSON.
"""

from __future__ import annotations

import types
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from dataguard.core.model import Severity, UsageError
from dataguard.settings.contract import (
    CONTRACT,
    FLAG,
    INTEGER,
    PATH,
    PATHS,
    SECONDS,
    SPELLING,
    TEXT,
    WORDS,
    Kind,
    is_integer,
    known_keys,
    one_of,
    parse_contract,
    parse_severity,
    parse_spelling,
    parse_text,
    table,
    table_of,
    whole,
)
from dataguard.settings.target_spelling import as_targets, shown_value

T = TypeVar("T")

_KIND = ""
"""The key of the name of a record's class, for fields that hold records of several classes."""
_MOST_LEVELS = 64
"""Levels of lists and mappings in one another: far more than any record has, and far fewer than Python recurses."""
_LONGEST_INTEGER = 4096
"""Bits of an integer that is written as a number; Python reads at most 4,300 digits."""
_LARGEST_FLOAT = 1e300
"""Just below the largest float64 (1.8e308), so that sums of a few still fit."""
_SCALARS: Mapping[type[Any], type[Any]] = {bool: int, int: int, str: str}
"""Types that are read as they are, and the types of the JSON that they are made of: a bool is an integer."""


def plain(value: Any) -> Any:
    """The value as JSON: records with the name of their class, sequences and sets as lists, other objects as text."""
    if value is None or type(value) in (bool, float, str):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Integral):
        number = int(value)
        return number if number.bit_length() <= _LONGEST_INTEGER else hex(number)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=str)
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        return {_KIND: type(value).__name__, **named}
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


def built(kind: type[T], value: Any) -> T:
    """A value of a type from JSON, as `plain` or `dataclasses.asdict` made it; unknown fields are ignored.

    Raises ValueError, with the name of the field, if one is missing, and for a value of another type than the field's.
    """
    made: T = _built(kind, value, "", 0)
    return made


def _built(kind: Any, value: Any, where: str, depth: int) -> Any:
    if kind is float:
        number = _of((int, float), value, where)
        if not -_LARGEST_FLOAT <= number <= _LARGEST_FLOAT:
            raise _wrong(where, f"not a finite number: {number!r:.40}")
        return float(number)
    if kind in _SCALARS:
        return kind(_of(_SCALARS[kind], value, where))
    if depth > _MOST_LEVELS:
        raise _wrong(where, "nested too deeply")
    if kind in (Any, object):
        container = _CONTAINERS.get(type(value))
        return value if container is None else _built(container, value, where, depth)
    origin, arguments = _generic(kind)
    if origin in (tuple, list):
        items = _of(list, value, where)
        kinds = arguments if origin is tuple and arguments[-1] is not ... else arguments[:1] * len(items)
        if len(items) != len(kinds):
            raise _wrong(where, f"{len(items)} items instead of {len(kinds)}")
        return origin([_built(each, item, where, depth + 1) for each, item in zip(kinds, items, strict=True)])
    if origin is Mapping:
        items = _of(dict, value, where).items()
        return {key: _built(arguments[1], item, f"{key!r:.40}", depth + 1) for key, item in items}
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _built(_chosen(arguments, value, where), value, where, depth)
    if origin is Annotated:  # a float that may be infinite or no number
        return float(_of((int, float), value, where))
    if is_dataclass(kind):
        record: Any = kind
        given, hints = _of(dict, value, where), _hints(record)
        missing = [name for name in hints if name not in given]
        if missing:
            raise _wrong(where, f"no {', '.join(missing)}")
        return record(**{name: _built(hint, given[name], name, depth + 1) for name, hint in hints.items()})
    if kind is bytes:
        return b64decode(_of(str, value, where), validate=True)
    return kind(value) if issubclass(kind, Enum) else _of(kind, value, where)


_CONTAINERS: Mapping[Any, Any] = {list: list[Any], dict: Mapping[str, Any]}
"""The types of containers whose content is any JSON."""


@cache
def _generic(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(kind), get_args(kind)


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    """The types of the fields of a record."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}


def _chosen(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    """Of a union, the only type besides None, or the record of the name that the value has."""
    some = [kind for kind in kinds if kind is not type(None)]
    if len(some) == 1:
        return some[0]
    name = _of(dict, value, where).get(_KIND)
    for kind in some:
        if kind.__name__ == name:
            return kind
    raise _wrong(where, f"not expected: {name!r:.40}")


def _of(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, kind):
        raise _wrong(where, f"not expected: {value!r:.40}")
    return value


def _wrong(where: str, why: str) -> ValueError:
    return ValueError(f"{where}: {why}" if where else why)


ROLES = ("train", "val", "test", "predict")
EVALUATION = ("val", "test", "predict")
"""The roles without training."""
EVERY_METHOD = "all"
"""Check the loader with its own start method, and report what changes under the others."""
START_METHODS = ("fork", "spawn", "forkserver", EVERY_METHOD)
MOST_SEED = 2**32 - 1
"""The largest seed that numpy takes."""
MOST_WORKERS = 256
"""The largest number of workers to start: each is a process."""


def _reasons(value: Any, where: str) -> Mapping[str, str]:
    for code, reason in table(value, where).items():
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError(f'{where}.{code}: a reason is required, such as {code} = "depth maps are not RGB"')
    return dict(value)


def _roles(value: Any, where: str) -> Mapping[str, str]:
    return {loader: one_of(ROLES)(role, f"{where}.{loader}") for loader, role in table(value, where).items()}


def _seed(value: Any, where: str) -> int | str:
    """An integer or a string, as hypothesis accepts them."""
    if not isinstance(value, str) and not is_integer(value):
        raise UsageError(f"{where}: expected an integer of at most 64 bits, got {shown_value(value)}")
    seed: int | str = value
    return seed


_DRAWING: Mapping[str, Kind] = {
    "seed": Kind(_seed, {"anyOf": [INTEGER, {"type": "string"}]}),
    "database": PATH,
}


def _drawing(value: Any, where: str) -> Mapping[str, Any]:
    return {key: _DRAWING[key](given, f"{where}.{key}") for key, given in known_keys(value, _DRAWING, where).items()}


_TARGET = {
    "anyOf": [
        TEXT.shape,
        table_of({"factory": TEXT.shape, "args": {"type": "object"}, "name": TEXT.shape}, "factory"),
    ]
}
_OVERRIDABLE = (
    *("samples", "budget", "timeout", "import_timeout", "seed", "workers", "start_method", "ranks"),
    *("model", "loss", "step", "expect", "roles", "contract"),
)
"""What may differ between the targets of one scan: how each is observed, and what the user says about it."""


def _overrides(value: Any, where: str) -> Mapping[str, Mapping[str, Any]]:
    parsed = {}
    for name, own in table(value, where).items():
        at = f"{where}.{name}"
        keys = {key.replace("-", "_"): given for key, given in table(own, at).items()}
        parsed[name] = {
            key: PARSERS[key](given, f"{at}.{key}") for key, given in known_keys(keys, _OVERRIDABLE, at).items()
        }
    return parsed


_REASONS = {"additionalProperties": {"type": "string", "pattern": r"\S"}, "propertyNames": {"minLength": 1}}
PARSERS: Mapping[str, Kind] = {
    "targets": Kind(as_targets, {"anyOf": [*_TARGET["anyOf"], {"type": "array", "items": _TARGET}]}),
    "pythonpath": PATHS,
    "select": WORDS,
    "ignore": WORDS,
    "samples": whole(1),
    "all": FLAG,
    "pictures": FLAG,
    "budget": SECONDS,
    "timeout": SECONDS,
    "import_timeout": SECONDS,
    "seed": whole(0, MOST_SEED),
    "workers": whole(0, MOST_WORKERS),
    "start_method": one_of(START_METHODS),
    "ranks": whole(1),
    "model": Kind(parse_spelling, SPELLING),
    "loss": Kind(parse_spelling, SPELLING),
    "step": Kind(parse_spelling, SPELLING),
    "checks": Kind(parse_text, {"type": "string", "pattern": r"^\d{4}\.\d+$"}),
    "fail_on": Kind(parse_severity, {"enum": [severity.value for severity in Severity]}),
    "fail_on_undecided": FLAG,
    "expect": Kind(_reasons, {"type": "object", **_REASONS}),
    "baseline": PATH,
    "roles": Kind(_roles, {"type": "object", "additionalProperties": one_of(ROLES).shape}),
    "contract": Kind(
        parse_contract,
        table_of({name: {**kind.shape, "description": words} for name, (kind, words) in CONTRACT.items()}),
    ),
    "hypothesis": Kind(_drawing, table_of({name: kind.shape for name, kind in _DRAWING.items()})),
    "overrides": Kind(
        _overrides,
        {
            "type": "object",
            "additionalProperties": table_of({key: {"$ref": f"#/properties/{key}"} for key in _OVERRIDABLE}),
        },
    ),
}
"""The kind of each setting."""
