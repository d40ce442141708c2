"""Labels that stay with their boxes, where samples have few of them."""

from __future__ import annotations

import pytest

from dataguard.lab.geometry.box_labels import LabelledDraw, are_undecided, separated

LABELS = {0: (3, 2, 5), 1: (1, 7)}


def draw(number: int, kept: tuple[int, ...], labels: tuple[int, ...]) -> LabelledDraw:
    return LabelledDraw(number, 0, number, {"labels": labels}, len(kept))


@pytest.mark.parametrize(
    ("kept", "selected", "undecided", "found"),
    [
        ([(0, 1, 2), (0, 1)], False, True, False),
        ([(0, 1, 2), (0, 2)], False, True, False),
        ([(0, 1, 2), (0, 2), (2,)], False, False, True),
        ([(0, 1, 2), (0, 2), (2,)], True, False, False),
        ([(0, 1, 2), (0, 1, 2)], False, False, False),
    ],
    ids=["the first ones", "one pair", "two pairs", "selected", "all"],
)
def test_draws_with_fewer_boxes_decide(
    kept: list[tuple[int, ...]], selected: bool, undecided: bool, found: bool
) -> None:
    draws = [draw(0, own, tuple(LABELS[0][row] for row in own) if selected else LABELS[0][: len(own)]) for own in kept]
    pairs = [(one, other) for other in range(len(kept)) for one in range(other)]
    matches = [
        (one, other, [(kept[one].index(box), kept[other].index(box)) for box in kept[one] if box in kept[other]])
        for one, other in pairs
    ]
    draws.append(draw(1, (0, 1), LABELS[1]))
    assert are_undecided(draws, matches) is undecided
    assert bool(list(separated("boxes", draws, matches))) is found
