"""Which boxes make sense, and the format that most of them fit."""

from __future__ import annotations

import pytest

from dataguard.checks.labels.box_formats import Box, _judged
from dataguard.lab.core.value_summary import ValueSummary

BOX = ValueSummary(None, 0, 0, 0, ())


def boxes(*numbers: tuple[float, float, float, float]) -> list[Box]:
    return [Box(BOX, place, four, 100, 200) for place, four in enumerate(numbers)]


@pytest.mark.parametrize(
    ("layout", "numbers", "fault"),
    [
        ("xyxy", (10, 10, 50, 40), None),
        ("xyxy", (50, 10, 10, 40), "has no area in"),
        ("xyxy", (190, 10, 260, 40), "lies outside"),
        ("xyxy", (-5, -5, 60, 60), None),
        ("xywh", (50, 10, 10, 40), None),
        ("xywh", (50, 10, 0, 40), "has no area in"),
        ("cxcywh", (10, 10, 20, 20), None),
        ("cxcywh-normalized", (0.5, 0.5, 1, 1), None),
        ("xyxy-normalized", (0.5, 0.5, 1.2, 0.5), "has no area in"),
        ("xywh-normalized", (5, 5, 1, 1), "lies outside"),
    ],
)
def test_a_box_has_an_area_inside_its_image(
    layout: str, numbers: tuple[float, float, float, float], fault: str | None
) -> None:
    assert boxes(numbers)[0].fault(layout) == fault


CORNERS = [(120.0, 60.0, 190.0, 95.0), (150.0, 10.0, 180.0, 90.0), (5.0, 70.0, 150.0, 80.0), (110.0, 8.0, 115.0, 99.0)]


def test_formats_are_those_that_most_boxes_fit() -> None:
    found = _judged("", boxes(*CORNERS), None)
    assert (found.formats, found.wrong) == (("xyxy",), ())
    shares = [(x / 200, y / 100, right / 200, bottom / 100) for x, y, right, bottom in CORNERS]
    assert _judged("", boxes(*shares), None).formats == ("xyxy-normalized",)
    assert _judged("", boxes(*CORNERS[:3]), None).formats == ()
    strange = _judged("", boxes(*CORNERS, *CORNERS, (50, 50, 40, 90)), None)
    assert [box.place for box, _ in strange.wrong] == [8]
