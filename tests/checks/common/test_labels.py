"""Which leaf of a sample is its label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from PIL import Image

from dataguard.checks.common.labels import Inputs, Kind, Labels, candidates, chosen, common_kind, is_named, kind_of
from dataguard.lab.core.leaves import describe
from dataguard.lab.core.records import Numbers, SampleRecord
from tests.support.epochs import lab


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
        ([labels("[1]", dict.fromkeys(range(4), 1))], "[1]"),  # each class once, in few samples
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
    [((12, 9, 20), True), ((8, 8, 8), True), ((12, 5, 20), True), ((5, 4, 20), False)],
)
def test_a_label_next_to_a_list_of_tokens(lengths: Sequence[int], known: bool) -> None:
    samples = (sample(*((f".ids[{place}]", place) for place in range(length)), (".label", 2)) for length in lengths)
    inputs = [Inputs.of(one) for one in samples]
    label, token = (Numbers(path, "int", (), 2, 2, whole=True) for path in (".label", ".ids[2]"))
    assert common_kind([kind_of(label, (), one) for one in inputs], {()}) is (Kind.SAMPLE if known else None)
    assert common_kind([kind_of(token, (), one) for one in inputs], {()}) is None


IMAGE = torch.rand(3, 8, 8)
DRAWING = Image.new("L", (9, 6))
"""Nine pixels wide, and six high."""


class TestCandidates:
    """The leaves of integers that may be labels."""

    @pytest.mark.parametrize(
        ("make", "found"),
        [
            (lambda place: {"x": IMAGE, "y": place % 3}, {"['y']": Kind.SAMPLE}),
            (lambda place: {"x": torch.rand(8), "y": place % 3, "z": 0.5}, {"['y']": Kind.SAMPLE}),
            (lambda place: {"x": torch.rand(7), "y": place % 3, "z": 0.5}, {}),
            (lambda place: {"x": torch.rand(7), "y": place % 3}, {"['y']": Kind.SAMPLE}),  # a row of a table
            (lambda place: {"x": torch.rand(2), "y": place % 3}, {"['y']": Kind.SAMPLE}),
            (lambda place: {"x": torch.rand(1), "y": place % 3}, {}),
            (lambda place: {"x": IMAGE, "id": {"kind": place % 3}}, {"['id']['kind']": Kind.SAMPLE}),
            (lambda place: {"x": torch.rand(2, 2), "y": place % 3}, {}),
            (lambda place: {"x": "text", "y": place % 3}, {"['y']": Kind.SAMPLE}),
            (lambda place: {"x": IMAGE, "y": place % 2 == 0}, {}),
            (lambda place: {"x": IMAGE, "y": place * 0.5}, {}),
            (lambda place: {"x": IMAGE, "length": place % 3}, {}),
            (lambda place: {"x": IMAGE, "class_id": place % 3}, {"['class_id']": Kind.SAMPLE}),
            (lambda place: {"x": IMAGE, "sample_id": place % 3}, {}),
            (lambda place: {"x": IMAGE, "label_id": place % 3}, {"['label_id']": Kind.SAMPLE}),
            (lambda place: {"x": torch.rand(8 + place), "n": 8 + place}, {}),  # a length under another name
            (lambda place: {"x": torch.rand(8 + place), "n": place}, {"['n']": Kind.SAMPLE}),
            (lambda place: {"x": torch.rand(8), "n": 8}, {"['n']": Kind.SAMPLE}),  # always the same: a class
            (
                lambda place: {"words": torch.arange(9) + place, "tags": torch.arange(9) % 3},
                {"['words']": Kind.TOKEN, "['tags']": Kind.TOKEN},
            ),
            (
                lambda place: {"words": torch.arange(9), "tags": torch.arange(9), "x": torch.rand(7)},
                {"['words']": Kind.TOKEN, "['tags']": Kind.TOKEN},
            ),
            (lambda place: {"ids": torch.arange(9) + place, "weights": torch.rand(9)}, {}),
            (lambda place: {"x": IMAGE, "boxes": torch.rand(2, 4), "y": torch.arange(2)}, {"['y']": Kind.BOX}),
            (lambda place: {"x": IMAGE, "mask": torch.arange(64).reshape(8, 8) % 3}, {"['mask']": Kind.PIXEL}),
            (lambda place: {"x": IMAGE, "mask": torch.arange(64).reshape(1, 8, 8) % 3}, {"['mask']": Kind.PIXEL}),
            (lambda place: {"x": DRAWING, "mask": torch.zeros(6, 9).long()}, {"['mask']": Kind.PIXEL}),
            (lambda place: {"x": DRAWING, "mask": torch.zeros(9, 6).long()}, {}),
            (lambda place: {"x": IMAGE, "mask": torch.arange(49).reshape(7, 7) % 3}, {}),
            (
                lambda place: {"x": torch.rand(3, 99, 99), "mask": torch.arange(99 * 99).reshape(99, 99) * bool(place)},
                {},
            ),
            (lambda place: {"x": IMAGE, "hashes": torch.arange(600).reshape(20, 30)}, {}),
        ],
    )
    def test_by_type_and_shape(self, make: Callable[[int], Any], found: Mapping[str, Kind]) -> None:
        made = lab([make(place) for place in range(8)], collate=lambda samples: samples)
        assert {one.path: one.kind for one in candidates(made)} == found

    def test_names_do_not_matter_where_the_classes_are_declared(self) -> None:
        made = lab([{"x": IMAGE, "length": place % 3} for place in range(8)], {"num_classes": 3})
        assert [one.path for one in candidates(made)] == ["['length']"]

    @pytest.mark.parametrize(("labelled", "found"), [(4, 0), (5, 1), (8, 1)])
    def test_more_than_half_of_the_samples_have_it(self, labelled: int, found: int) -> None:
        samples = [{"x": IMAGE, **({"y": place % 3} if place < labelled else {})} for place in range(8)]
        assert len(candidates(lab(samples, collate=lambda one: one))) == found

    def test_what_is_counted(self) -> None:
        (one,) = candidates(lab([{"x": IMAGE, "y": 3}]))
        assert (one.type_name, one.of, one.fixed, one.values, one.samples) == ("int64", 1, True, {3: 1}, {3: 1})
        boxes = [{"x": IMAGE, "boxes": torch.rand(2, 4), "y": torch.tensor([place % 2, 5])} for place in range(3)]
        (one,) = candidates(lab(boxes))
        assert (one.of, one.values, one.samples) == (3, {0: 2, 1: 1, 5: 3}, {0: 2, 1: 1, 5: 3})
        assert (one.first[5].index, one.first[1].index) == (0, 1)


@pytest.mark.parametrize(
    ("values", "kind", "repeats"),
    [
        (dict.fromkeys(range(4), 2), Kind.SAMPLE, True),
        ({**dict.fromkeys(range(5), 1), 6: 3}, Kind.SAMPLE, False),
        ({7: 1}, Kind.SAMPLE, True),
        ({7: 1, 8: 1}, Kind.SAMPLE, False),
        ({7: 1, 8: 2}, Kind.SAMPLE, False),
        (dict.fromkeys(range(9), 1), Kind.BOX, True),
    ],
)
def test_classes_repeat_and_identifiers_do_not(values: Mapping[int, int], kind: Kind, repeats: bool) -> None:
    assert labels("[1]", values, kind).repeats == repeats


@pytest.mark.parametrize(
    ("value", "share"), [(0, 1), (3, 1), (4, 1), (5, 0.5), (-1, 1), (-2, 0.5), (255, 1), (-100, 1), (254, 0.5)]
)
def test_the_share_of_values_that_may_be_indices_of_four_classes(value: int, share: float) -> None:
    assert labels("[1]", Counter([1, value])).inside(4) == share
