"""DG522: which equal images are views, and what the contract says of them."""

from __future__ import annotations

from typing import Any

import pytest

from dataguard.checks.transforms.dg522_identical_views import _are_views
from dataguard.lab.core.records import LeafRecord
from tests.support.one_difference import judged, said


def image(path: str, side: int = 8) -> LeafRecord:
    return LeafRecord(path, "Tensor", "float32", (3, side, side), b"")


@pytest.mark.parametrize(
    ("paths", "others", "views"),
    [
        (("[0][0]", "[0][1]"), (), True),
        (("['views'][0]", "['views'][1]"), (), True),
        (("[0]", "[1]"), (), False),
        (("[0][0]", "[0][1]"), ("[0][2]",), False),
        (("[0][0]", "[0][1]", "[0][2]"), (), False),
        (("['view1']", "['view2']"), (), True),
        (("['x_i']", "['x_j']"), (), True),
        ((".anchor", ".positive"), (), True),
        (("['aug']", "['image']"), (), False),
        (("['student']", "['teacher']"), (), False),
        (("['input']", "['target']"), (), False),
        (("[0]['image']", "[1]['image']"), (), False),
    ],
)
def test_views_are_in_a_list_or_named_so(paths: tuple[str, ...], others: tuple[str, ...], views: bool) -> None:
    assert _are_views(paths, [image(path) for path in (*paths, *others)]) is views


def test_three_equal_crops_beside_small_ones_are_views() -> None:
    paths = ("[0][0]", "[0][1]", "[0][2]")
    assert _are_views(paths, [*map(image, paths), image("[0][3]", 4)])


@pytest.mark.parametrize(
    ("face", "changes", "words"),
    [
        ("bad", {".settings.contract": {"views": "shared"}}, "the contract says that views are shared"),
        ("bad", {".epoch.samples": lambda samples: samples[:3]}, "the views of 3 samples are equal, too few"),
        ("bad_crops", {".settings.contract": {"views": "independent"}}, "sample[0][0] and sample[0][1] are equal in"),
    ],
)
def test_what_decides(face: str, changes: dict[str, Any], words: str) -> None:
    (message,) = said(judged("DG522", face, changes))
    assert words in message
