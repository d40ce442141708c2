"""The JSON schema of settings files, by which editors complete and check them.

`python -m dataguard.settings.settings_schema` writes `settings.schema.json` next to this file. The parsers say more
precisely what is wrong, and accept some values that the schema leaves out, such as numbers in quotes.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataguard.model import Severity
from dataguard.settings import parsers
from dataguard.settings.settings import Settings
from dataguard.stats.normalization import KNOWN

FILE = Path(__file__).with_name("settings.schema.json")
ID = "urn:dataguard:settings:1"
_TEXT = {"type": "string", "minLength": 1}
_WORDS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_COUNT = {"type": "integer", "minimum": 1}
_INDEX = {"type": "integer", "minimum": 0}
_ABOVE_0 = {"type": "number", "exclusiveMinimum": 0}
_FLAG = {"type": "boolean"}
_INTEGER = {"type": "integer"}
_SPELLING = {"type": "string", "pattern": r"^[\w.-]+:\w[\w.]*(\(.+\))?$"}
_NUMBERS = {"anyOf": [{"type": "array", "items": {"type": "number"}, "minItems": n, "maxItems": n} for n in (1, 3)]}


def _table(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": list(required)}


_TARGET = {
    "anyOf": [
        _TEXT,
        _table({"factory": _TEXT, "args": {"type": "object"}, "name": _TEXT}, "factory"),
    ]
}
_NORMALIZATION = {
    "anyOf": [
        {"enum": sorted(KNOWN)},
        {"type": "string", "pattern": r"^((torchvision:)?\w+_Weights\.\w+|timm:[\w./-]+)$"},
        _table({"mean": _NUMBERS, "std": _NUMBERS}, "mean", "std"),
    ]
}
_CONTRACT: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "key": (_SPELLING, "A function of a sample whose result identifies the sample."),
    "repeat": (_COUNT, "How often the dataset returns each sample on purpose."),
    "channels": ({"enum": ["RGB", "BGR"]}, "The channel order that the model expects."),
    "normalization": (_NORMALIZATION, "The statistics of images: a name, weights, or mean and std."),
    "value_range": (
        {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
        "Minimum and maximum of images that are not normalized.",
    ),
    "num_classes": (_COUNT, "The number of classes."),
    "ignore_index": (
        {"anyOf": [_INTEGER, {"type": "array", "items": _INTEGER, "minItems": 1}]},
        "The label, or labels, that mark no class.",
    ),
    "target_form": ({"enum": list(parsers.TARGET_FORMS)}, "The form of labels in a batch."),
    "bbox_format": ({"enum": list(parsers.BBOX_FORMATS)}, "The meaning of the four numbers of a box."),
    "memory_gb": (_ABOVE_0, "Memory of the machine that trains, in GB."),
    "step_ms": (_ABOVE_0, "Duration of a training step in milliseconds."),
    "deterministic": (_FLAG, "Runs with the same seeds must give the same batches."),
    "views": ({"enum": list(parsers.VIEWS)}, "Whether two images of a sample are to differ, or are one view."),
    "reused_batches": (_FLAG, "Batches share memory on purpose: each is used before the next one is fetched."),
    "group": (_TEXT, "The leaf, attribute or column that names what samples belong together."),
    "tokens": (_TEXT, "The leaf of a batch that holds tokens: its key, or a path such as [0]."),
    "labels": (_TEXT, "The leaf with the labels of tokens."),
    "mask": (_TEXT, "The leaf that says which tokens the model sees."),
    "bos": (_INDEX, "The token that starts a text."),
    "eos": (_INDEX, "The token that ends a text."),
    "pad": (_INDEX, "The token that fills rows."),
    "vocab_size": (_COUNT, "How many tokens the model has embeddings for."),
    "packing": ({"enum": list(parsers.PACKING)}, "Whether documents packed into a row see each other."),
}
_SHAPES: Mapping[str, Mapping[str, Any]] = {
    "targets": {"anyOf": [*_TARGET["anyOf"], {"type": "array", "items": _TARGET}]},
    "pythonpath": _WORDS,
    "select": _WORDS,
    "ignore": _WORDS,
    "samples": _COUNT,
    "all": _FLAG,
    "budget": _ABOVE_0,
    "timeout": _ABOVE_0,
    "seed": _INDEX,
    "workers": _INDEX,
    "start_method": {"enum": list(parsers.START_METHODS)},
    "ranks": _COUNT,
    "model": _SPELLING,
    "loss": _SPELLING,
    "step": _SPELLING,
    "checks": {"type": "string", "pattern": r"^\d{4}\.\d+$"},
    "fail_on": {"enum": [severity.value for severity in Severity]},
    "fail_on_undecided": _FLAG,
    "expect": {
        "type": "object",
        "additionalProperties": {"type": "string", "pattern": r"\S"},
        "propertyNames": {"minLength": 1},
    },
    "baseline": _TEXT,
    "pictures": _FLAG,
    "roles": {"type": "object", "additionalProperties": {"enum": list(parsers.ROLES)}},
    "contract": _table({name: {**shape, "description": words} for name, (shape, words) in _CONTRACT.items()}),
    "hypothesis": _table({"seed": {"anyOf": [_INTEGER, {"type": "string"}]}, "database": _TEXT}),
}


def schema() -> dict[str, Any]:
    """The schema of `dataguard.toml`, and of the table `[tool.dataguard]`."""
    words = _documentation()
    defaults = Settings().as_mapping()
    properties = {
        name: {**shape, "description": words[name], **_default(defaults[name])} for name, shape in _SHAPES.items()
    }
    spellings = {name.replace("_", "-"): {"$ref": f"#/properties/{name}"} for name in properties if "_" in name}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",  # the version that editors of TOML know
        "$id": ID,
        "title": "dataguard settings",
        "description": "A dataguard.toml, or the table [tool.dataguard] of a pyproject.toml.",
        **_table({**properties, **spellings}),
    }


def _default(value: Any) -> dict[str, Any]:
    return {} if value is None or value == () or value == {} else {"default": value}


def _documentation() -> dict[str, str]:
    """The docstring below each field of the settings."""
    (tree,) = ast.parse(inspect.getsource(Settings)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for one, following in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and isinstance(following, ast.Expr):
            assert isinstance(following.value, ast.Constant)
            found[one.target.id] = inspect.cleandoc(str(following.value.value)).partition("\n\n")[0]
    return found


def text() -> str:
    """The schema as it stands in the file."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
