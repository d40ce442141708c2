"""The contract decides which channel order and statistics are right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.report import Report
from dataguard.settings.settings import Settings
from tests.support.faces import todays

pytestmark = pytest.mark.scan

CHANNELS = "dg505_swapped_channels"
NORMALIZATION = "dg507_wrong_normalization"
COLOURED = "tests.loaders.coloured"


def judged(
    faces: Iterable[str], codes: Iterable[str], contract: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Report:
    """What these checks say of all these loaders under one contract."""
    monkeypatch.setenv("FACES", " ".join(faces))
    report = scan("tests.loaders.faces:named", Settings(select=tuple(codes), contract=contract))
    assert not report.count(Status.BROKEN)
    return report


@pytest.mark.parametrize(
    ("contract", "statuses"),
    [
        ({"channels": "BGR"}, {"bad": Status.PASSED}),
        ({"channels": "RGB"}, {"good_raw": Status.FAILED, "good_turned_statistics": Status.FAILED}),
        ({}, {"good_features": Status.SKIPPED, "good_scans": Status.SKIPPED}),
    ],
)
def test_the_contract_sets_the_channel_order(
    contract: dict[str, str], statuses: dict[str, Status], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = judged((f"{CHANNELS}:{face}" for face in statuses), ["DG505"], contract, monkeypatch)
    assert {result.loader: result.status for result in report.results} == {
        f"DG505.{face}": status for face, status in statuses.items()
    }


@pytest.mark.parametrize(
    ("contract", "failing"),
    todays(
        [
            (
                {"normalization": "imagenet"},
                {
                    f"{COLOURED}:raw_floats": ["DG507"],
                    f"{COLOURED}:in_memory": [],
                    "dg506_wrong_scale:bad": ["DG506"],
                    f"{NORMALIZATION}:bad": ["DG507"],
                    f"{NORMALIZATION}:bad_turned": ["DG507"],
                    f"{CHANNELS}:bad": ["DG505"],
                },
            ),
            (
                {"normalization": "imagenet", "channels": "BGR"},
                {f"{COLOURED}:by_hand": [], f"{NORMALIZATION}:bad_turned": ["DG505"]},
            ),
            ({}, {f"{COLOURED}:swapped_and_divided": ["DG505", "DG506"]}),  # one defect does not hide the other
            ({"value_range": [0, 1]}, {f"{COLOURED}:raw_floats": ["DG506"]}),
            ({"value_range": [0, 255]}, {f"{COLOURED}:raw_floats": []}),
            ({"normalization": "clip"}, {f"{COLOURED}:in_memory": ["DG507"]}),
            ({"normalization": "torchvision:ResNet18_Weights.DEFAULT"}, {f"{COLOURED}:in_memory": []}),
            ({"normalization": "R2Plus1D_18_Weights.KINETICS400_V1"}, {f"{COLOURED}:in_memory": ["DG507"]}),
            ({"normalization": "ResNet5_Weights.IMAGENET1K_V2"}, {f"{COLOURED}:in_memory": []}),
        ],
        turns=5,
    ),
)
def test_the_contract_sets_the_statistics(
    contract: dict[str, Any], failing: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = judged(failing, ["DG505", "DG506", "DG507"], contract, monkeypatch)
    loaders = dict.fromkeys(result.loader for result in report.results)
    failed = [(result.loader, result.code) for result in report.results if result.status is Status.FAILED]
    assert [[code for one, code in failed if one == loader] for loader in loaders] == list(failing.values())


def test_palettes_and_raw_floats_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    faces = (f"{COLOURED}:raw_floats", f"{COLOURED}:palettes")
    report = judged(faces, ["DG506"], {}, monkeypatch)
    assert [result.status for result in report.results] == [Status.INCONCLUSIVE, Status.SKIPPED]
