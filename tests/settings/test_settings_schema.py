"""The schema of settings files: generated, and of the same mind as the parsers."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, ValidationError

from dataguard.core.model import UsageError
from dataguard.settings import settings_schema
from dataguard.settings.contract import CONTRACT
from dataguard.settings.settings import Settings, resolve

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
SCHEMA = settings_schema.schema()
VALIDATOR = Draft7Validator(SCHEMA)
DOCUMENTS = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
SNIPPETS = [
    (document.name, snippet)
    for document in DOCUMENTS
    for snippet in re.findall(r"```toml\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
]


def test_the_file_is_what_is_generated() -> None:
    """A stale one is renewed with `python -m tests.pages`."""
    assert settings_schema.FILE.read_text(encoding="utf-8") == settings_schema.text()


def test_it_is_a_schema_of_every_setting_with_words() -> None:
    Draft7Validator.check_schema(SCHEMA)
    names = [field.name for field in fields(Settings)]
    assert [name for name in SCHEMA["properties"] if "-" not in name and name not in names] == []
    assert all(SCHEMA["properties"][name]["description"] for name in names)
    assert set(SCHEMA["properties"]["contract"]["properties"]) == set(CONTRACT)


@pytest.mark.parametrize(("document", "snippet"), SNIPPETS, ids=[f"{name}-{n}" for n, (name, _) in enumerate(SNIPPETS)])
def test_every_snippet_of_the_documents_is_valid(document: str, snippet: str) -> None:
    table = tomllib.loads(snippet)
    VALIDATOR.validate(table.get("tool", {}).get("dataguard", {}) if "tool" in table else table)


GOOD = [
    {},
    {"targets": "a:b"},
    {"targets": ["big=a.b:c", {"factory": "a:b", "args": {"split": "train"}, "name": "x"}]},
    {"select": "DG1", "ignore": ["DG601"], "samples": 12, "all": True, "budget": 1.5, "timeout": 3},
    {"start-method": "spawn", "fail-on": "note", "fail_on_undecided": True, "checks": "2026.1"},
    {"model": "a:net(depth=3)", "loss": "torch.nn:MSELoss"},
    {"expect": {"DG401[val]": "x"}, "roles": {"holdout": "val"}, "hypothesis": {"seed": 3, "database": "d"}},
    {"contract": {"channels": "BGR", "normalization": "imagenet", "value_range": [0, 1.5], "ignore_index": [255, -1]}},
    {"contract": {"normalization": {"mean": [0.5], "std": [0.5]}, "target_form": "one-hot", "deterministic": True}},
    {"contract": {"normalization": "torchvision:ResNet50_Weights.IMAGENET1K_V2", "bbox_format": "coco"}},
    {"contract": {"normalization": "timm:resnet50.a1_in1k", "key": "a:key", "repeat": 3, "memory_gb": 64}},
]
BAD: list[dict[str, Any]] = [
    {"target": "a:b"},
    {"targets": 3},
    {"targets": [{"args": {}}]},
    {"select": ["DG101", 4]},
    {"samples": 0},
    {"samples": True},
    {"budget": 0},
    {"all": "yes"},
    {"start_method": "forks"},
    {"model": "net.py"},
    {"fail_on": "warn"},
    {"expect": {"DG401": " "}},
    {"expect": ["DG401"]},
    {"roles": {"a": "training"}},
    {"baseline": 3},
    {"contract": {"chanels": "RGB"}},
    {"contract": {"normalization": "imagnet"}},
    {"contract": {"normalization": {"mean": [1, 2], "std": [1, 2]}}},
    {"contract": {"value_range": [0]}},
    {"contract": {"ignore_index": []}},
    {"hypothesis": {"sed": 3}},
]


@pytest.mark.parametrize("table", GOOD, ids=repr)
def test_good_settings_are_valid_for_both(table: dict[str, Any], tmp_path: Path) -> None:
    VALIDATOR.validate(table)
    resolve(written(table, tmp_path))


@pytest.mark.parametrize("table", BAD, ids=repr)
def test_bad_settings_are_refused_by_both(table: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        VALIDATOR.validate(table)
    with pytest.raises(UsageError):
        resolve(written(table, tmp_path))


def written(table: dict[str, Any], folder: Path) -> Path:
    """A settings file; inline tables in TOML are JSON with other signs between key and value."""
    path = folder / "dataguard.toml"
    path.write_text("".join(f"{key} = {toml(value)}\n" for key, value in table.items()), encoding="utf-8")
    return path


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}" = {toml(item)}' for key, item in value.items()) + "}"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)
