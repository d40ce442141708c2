"""What the name of a loader says."""

from __future__ import annotations

import pytest

import dataguard
from dataguard.settings.role_names import stem_of


@pytest.mark.parametrize(
    ("name", "stem"),
    [("train", ""), ("val_loader", "_loader"), ("depth_test", "depth_"), ("testDataloader", "dataloader"), ("x", None)],
)
def test_splits_have_their_names_in_common(name: str, stem: str | None) -> None:
    assert stem_of(name) == stem


@pytest.mark.scan
@pytest.mark.parametrize(("roles", "noted"), [({}, True), ({"good": "val"}, False)])
def test_a_role_that_costs_checks_is_noted(roles: dict[str, str], noted: bool) -> None:
    report = dataguard.scan("sample_datasets.dg301_overlong_len:good", select=["DG207", "DG211", "DG301"], roles=roles)
    expected = "good: the role is unknown, so 2 checks were not tested; add --role good=train (or val, test, predict)"
    assert report.notes == ((expected,) if noted else ())
