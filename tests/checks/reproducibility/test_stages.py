"""How the first stage that differs is worded."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.reproducibility.stages import evidence_of, is_rounding, location_of, stage_of
from dataguard.core.model import Location
from dataguard.lab.reproducibility.runs import BATCH, ORDER, SAMPLE, Divergence
from dataguard.lab.reproducibility.seeded_run import StageDifference

LAB: Any = SimpleNamespace(
    facts=SimpleNamespace(num_workers=2, sampler="RandomSampler"),
    dataset=SimpleNamespace(location=Location(what="the dataset")),
    reproducibility=SimpleNamespace(seeds=SimpleNamespace(maker=("train.py", 5, "main"))),
)
CROP = StageDifference("dataset.crop", "Crop", None, False, "[0]", 3, 12, 0.5)


@pytest.mark.parametrize(
    ("stage", "difference", "words"),
    [
        (ORDER, None, "the order of indices"),
        (SAMPLE, None, "a sample as the dataset returns it"),
        (BATCH, StageDifference("batch", "", None, False, "[0]", 3, 12, 0.5), "collate_fn"),
        (SAMPLE, CROP, "dataset.crop (Crop)"),
        (
            SAMPLE,
            StageDifference("dataset.crop", "Crop", None, True, "[0]", 3, 12, 0.5),
            "what dataset.crop (Crop) is given",
        ),
    ],
)
def test_a_stage_in_words(stage: str, difference: StageDifference | None, words: str) -> None:
    assert stage_of(Divergence(2, stage, 0, 0), difference) == words


@pytest.mark.parametrize(("epoch", "same"), [(0, []), (1, ["epoch 0"])])
def test_what_is_the_same_in_both_runs(epoch: int, same: list[str]) -> None:
    found = dict(evidence_of(Divergence(2, SAMPLE, epoch, 0), None))
    assert [name for name, value in found.items() if value == "the same in both runs"] == same


@pytest.mark.parametrize(
    ("at", "name", "what"),
    [(("a.py", 3), "Crop", "Crop"), (None, "Crop", "the dataset"), (("a.py", 3), "", "the dataset")],
)
def test_the_step_is_the_location_if_it_is_known(at: tuple[str, int] | None, name: str, what: str) -> None:
    found = location_of(LAB, Divergence(2, SAMPLE, 0, 0), replace(CROP, at=at, name=name), None)
    assert found is not None
    assert found.what == what


def test_a_line_is_more_exact_than_the_step() -> None:
    line = ("train.py", 7, "crop")
    found = location_of(LAB, Divergence(2, SAMPLE, 0, 0), replace(CROP, at=("a.py", 3), line=line), None)
    assert found == Location(*line)
    assert location_of(LAB, Divergence(2, ORDER, 0, 0), None, None) == Location("train.py", 5, "main")


@pytest.mark.parametrize(("by", "rounding"), [(1e-7, True), (0.01, False), (None, False)])
def test_tiny_differences_may_be_rounding(by: float | None, rounding: bool) -> None:
    assert is_rounding(StageDifference("batch", "", None, False, "[0]", 3, 12, by)) is rounding
    assert not is_rounding(None)
