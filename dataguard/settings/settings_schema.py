"""The JSON schema of settings files, by which editors complete and check them.

`python -m tests.pages` writes `settings.schema.json` next to this file.
"""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

from dataguard.settings.contract import table_of
from dataguard.settings.parsers import PARSERS
from dataguard.settings.settings import Settings

FILE = Path(__file__).with_name("settings.schema.json")
ID = "urn:dataguard:settings:1"


def schema() -> dict[str, Any]:
    """The schema of `dataguard.toml`, and of the table `[tool.dataguard]`."""
    words = _documentation()
    defaults = Settings().as_mapping()
    properties = {
        name: {**kind.shape, "description": words[name], **_default(defaults[name])} for name, kind in PARSERS.items()
    }
    spellings = {name.replace("_", "-"): {"$ref": f"#/properties/{name}"} for name in properties if "_" in name}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",  # the version that editors of TOML know
        "$id": ID,
        "title": "dataguard settings",
        "description": "A dataguard.toml, or the table [tool.dataguard] of a pyproject.toml.",
        **table_of({**properties, **spellings}),
    }


def _default(value: Any) -> dict[str, Any]:
    return {} if value is None or value == () or value == {} else {"default": value}


def _documentation() -> dict[str, str]:
    """The docstring below each field of the settings."""
    (tree,) = ast.parse(inspect.getsource(Settings)).body
    assert isinstance(tree, ast.ClassDef)
    documented = {}
    for node, following in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(following, ast.Expr):
            assert isinstance(following.value, ast.Constant)
            documented[node.target.id] = inspect.cleandoc(str(following.value.value)).partition("\n\n")[0]
    return documented


def text() -> str:
    """The schema as it stands in the file."""
    return json.dumps(schema(), indent=2) + "\n"
