"""Real libraries: clean loaders pass in silence, and the same loaders with one defect do not."""

from __future__ import annotations

import os

import pytest

from dataguard.engine import scan
from dataguard.model import Report, Status
from dataguard.settings import Settings

CLEAN = [
    "tests.loaders.public:image_folder",
    "tests.loaders.public:fake_data",
    "tests.loaders.public:numbers_stream",
    "tests.loaders.public:hugging_face",
    "tests.loaders.public:hugging_face_stream",
    "tests.loaders.public:stateful",
    "tests.loaders.public:stateful_stream",
    "sample_datasets.images:make_cv2",
    "sample_datasets.images:make_folder",
]
SPAWNED = CLEAN if "DATAGUARD_EVERY_FACE" in os.environ else CLEAN[5:6]
"""Spawned workers import every library anew, which takes most of a minute for some: those only when asked for."""
CLONED = [
    "tests.loaders.public:image_folder_cloned",
    "tests.loaders.public:hugging_face_cloned",
    "tests.loaders.public:stateful_cloned",
]


def codes(report: Report, status: Status) -> list[str]:
    """The codes of the results with this status."""
    return [result.code for result in report.results if result.status is status]


@pytest.mark.parametrize(
    ("target", "method"), [*((target, "fork") for target in CLEAN), *((target, "spawn") for target in SPAWNED)]
)
def test_a_clean_loader_passes(target: str, method: str) -> None:
    report = scan(target, Settings(start_method=method))
    assert codes(report, Status.FAILED) == []
    assert codes(report, Status.INCONCLUSIVE) == []
    assert codes(report, Status.BROKEN) == []
    passed = {result.code: result.exercised for result in report.results if result.status is Status.PASSED}
    assert passed["DG501"]["samples"] >= 24
    assert passed["DG501"]["workers"] == 2


@pytest.mark.parametrize("target", CLONED)
def test_a_cloned_generator_is_found_whatever_the_library(target: str) -> None:
    assert codes(scan(target), Status.FAILED) == ["DG101"]
