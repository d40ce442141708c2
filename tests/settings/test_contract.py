"""The contract: every key is known, read and documented, and every value is checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dataguard.core.model import UsageError
from dataguard.settings.contract import CONTRACT
from dataguard.settings.settings import resolve

VALUES: dict[str, Any] = {
    "key": "pkg.mod:name",
    "repeat": 2,
    "channels": "RGB",
    "normalization": "imagenet",
    "value_range": [0, 1],
    "num_classes": 10,
    "ignore_index": [255, -1],
    "target_form": "soft",
    "bbox_format": "yolo",
    "memory_gb": 64,
    "step_ms": 85,
    "deterministic": True,
    "views": "shared",
    "reused_batches": True,
    "group": "case_id",
    "target": "y",
    "known_future": ["holiday"],
    "aligned": ["state", "action"],
    "sample_rate": 16000,
    "tokens": "x",
    "labels": "[1]",
    "mask": "keep",
    "bos": 1,
    "eos": 2,
    "pad": 0,
    "vocab_size": 32000,
    "packing": "separate",
    "same_batches": 2,
    "save": "pkg.mod:save",
    "load": "pkg.mod:load",
    "learned": "reply",
    "shifted_by": "data",
}
"""What the keys of the contract take."""

ROOT = Path(__file__).parents[2]


def test_every_key_of_the_contract_is_known(tmp_path: Path) -> None:
    assert set(VALUES) == set(CONTRACT)
    assert resolve(start=tmp_path, contract=VALUES).contract == VALUES


@pytest.mark.parametrize("key", CONTRACT)
def test_every_key_of_the_contract_is_read_and_documented(key: str) -> None:
    code = [path.read_text(encoding="utf-8") for path in (ROOT / "dataguard").rglob("*.py")]
    assert any(re.search(rf"contract(\.get\(|\[)\"{key}\"", text) for text in code)
    assert f"`{key}" in (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


def test_a_key_that_no_check_reads_is_refused() -> None:
    with pytest.raises(UsageError, match="contract: unknown key 'reproducible'"):
        resolve(contract={"reproducible": True})


@pytest.mark.parametrize(
    ("contract", "message"),
    [
        ({"channels": "rgb"}, "expected one of RGB, BGR, got 'rgb'"),
        ({"normalization": "image-net"}, "did you mean 'imagenet'?"),
        ({"normalization": {"mean": [0.5, 0.5, 0.5]}}, r"normalization\.std: expected one number"),
        ({"normalization": {"mean": [0.5], "std": [0]}}, "above 0"),
        ({"normalization": {"mean": [0.5], "std": [0.5, 0.5, 0.5]}}, "different lengths"),
        ({"normalization": {"means": [0.5]}}, "did you mean 'mean'?"),
        ({"normalization": 3}, "expected a table"),
        ({"value_range": [1, 0]}, "expected minimum and maximum"),
        ({"value_range": 255}, "expected minimum and maximum"),
        ({"memory_gb": "64 GB"}, "expected gigabytes of memory"),
        ({"memory_gb": 0}, "expected gigabytes of memory"),
        ({"save": "pkg.mod:save"}, r"contract\.load is missing"),
    ],
)
def test_what_the_contract_says_is_looked_at(contract: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(contract=contract)


@pytest.mark.parametrize(
    ("contract", "message"),
    [
        ({"num_classes": 0}, "expected an integer of at least 1"),
        ({"ignore_index": "255"}, "expected an integer such as 255"),
        ({"ignore_index": [True]}, "or a list of integers"),
        ({"ignore_index": []}, "or a list of integers"),
        ({"target_form": "onehot"}, "did you mean 'one-hot'?"),
        ({"target_form": "multi-label"}, "did you mean 'multilabel'?"),
        ({"bbox_format": "xyhw"}, "did you mean 'xywh'?"),
        ({"bbox_format": "xyxy-normalised"}, "did you mean 'xyxy-normalized'?"),
    ],
)
def test_what_is_said_of_labels_is_looked_at(contract: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        resolve(contract=contract)


def test_a_key_of_samples_is_a_spelling(tmp_path: Path) -> None:
    assert resolve(start=tmp_path, contract={"key": "pkg.mod:name"}).key == "pkg.mod:name"
    with pytest.raises(UsageError, match=r"contract\.key: expected text, got 3"):
        resolve(start=tmp_path, contract={"key": 3})
