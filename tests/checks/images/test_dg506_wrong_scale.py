"""DG506: which scales are wrong, and which may be meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.images.dg506_wrong_scale import dg506_wrong_scale
from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.files.file_observations import UNIFORM_LEVELS, Curve
from dataguard.lab.images.chart_fit import Fit
from tests.support.recordings import Verdict, recordings, verdict_of


def judged(gain: float, offset: float = 0.0, contract: Mapping[str, Any] | None = None, **changes: Any) -> Verdict:
    """The verdict on images whose channels are all mapped alike."""
    bad = recordings("dg506_wrong_scale")["bad"]
    fit = Fit("[0]", "float32", "RGB", (gain,) * 3, (offset,) * 3, 0.0, exact=True)
    charts = replace(bad.read(".images.charts"), fits=(fit,))
    settings = replace(bad.read(".settings"), contract=contract or {})
    return verdict_of(
        dg506_wrong_scale.judge, bad.but({".images.charts": charts, ".settings": settings, **changes}).lab
    )


@pytest.mark.parametrize(
    ("white", "contract", "why"),
    [
        (1, {}, None),
        (1 / 255, {}, "divided by 255 twice, without normalization"),
        (255.4, {}, "not divided by 255, without normalization"),
        (1, {"value_range": [0, 1]}, None),
        (255, {"value_range": [0, 255]}, None),
        (255, {"value_range": [0, 1]}, "not divided by 255: the contract says 0 to 1"),
        (1, {"value_range": [0, 255]}, "divided by 255 twice: the contract says 0 to 255"),
        (40, {"value_range": [0, 1]}, None),
    ],
)
def test_the_value_of_white(white: float, contract: Mapping[str, Any], why: str | None) -> None:
    found = judged(white / 255, contract=contract).findings
    assert [one.message.partition(" is ")[2].rpartition(": black")[0] for one in found] == ([why] if why else [])


@pytest.mark.parametrize(("low", "high", "wrong"), [(-1, 1, False), (-255, 255, True), (-127.5, 127.5, False)])
def test_the_declared_range_is_as_wide_as_from_black_to_white(low: float, high: float, wrong: bool) -> None:
    assert bool(judged((high - low) / 255, low, {"value_range": [-1, 1]}).findings) == wrong


@pytest.mark.parametrize("white", [255, 255.2, 65535, 65590])
def test_floats_that_are_not_scaled_may_be_meant(white: float) -> None:
    verdict = judged(white / 255)
    assert isinstance(verdict.outcome, Undecided)
    assert f"floats from 0 to {white:.0f}" in str(verdict.outcome)


@pytest.mark.parametrize(
    ("white", "dtype", "shallow"),
    [(257, "float32", True), (1, "float32", False), (257, "uint16", False), (65535, "float32", False)],
)
def test_grey_files_of_16_bits_that_are_scaled_as_8_bits(white: float, dtype: str, shallow: bool) -> None:
    curve = Curve("[0]", dtype, tuple(level * white / 65535 for level in UNIFORM_LEVELS))
    depth = SimpleNamespace(files=7, index=3, curves=(curve,))
    changes: dict[str, Any] = {
        ".images.charts": NotApplicable("no image has colours"),
        ".files": SimpleNamespace(depth=depth),
        ".facts": SimpleNamespace(kind="map"),
        ".dataset": SimpleNamespace(location=None),
        ".epoch": SimpleNamespace(value_summaries=()),
    }
    verdict = judged(1 / 255, **changes)
    if not shallow:
        assert str(verdict.outcome) == "no image has colours"
        return
    (finding,) = verdict.findings
    assert finding.message == "[0] is 16-bit data scaled as 8-bit: the range from 0 to 65535 becomes 257 wide"
    assert str(finding.repro).startswith("dataguard show tests.loaders.recorded:named 3 ")
    assert verdict.outcome.exercised == {"16-bit files": 7}


def test_without_16_bit_files_there_is_nothing_to_judge() -> None:
    changes: dict[str, Any] = {
        ".images.charts": NotApplicable("no image"),
        ".files": SimpleNamespace(depth=None),
        ".epoch": SimpleNamespace(value_summaries=()),
    }
    assert str(judged(1.0, **changes).outcome) == "no image"
