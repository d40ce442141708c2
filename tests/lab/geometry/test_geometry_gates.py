"""What a sample's leaves are says whether it is read for boxes, points, clouds or two sizes of an image."""

from __future__ import annotations

import pytest

from dataguard.lab.core.records import LeafRecord
from dataguard.lab.geometry.geometry_observations import _holds_table, _sides
from dataguard.lab.geometry.mask_charts import is_larger
from dataguard.lab.geometry.rotated_clouds import _may_be_cloud

Shape = tuple[int, ...]


def leaf(shape: Shape, kind: str = "torch.Tensor", *, constant: bool = False) -> LeafRecord:
    return LeafRecord("['leaf']", kind, "float32", shape, b"", constant=constant)


@pytest.mark.parametrize(
    ("shape", "constant", "holds"),
    [
        ((12, 4), False, True),
        ((51,), False, True),
        ((8, 51), False, True),
        ((64, 80), False, True),  # may be rows of 40 points
        ((64, 80), True, False),  # a mask of what is valid
        ((96, 80), False, False),  # more rows than one image shows bodies
        ((64, 200), False, False),
        ((1, 64, 80), False, False),
    ],
)
def test_leaves_that_may_be_tables(shape: Shape, constant: bool, holds: bool) -> None:
    assert _holds_table([leaf(shape, constant=constant)]) is holds
    assert _may_be_cloud(leaf((3, 2048), constant=constant)) is not constant


@pytest.mark.parametrize(
    ("one", "other", "larger"),
    [
        (leaf((3, 64, 48)), leaf((3, 32, 24)), True),
        (leaf((64, 48, 3)), leaf((3, 32, 24)), True),
        (leaf((48, 64), "PIL.Image"), leaf((3, 32, 24)), True),
        (leaf((3, 64, 48)), leaf((64, 48)), False),  # an image and its mask
        (leaf((1, 24, 24, 24)), leaf((24, 24, 24)), False),
        (leaf((3, 64, 48)), leaf((3, 60, 24)), False),
    ],
)
def test_images_of_two_sizes(one: LeafRecord, other: LeafRecord, larger: bool) -> None:
    assert is_larger(_sides(one), _sides(other)) is larger
    assert not is_larger(_sides(other), _sides(one))
