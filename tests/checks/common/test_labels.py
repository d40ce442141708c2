"""Which leaf of a sample is its label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dataguard.checks.common.labels import Kind, Labels, _common, _kind, chosen, is_named
from dataguard.lab.core.leaves import describe
from dataguard.lab.core.records import SampleRecord
from dataguard.lab.core.value_summary import Numbers


def sample(*values: tuple[str, Any]) -> SampleRecord:
    return SampleRecord(None, 0, 0, 0, 0, "0", 0.0, tuple(describe(path, value) for path, value in values))


def labels(path: str, values: Mapping[int, int], kind: Kind = Kind.SAMPLE) -> Labels:
    return Labels(path, kind, "int64", values, values, {}, sum(values.values()), fixed=True)


@pytest.mark.parametrize(
    ("found", "path"),
    [
        ([labels("[1]", {0: 5, 1: 5, 4: 2})], "[1]"),
        ([labels("[1]", {1: 5, 2: 5, 4: 2}), labels("[2]", dict.fromkeys(range(12), 1))], "[1]"),
        ([labels("[1]", dict.fromkeys(range(100, 112), 1))], None),
        ([labels("['count']", {0: 4, 5: 4, 3: 4}), labels("['label']", {1: 4, 4: 8})], "['label']"),
        ([labels("[1]", {0: 4, 4: 4, 3: 4}), labels("[2]", {0: 6, 3: 6})], "[2]"),
        ([labels("[1]", {0: 4, 4: 8}), labels("[2]", {4: 6, 3: 6})], None),
        ([labels("['ids']", {0: 4, 3: 8}, Kind.TOKEN)], None),
    ],
)
def test_the_label_is_the_leaf_that_keeps_to_the_classes(found: Sequence[Labels], path: str | None) -> None:
    taken = chosen(found, 4, declared=False)
    assert (taken.path if taken else None) == path


def test_a_leaf_that_is_called_a_label_is_one_where_the_classes_are_declared() -> None:
    boxes, numbers = labels("[1]['labels']", {44: 5, 90: 5}, Kind.BOX), labels("[1]['area']", {50: 9, 70: 1}, Kind.BOX)
    assert chosen([boxes, numbers], 4, declared=False) is None
    assert chosen([boxes, numbers], 4, declared=True) is boxes
    assert chosen([numbers], 4, declared=True) is None


def test_a_leaf_may_be_called_like_a_label() -> None:
    assert all(map(is_named, ("['label']", "['y']", ".targets", "[1]['category_id']", ".y")))
    assert not any(map(is_named, ("[1]", "['image']", "['year']", ".xy")))


@pytest.mark.parametrize(
    ("lengths", "known"),
    [((12, 9, 20), True), ((12, 5, 20), True), ((5, 4, 20), False)],
)
def test_a_label_next_to_a_list_of_tokens(lengths: Sequence[int], known: bool) -> None:
    records = [sample(*((f".ids[{place}]", place) for place in range(length)), (".label", 2)) for length in lengths]
    label, token = (Numbers(path, "int", (), 2, 2, whole=True) for path in (".label", ".ids[2]"))
    assert _common([_kind(label, (), record) for record in records], {()}) is (Kind.SAMPLE if known else None)
    assert _common([_kind(token, (), record) for record in records], {()}) is None
