"""Which boxes make sense, and the format that most of them fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from PIL import Image

from dataguard.checks.labels.box_formats import OUTSIDE, Box, _judged, boxes_of
from dataguard.lab.core.records import ValueSummary
from tests.support.epochs import lab

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
        ("xyxy", (-3, 10, -2, 11), "lies outside"),
        ("xyxy", (10, -3, 11, -2), "lies outside"),
        ("xyxy", (0, 10, 1, 20), None),
        ("xyxy", (10, 0, 20, 1), None),
        ("cxcywh", (0, 50, 20, 20), None),  # one half of it is inside
        ("cxcywh", (200, 50, 20, 20), None),
        ("cxcywh", (50, 0, 20, 20), None),
        ("cxcywh", (50, 100, 20, 20), None),
        ("cxcywh-normalized", (0.5, 0.5, 1, 1), None),
        ("xyxy-normalized", (0.5, 0.5, 1.2, 0.5), "has no area in"),
        ("xywh-normalized", (5, 5, 1, 1), "lies outside"),
        ("xyxy-normalized", (0.9, 0.1, 1.4, 0.5), "lies outside"),
        ("xyxy-normalized", (0.1, 0.9, 0.5, 1.4), "lies outside"),
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
    assert _judged("", boxes(*[(1.0, *four[1:]) for four in CORNERS]), None).formats == ("xyxy",)
    strange = _judged("", boxes(*CORNERS, *CORNERS, (50, 50, 40, 90)), None)
    assert [box.row for box, _ in strange.wrong] == [8]


INSIDE, CUT = (10.0, 10.0, 50.0, 40.0), (-60.0, -50.0, -10.0, -5.0)


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        ([INSIDE] * 8 + [CUT] * 8, 8),
        ([INSIDE] * 7 + [CUT] * 8, None),  # too few boxes
        ([INSIDE] * 7 + [CUT] * 9, None),  # too few of them inside
        ([INSIDE] * 20 + [CUT] * 8, 8),
        ([(150.0, 60.0, 190.0, 95.0)] * 8 + [CUT] * 8, 8),
        ([INSIDE] * 8 + [(-60.0, 10.0, -10.0, 40.0)] * 8, 8),
        ([INSIDE] * 9 + [CUT] * 8 + [(50.0, 10.0, 20.0, 40.0)], None),
        ([INSIDE] * 9 + [CUT] * 8 + [(50.0, 10.0, 50.0, 40.0)], None),
        ([INSIDE] * 8 + [CUT] * 8 + [(10.0, 40.0, 50.0, 10.0)], None),
        ([INSIDE] * 8 + [CUT] * 8 + [(50.0, 10.0, 10.0, 40.0)], None),
        ([INSIDE] * 8 + [(150.0, 95.0, 500.0, 400.0)] * 8, None),  # cut, but the corner is not negative
    ],
)
def test_two_corners_of_boxes_that_a_crop_moved_outside(numbers: Sequence[Any], wrong: int | None) -> None:
    found = _judged("", boxes(*numbers), None)
    assert found.formats == (("xyxy",) if wrong else ())
    assert [fault for _, fault in found.wrong] == [OUTSIDE] * (wrong or 0)


WIDE, HIGH, FLAT = (10.0, 10.0, 50.0, 20.0), (50.0, 10.0, 50.0, 20.0), (50.0, 20.0, 80.0, 20.0)


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        ([WIDE] * 8 + [HIGH] * 8, 8),
        ([WIDE] * 8 + [FLAT] * 8, 8),
        ([WIDE] * 8 + [HIGH] * 7, 0),  # too few boxes
        ([WIDE] * 7 + [HIGH] * 9, 0),  # too few with an area
        ([WIDE] * 15 + [(60.0, 10.0, 50.0, 20.0)], 0),  # a second corner before the first: no corners
    ],
)
def test_torchvision_takes_ordered_numbers_as_corners(numbers: Sequence[Any], wrong: int) -> None:
    assert len(_judged("", boxes(*numbers), None, conventional=True).wrong) == wrong
    assert not _judged("", boxes(*numbers), None).wrong  # widths and heights, otherwise


def flipped(count: int, *, exchanged: bool = False, each: int = 2) -> list[torch.Tensor]:
    """Tables of boxes and classes of so many samples, flipped in every other one."""
    tables = []
    for sample in range(count):
        left, top = torch.arange(each) * 20.0 + sample, torch.arange(each) * 15.0 + 5
        right, bottom = left + 30, top + 12
        if sample % 2:
            left, right = (200 - left, 200 - right) if exchanged else (200 - right, 200 - left)
        tables.append(torch.stack([left, top, right, bottom, torch.arange(each) % 3.0], 1))
    return tables


CLASS_FIRST = [4, 0, 1, 2, 3]
SHARES = torch.tensor([200.0, 100.0, 200.0, 100.0, 1.0])


@pytest.mark.parametrize(
    ("name", "tables", "wrong"),
    [
        ("", flipped(20, exchanged=True), 20),
        ("", [table[:, CLASS_FIRST] for table in flipped(20, exchanged=True)], 20),
        ("", [table / SHARES for table in flipped(20, exchanged=True)], 20),
        ("", [table[:, :4] for table in flipped(20, exchanged=True)], None),  # rows of four are boxes by name
        ("boxes", [table[:, :4] for table in flipped(20, exchanged=True)], 20),
        ("", flipped(20, exchanged=True, each=1), None),  # the ends of a line in each image
        ("boxes", flipped(20, exchanged=True, each=1), 10),
        ("", [table + torch.tensor([0, 0, 0, 0, 0.5]) for table in flipped(20, exchanged=True)], None),  # no classes
        ("", flipped(20), None),
        ("", [table / SHARES for table in flipped(20)], 0),
        ("", [torch.cat([table / SHARES, torch.zeros(3, 5)]) for table in flipped(20)], 0),  # rows that pad
        ("boxes", flipped(6, exchanged=True), None),
    ],
)
def test_boxes_beside_their_classes(name: str, tables: Sequence[torch.Tensor], wrong: int | None) -> None:
    samples = [{"x": torch.rand(1, 100, 200), name or "rows": table} for table in tables]
    found = [one for one in boxes_of(lab(samples, collate=lambda one: one)) if one.formats]
    assert [len(one.wrong) for one in found] == ([] if wrong is None else [wrong])


class TestBoxesOfSamples:
    """Leaves of four numbers are boxes by their name, their type, or labels beside them."""

    IMAGE = torch.rand(1, 100, 200)
    ROWS = torch.tensor(CORNERS)

    def found(self, *samples: Any, **contract: str) -> dict[str, int]:
        made = lab(samples, contract, collate=lambda one: one)
        return {one.path: len(one.seen) for one in boxes_of(made)}

    def test_names_and_neighbours(self) -> None:
        assert self.found({"x": self.IMAGE, "boxes": self.ROWS}) == {"['boxes']": 4}
        assert self.found({"x": self.IMAGE, "box": self.ROWS[0]}) == {"['box']": 1}
        assert self.found({"x": self.IMAGE, "numbers": self.ROWS}) == {}
        assert self.found({"x": self.IMAGE, "numbers": self.ROWS, "labels": torch.arange(4)}) == {"['numbers']": 4}
        assert self.found({"x": self.IMAGE, "numbers": self.ROWS}, bbox_format="xyxy") == {"['numbers']": 4}
        assert self.found({"x": self.IMAGE, "numbers": self.ROWS, "rois": self.ROWS}, bbox_format="xyxy") == {
            "['rois']": 4
        }
        assert self.found({"boxes": self.ROWS}) == {}  # in no image

    @pytest.mark.parametrize(
        "image",
        [
            *map(torch.rand, [(1, 100, 200), (3, 100, 200), (100, 200, 1), (100, 200, 3), (100, 200, 4)]),
            Image.new("RGB", (200, 100)),
        ],
    )
    def test_the_size_is_that_of_the_image(self, image: Any) -> None:
        (found,) = boxes_of(lab([{"x": image, "boxes": self.ROWS}], collate=lambda one: one))
        assert {(box.height, box.width) for box in found.seen} == {(100, 200)}

    @pytest.mark.parametrize(("declared", "layout"), [("coco", "xywh"), ("xywh", "xywh"), (None, "xyxy")])
    def test_the_contract_declares_the_format(self, declared: str | None, layout: str) -> None:
        contract = {"bbox_format": declared} if declared else {}
        (found,) = boxes_of(lab([{"x": self.IMAGE, "boxes": self.ROWS}], contract))
        assert found.formats == (layout,)

    @pytest.mark.parametrize(
        ("names", "wrong"),
        [(("boxes", "labels"), 8), (("boxes", "classes"), 0), (("rois", "labels"), 0), (("my_boxes", "labels"), 0)],
    )
    def test_the_names_of_torchvision_say_that_numbers_are_corners(self, names: tuple[str, str], wrong: int) -> None:
        rows = torch.tensor([WIDE] * 8 + [HIGH] * 8)
        (found,) = boxes_of(lab([{"x": self.IMAGE, names[0]: rows, names[1]: torch.arange(16)}]))
        assert len(found.wrong) == wrong

    @pytest.mark.parametrize(("count", "unknown"), [(3, False), (4, True)])
    def test_boxes_that_fit_no_format(self, count: int, unknown: bool) -> None:
        rows = torch.tensor([(500.0, 10.0, 400.0, 5.0)] * count) + torch.arange(count)[:, None]
        (found,) = boxes_of(lab([{"x": self.IMAGE, "boxes": rows}]))
        assert found.is_unknown == unknown

    def test_rows_that_pad_a_table(self) -> None:
        padded = torch.cat([self.ROWS, torch.zeros(2, 4)])
        one = {"x": self.IMAGE, "boxes": padded}
        assert self.found(one, one) == {"['boxes']": 8}
        assert self.found(one, {"x": self.IMAGE, "boxes": self.ROWS}) == {"['boxes']": 10}  # tables of any length
        assert self.found(one) == {"['boxes']": 6}
