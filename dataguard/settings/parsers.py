"""The kind of each setting. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dataguard.model import Severity, UsageError
from dataguard.settings.contract import CONTRACT, parse_contract
from dataguard.settings.kinds import (
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
    parse_severity,
    parse_spelling,
    parse_text,
    table,
    table_of,
    whole,
)
from dataguard.settings.suggestions import shown
from dataguard.settings.target_spelling import as_targets

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
        raise UsageError(f"{where}: expected an integer of at most 64 bits, got {shown(value)}")
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
}
"""The kind of each setting."""
