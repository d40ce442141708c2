"""Plain frozen data as JSON and back: numbers, text, bytes, containers, enums, exceptions and dataclasses of dataguard.

Fields that have their default are left out, so that recordings stay small and a new field with a default breaks none.
"""

from __future__ import annotations

import dataclasses
import importlib
from array import array
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

KIND = "$"
CONTAINERS: dict[str, type] = {kind.__name__: kind for kind in (list, set, frozenset)}
MAPPINGS: dict[str, type] = {kind.__name__: kind for kind in (dict, Counter)}


class NotPlain(TypeError):
    """A value is no plain data."""


Digests = dict[bytes, bytes]
"""Short numbers in place of digests, which are compared and not read: random bytes would fill the recordings."""
LEAST = 8
"""Bytes from which on they are a digest."""


def encoded(value: Any, digests: Digests | None = None) -> Any:
    """The value as JSON, with numbers for digests if there is a table of them.

    Raises NotPlain if it is no plain data.
    """
    kind: Any = type(value)
    again = partial(encoded, digests=digests)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is tuple:
        return [again(one) for one in value]
    if kind is bytes:
        if digests is not None and len(value) >= LEAST:
            value = digests.setdefault(value, len(digests).to_bytes(3, "big"))
        return {KIND: "bytes", "hex": value.hex()}
    if kind is array:
        numbers = list(value)
        if digests is not None and value.typecode == "Q":
            numbers = [
                int.from_bytes(digests.setdefault(one.to_bytes(8, "big"), len(digests).to_bytes(3, "big")), "big")
                for one in value
            ]
        return {KIND: "array", "type": value.typecode, "of": numbers}
    if isinstance(value, Path):
        return {KIND: "path", "path": str(value)}
    if kind.__name__ in CONTAINERS and kind.__module__ == "builtins":
        return {
            KIND: kind.__name__,
            "of": [again(one) for one in (sorted(value, key=repr) if kind is not list else value)],
        }
    if kind in MAPPINGS.values() or kind.__name__ == "mappingproxy":
        return {KIND: "Counter" if kind is Counter else "dict", "of": [[again(k), again(v)] for k, v in value.items()]}
    if not kind.__module__.startswith("dataguard."):
        raise NotPlain(f"{kind} is no plain data")
    name = {KIND: f"{kind.__module__}:{kind.__qualname__}"}
    if isinstance(value, Enum):
        return {**name, "is": value.name}
    if isinstance(value, Exception):
        return {**name, "args": [again(one) for one in value.__reduce__()[1]]}
    if isinstance(value, tuple):  # a NamedTuple
        return {**name, "of": [again(one) for one in value]}
    if not dataclasses.is_dataclass(value):
        raise NotPlain(f"{kind} is no plain data")
    values = {field: getattr(value, field) for field in _defaults(kind)}
    return name | {
        field: again(one)
        for field, one in values.items()
        if (default := _defaults(kind)[field]) is dataclasses.MISSING or one != default
    }


def decoded(value: Any, known: Mapping[int, Any] = MappingProxyType({})) -> Any:
    """The value that was encoded; `known` are parts of it that are decoded already, by their identity."""
    if type(value) not in (list, dict):
        return value
    if id(value) in known:
        return known[id(value)]
    again = partial(decoded, known=known)
    if type(value) is list:
        return tuple(map(again, value))
    kind = value[KIND]
    if kind == "bytes":
        return bytes.fromhex(value["hex"])
    if kind == "array":
        return array(value["type"], value["of"])
    if kind == "path":
        return Path(value["path"])
    if kind in CONTAINERS:
        return CONTAINERS[kind](map(again, value["of"]))
    if kind in MAPPINGS:
        return MAPPINGS[kind]({again(one): again(other) for one, other in value["of"]})
    made: Any = class_of(kind)
    if issubclass(made, Enum):
        return made[value["is"]]
    if issubclass(made, Exception):
        return made(*map(again, value["args"]))
    if issubclass(made, tuple):
        return made(*map(again, value["of"]))
    # Not by calling it: a field may be set by the class itself.
    thing = object.__new__(made)
    for field, default in _defaults(made).items():
        object.__setattr__(thing, field, again(value[field]) if field in value else default)
    return thing


def parts_of(value: Any, known: dict[int, Any] | None = None) -> dict[int, Any]:
    """Every part of an encoded value, decoded, by the identity of its JSON."""
    known = {} if known is None else known
    for part in value.values() if type(value) is dict else value if type(value) is list else ():
        parts_of(part, known)
    if type(value) in (list, dict):
        known[id(value)] = decoded(value, known)
    return known


def fields_of(name: str) -> dict[str, Any]:
    """The fields of a dataclass, by its name, with their defaults; none of what is no dataclass."""
    kind = class_of(name)
    return _defaults(kind) if hasattr(kind, "__dataclass_fields__") else {}


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    """The fields of a dataclass with their defaults."""
    return {
        field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        for field in dataclasses.fields(kind)
    }


@cache
def class_of(name: str) -> Any:
    """A class by its name, `module:Class`."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found
