"""The line after which an image and its target disagree."""

from __future__ import annotations

import pytest

from dataguard.lab.culprit.line_trace import Look
from dataguard.lab.geometry.alignment_lines import last_parting


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ([("image", 0), ("mask", 0), ("image", 1)], 2),
        ([("image", 0), ("mask", 0), ("image", 1), ("mask", 1)], None),
        ([("image", 0), ("mask", 0), ("image", 1), ("mask", 2), ("image", 1)], 3),
        ([("image", 0), ("mask", 0), ("image", 1), ("mask", 1), ("mask", 2)], 4),
        ([("image", 0), ("image", 1), ("mask", 0)], 1),
        ([("image", 1), ("mask", 0)], None),
        ([("image", 0), ("image", 1), ("image", 2), ("mask", 2), ("image", 1)], 1),
    ],
    ids=["one", "both", "apart", "later", "before the mask", "from the start", "made before"],
)
def test_the_line_that_moves_one_side_alone(steps: list[tuple[str, int]], line: int | None) -> None:
    looks = [(Look("data.py", number, "read", side, True, None), side, at) for number, (side, at) in enumerate(steps)]
    found = last_parting(looks, int.__eq__, int.__eq__)
    assert (found.line if found else None) == line
