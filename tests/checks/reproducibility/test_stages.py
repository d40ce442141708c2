"""How the first stage that differs is worded."""

from __future__ import annotations

import pytest

from dataguard.checks.reproducibility.stages import is_rounding, stage_of
from dataguard.lab.reproducibility.divergence import BATCH, ORDER, SAMPLE, Divergence
from dataguard.lab.reproducibility.stage_trace import StageDifference

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


@pytest.mark.parametrize(("by", "rounding"), [(1e-7, True), (0.01, False), (None, False)])
def test_tiny_differences_may_be_rounding(by: float | None, rounding: bool) -> None:
    assert is_rounding(StageDifference("batch", "", None, False, "[0]", 3, 12, by)) is rounding
    assert not is_rounding(None)
