"""Which leaf of a batch plays which part."""

from __future__ import annotations

from typing import Any

import pytest

from dataguard.lab.tokens.token_roles import roles_of


@pytest.mark.parametrize(
    ("paths", "contract", "roles"),
    [
        (["['input_ids']", "['labels']"], {}, {"tokens": "['input_ids']", "labels": "['labels']"}),
        ([".input_ids", ".attention_mask"], {}, {"tokens": ".input_ids", "mask": ".attention_mask"}),
        (["['x']", "['labels']"], {}, {}),
        (["[0]", "[1]"], {"tokens": "[0]", "labels": "[1]"}, {"tokens": "[0]", "labels": "[1]"}),
        (
            ["['image']['labels']", "['text']['input_ids']", "['text']['labels']"],
            {},
            {"tokens": "['text']['input_ids']", "labels": "['text']['labels']"},
        ),
        (
            ["[0]['input']", "[0]['positions']", "[1]"],
            {"tokens": "input", "labels": "[1]"},
            {"tokens": "[0]['input']", "labels": "[1]", "positions": "[0]['positions']"},
        ),
        (
            ["['input_ids']", "['attention_mask']", "['keep']", "['completion_mask']"],
            {"mask": "keep"},
            {"tokens": "['input_ids']", "mask": "['keep']", "loss mask": "['completion_mask']"},
        ),
    ],
)
def test_leaves_are_known_by_name(paths: list[str], contract: dict[str, Any], roles: dict[str, str]) -> None:
    assert roles_of(paths, contract) == roles
