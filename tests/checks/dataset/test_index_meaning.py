"""Whether indices mean the same in two processes: answers as plain data."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataguard.checks.dataset.index_meaning import Change, compare, is_reordered, varying
from dataguard.core.incident import Incident
from dataguard.lab.core.records import LeafRecord
from dataguard.lab.reading.sample_reader import Answer


def answers(images: Sequence[object], labels: Sequence[object] = ()) -> list[Answer]:
    return [
        Answer(number, tuple(_leaf(path, value) for path, value in (("image", image), ("label", label))))
        for number, (image, label) in enumerate(zip(images, labels or [0] * len(images), strict=True))
    ]


def _leaf(path: str, value: object) -> LeafRecord:
    return LeafRecord(path, "int", None, None, repr(value).encode())


@given(st.permutations(range(6)))
def test_every_index_that_means_another_sample_is_counted(order: list[int]) -> None:
    one, two = answers(range(6)), answers(order)
    found = compare(one, two, lambda: one)
    unlike = [number for number in range(6) if order[number] != number]
    assert found == (Change(unlike[0], ("image",), len(unlike), 6, whole=True) if unlike else None)


def test_labels_alone_may_move() -> None:
    one = answers(range(4), [0, 0, 1, 1])
    assert compare(one, answers(range(4), [1, 1, 0, 0]), lambda: one) == Change(0, ("label",), 4, 4, whole=False)


def test_what_varies_anyway_says_nothing() -> None:
    one = answers(range(4))
    assert compare(one, answers([7, 8, 9, 6]), lambda: answers([9, 7, 6, 8])) is None


def test_what_varies_anyway_says_nothing_where_it_is_equal_by_chance() -> None:
    one = answers(range(4), [0, 1, 0, 1])
    assert compare(one, answers([7, 8, 9, 6], [1, 1, 0, 1]), lambda: answers([9, 7, 6, 8], [0, 0, 1, 1])) is None


def test_a_sample_that_cannot_be_read_says_nothing() -> None:
    one = answers(range(3))
    failed = [Answer(0, incident=Incident("sample", "OSError")), *one[1:]]
    assert compare(one, failed, lambda: one) is None


@pytest.mark.parametrize(
    ("one", "two", "reordered"),
    [
        (answers("abcd"), answers("dcba"), True),
        (answers("abcd", [0, 0, 1, 1]), answers("dcba", [1, 1, 0, 0]), True),
        ([*answers("abcd"), *answers("abcd")], answers("dcba"), True),  # each index was read twice
        (answers("abcd", [0, 0, 1, 1]), answers("dcba", [0, 0, 1, 1]), False),  # labels stay where they were
        (answers("abcd"), answers("abce"), False),  # a sample of another split
        (answers("aaaa", [0, 0, 1, 1]), answers("aaaa", [1, 1, 0, 0]), False),  # nothing tells samples apart
    ],
)
def test_samples_that_only_move_keep_their_labels(one: list[Answer], two: list[Answer], reordered: bool) -> None:
    assert is_reordered(one, two, frozenset()) == reordered


def test_what_varies_anyway_moves_no_sample() -> None:
    one, two = answers("abcd", [1, 2, 3, 4]), answers("dcba", [5, 6, 7, 8])
    assert not is_reordered(one, two, frozenset())
    assert is_reordered(one, two, varying(one, answers("abcd", [9, 8, 7, 6])))
