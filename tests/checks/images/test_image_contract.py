"""The contract decides which channel order and statistics are right."""

from __future__ import annotations

from typing import Any

import pytest

from dataguard.engine import scan
from dataguard.model import Status
from dataguard.settings.settings import Settings


@pytest.mark.scan
@pytest.mark.parametrize(
    ("face", "contract", "status"),
    [
        ("bad", {"channels": "BGR"}, Status.PASSED),
        ("good_raw", {"channels": "RGB"}, Status.FAILED),
        ("good_turned_statistics", {"channels": "RGB"}, Status.FAILED),
        ("good_features", {}, Status.SKIPPED),
        ("good_scans", {}, Status.SKIPPED),
    ],
)
def test_the_contract_sets_the_channel_order(face: str, contract: dict[str, str], status: Status) -> None:
    settings = Settings(select=("DG505",), contract=contract)
    assert scan(f"sample_datasets.dg505_swapped_channels:{face}", settings).results[0].status is status


@pytest.mark.scan
@pytest.mark.parametrize(
    ("loader", "contract", "failing"),
    [
        ("tests.loaders.coloured:raw_floats", {"value_range": [0, 1]}, ["DG506"]),
        ("tests.loaders.coloured:raw_floats", {"value_range": [0, 255]}, []),
        ("tests.loaders.coloured:raw_floats", {"normalization": "imagenet"}, ["DG507"]),
        ("tests.loaders.coloured:in_memory", {"normalization": "imagenet"}, []),
        ("tests.loaders.coloured:in_memory", {"normalization": "clip"}, ["DG507"]),
        ("tests.loaders.coloured:in_memory", {"normalization": "torchvision:ResNet18_Weights.DEFAULT"}, []),
        ("tests.loaders.coloured:in_memory", {"normalization": "ResNet50_Weights.IMAGENET1K_V2"}, []),
        ("tests.loaders.coloured:in_memory", {"normalization": "R2Plus1D_18_Weights.KINETICS400_V1"}, ["DG507"]),
        ("tests.loaders.coloured:in_memory", {"normalization": "ResNet5_Weights.IMAGENET1K_V2"}, []),
        ("tests.loaders.coloured:by_hand", {"normalization": "imagenet", "channels": "BGR"}, []),
        ("sample_datasets.dg506_wrong_scale:bad", {"normalization": "imagenet"}, ["DG506"]),
        ("sample_datasets.dg507_wrong_normalization:bad", {"normalization": "imagenet"}, ["DG507"]),
        ("sample_datasets.dg507_wrong_normalization:bad_turned", {"normalization": "imagenet"}, ["DG507"]),
        (
            "sample_datasets.dg507_wrong_normalization:bad_turned",
            {"normalization": "imagenet", "channels": "BGR"},
            ["DG505"],
        ),
        ("sample_datasets.dg505_swapped_channels:bad", {"normalization": "imagenet"}, ["DG505"]),
    ],
)
def test_the_contract_sets_the_statistics(loader: str, contract: dict[str, Any], failing: list[str]) -> None:
    report = scan(loader, Settings(select=("DG505", "DG506", "DG507"), contract=contract))
    assert [result.code for result in report.results if result.status is Status.FAILED] == failing
    assert not report.count(Status.BROKEN)


@pytest.mark.scan
def test_palettes_and_raw_floats_are_not_judged() -> None:
    for name, status in (("raw_floats", Status.INCONCLUSIVE), ("palettes", Status.SKIPPED)):
        report = scan(f"tests.loaders.coloured:{name}", Settings(select=("DG506",)))
        assert report.results[0].status is status, report.results[0]
