"""What labels and boxes mean is said by the contract, or by the labels alone."""

from __future__ import annotations

from typing import Any

import pytest

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings

READERS = {
    "DG502": {"num_classes", "ignore_index", "target_form"},
    "DG503": {"num_classes", "target_form"},
    "DG504": {"bbox_format"},
}
"""The checks, and the keys of the contract that they read."""


@pytest.mark.scan
@pytest.mark.parametrize(
    ("contract", "failing"),
    [
        (
            {"num_classes": 4, "bbox_format": "yolo"},
            {"DG502": ["unlabelled", "void", "background", "words"], "DG503": [], "DG504": ["corners", "single"]},
        ),
        (
            {"num_classes": 6, "ignore_index": [-1, -100], "bbox_format": "pascal_voc"},
            {"DG502": ["void"], "DG503": [], "DG504": ["relative", "single"]},
        ),
        (
            {"num_classes": 5, "target_form": "index"},
            {"DG502": ["unlabelled", "void", "background"], "DG503": ["shares", "several", "masks", "single"]},
        ),
        (
            {"target_form": "soft", "bbox_format": "xywh"},
            {
                "DG502": [],
                "DG503": ["labelled", "unlabelled", "void", "background", "several", "masks", "single"],
                "DG504": ["corners"],
            },
        ),
    ],
)
def test_the_contract_says_what_labels_and_boxes_mean(contract: dict[str, Any], failing: dict[str, list[str]]) -> None:
    checks = tuple(code for code, key in READERS.items() if key & set(contract))
    report = scan("tests.loaders.labelled:everything", Settings(select=checks, contract=contract))
    found = {
        code: [one.loader for one in report.results if (one.code, one.status) == (code, Status.FAILED)]
        for code in checks
    }
    assert found == failing
    assert not report.count(Status.BROKEN), report
