"""Which numbers are labels, which boxes make sense, and what a dataset declares about its classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from dataguard.checks.common.labels import Classes, Kind, Labels, _common, _kind, chosen, is_named
from dataguard.checks.labels.box_formats import Box, _judged
from dataguard.checks.labels.class_indices import balance
from dataguard.checks.labels.label_forms import Table, fits
from dataguard.checks.splits.split_mismatch import _function
from dataguard.engine import scan
from dataguard.lab.core.leaves import describe
from dataguard.lab.core.loader_facts import stem_of
from dataguard.lab.core.records import SampleRecord
from dataguard.lab.core.value_summary import Numbers, ValueSummary
from dataguard.lab.labels.class_names import find_class_names
from dataguard.lab.labels.label_tables import find_table
from dataguard.lab.spy.value_summaries import numbers_of
from dataguard.model import Severity, Status
from dataguard.settings.parsers import TARGET_FORMS
from dataguard.settings.settings import Settings


def only(value: Any, *, rows: bool = False) -> Numbers:
    (found,) = numbers_of(value, rows=rows)
    return found


@pytest.mark.parametrize(
    ("value", "counts", "is_float"),
    [
        (3, {3: 1}, False),
        (True, {1: 1}, False),
        (2.0, {2: 1}, True),
        (2.5, None, True),
        (torch.tensor([0, 2, 2, -100]), {-100: 1, 0: 1, 2: 2}, False),
        (np.array([[0, 255], [255, 255]], np.uint8), {0: 1, 255: 3}, False),
        (torch.tensor([1.0, 3.0], dtype=torch.bfloat16), {1: 1, 3: 1}, True),
        (torch.tensor([0.0, float("nan")]), {0: 1}, True),
        (list(range(20)), dict.fromkeys(range(20), 1), False),
        (Image.new("L", (4, 2), 7), {7: 8}, False),
        (torch.arange(10_000), None, False),
        (torch.tensor([0, 1 << 40]), {0: 1, 1 << 40: 1}, False),
    ],
)
def test_whole_numbers_are_counted(value: Any, counts: dict[int, int] | None, is_float: bool) -> None:
    found = only(value)
    assert (found.counts, found.is_float) == (counts, is_float)


@pytest.mark.parametrize(
    "value",
    [
        "text",
        None,
        b"bytes",
        torch.zeros(0),
        torch.full((2,), float("nan")),
        torch.zeros(3, 32, 32, dtype=torch.uint8),
        torch.zeros(4, device="meta"),
        torch.zeros(2, 2).to_sparse(),
        torch.zeros(2, dtype=torch.complex64),
        np.array(["a", "b"]),
        Image.new("RGB", (8, 8)),
    ],
)
def test_what_holds_no_numbers_of_interest_is_left_out(value: Any) -> None:
    assert list(numbers_of(value)) == []


def test_a_mask_that_was_divided_is_counted_as_it_was() -> None:
    mask = torch.arange(5).repeat(20, 1)
    found = only(mask / 255)
    assert (found.divided, found.whole, found.counts) == (True, False, dict.fromkeys(range(5), 20))
    assert not only(torch.rand(20, 5)).divided


def test_rows_are_summed_up() -> None:
    (row,) = only(torch.tensor([[0.7, 0.2, 0.1]]), rows=True).rows
    assert (row.sum, row.largest, row.second, row.least) == pytest.approx((1, 0.7, 0.2, 0.1))


@pytest.mark.parametrize(
    ("value", "constant"),
    [
        (torch.zeros(3, 8, 8), True),
        (torch.zeros(3, 8, 8).index_fill(2, torch.tensor([7]), 1), False),
        (torch.zeros(8), False),
        (torch.full((64,), float("nan")), False),
        (np.full((8, 8), 3, np.uint8), True),
        (Image.new("RGB", (8, 8), (1, 2, 3)), True),
        (Image.linear_gradient("L"), False),
        (torch.zeros(64, dtype=torch.float8_e4m3fn), True),
    ],
)
def test_an_array_of_one_value_is_constant(value: Any, constant: bool) -> None:
    leaf = describe("", value)
    assert leaf.digest
    assert leaf.constant is constant


def sample(*values: tuple[str, Any]) -> SampleRecord:
    return SampleRecord(None, 0, 0, 0, 0, "0", 0.0, tuple(describe(path, value) for path, value in values))


def test_a_sample_is_blank_when_all_its_images_are() -> None:
    noise, zeros = torch.rand(3, 16, 16), torch.zeros(3, 16, 16)
    assert sample(("image", zeros), ("mask", torch.rand(16, 16))).blank
    assert not sample(("image", noise), ("mask", torch.zeros(16, 16)), ("masks", torch.zeros(5, 16, 16))).blank
    assert not sample(("one", noise), ("two", zeros)).blank
    assert not sample(("values", torch.zeros(100)), ("label", 1)).blank
    assert sample(("scan", torch.zeros(1, 16, 16)), ("label", 1)).blank


def test_a_normalized_image_of_one_colour_is_blank() -> None:
    colour = torch.tensor([-2.12, -2.04, -1.8])
    image = colour.view(3, 1, 1).expand(3, 16, 16)
    assert sample(("image", image)).blank
    assert sample(("image", image.movedim(0, -1).numpy())).blank
    assert sample(("clip", image.expand(5, 3, 16, 16))).blank
    assert not sample(("board", torch.stack([torch.zeros(8, 8), torch.zeros(8, 8), torch.ones(8, 8)]))).blank
    marked = image.clone()
    marked[1, 9, 11] = 0
    assert not sample(("image", marked)).blank
    assert not sample(("rows", torch.arange(5.0).view(5, 1, 1).expand(5, 16, 16))).blank
    assert not sample(("rows", colour.view(3, 1).expand(3, 64))).blank


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


def test_balance_is_one_line() -> None:
    few = labels("[1]", {0: 3, 2: 1, 255: 2})
    assert balance(few, (255,), Classes(4, "", declared=True)) == (
        "sample[1] has 2 of 4 classes in 6 samples: 0 × 3, 2 × 1; 255 marks no class"
    )
    many = labels("[1]", {number: 2 + (number != 7) for number in range(40)})
    assert balance(many, ()) == "sample[1] has 40 classes in 119 samples: 2 to 3 of each, the rarest is 7"


class Declaring(Dataset[int]):
    """A dataset that declares its classes, and has eight samples."""

    def __init__(self, **declared: Any) -> None:
        vars(self).update(declared)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return index


def built(dataset: Dataset[int], **_: Any) -> DataLoader[int]:
    return DataLoader(dataset)


TARGETS = [0, 1, 2, 1, 0, 3, 1, -1]


@pytest.mark.parametrize(
    ("declared", "where"),
    [
        ({"targets": TARGETS}, "dataset.targets"),
        ({"targets": np.array(TARGETS)}, "dataset.targets"),
        ({"targets": torch.tensor(TARGETS), "rows": list(range(8))}, "dataset.targets"),
        ({"samples": [(f"{n}.png", label) for n, label in enumerate(TARGETS)]}, "dataset.samples[*][1]"),
        ({"targets": [0, 1, 2, 1, 0, 3, 2, -1]}, None),
        ({"targets": TARGETS[:7]}, None),
        ({"targets": [str(label) for label in TARGETS]}, None),
        ({"samples": [(0, 1), (1,), *[(1, 1)] * 6]}, None),
    ],
)
def test_a_table_of_labels_is_known_by_those_that_were_seen(declared: dict[str, Any], where: str | None) -> None:
    seen = [(index, label) for index, label in enumerate(TARGETS) if label >= 0] * 2
    found = find_table(partial(built, Declaring(**declared)), seen)
    assert (found.where if found else None) == where
    if found:
        assert (found.counts[-1], found.first[-1], found.first[3]) == (1, 7, 5)
        two: Dataset[int] = ConcatDataset([Subset(Declaring(**declared), [7, 6, 5]), Declaring(**declared)])
        shifted = find_table(partial(built, two), [(index + 3, label) for index, label in seen])
        assert shifted
        assert (shifted.counts[-1], shifted.first[-1], shifted.first[0]) == (2, 0, 3)


@pytest.mark.parametrize(
    ("declared", "count"),
    [
        ({"classes": ["a", "b", "c"]}, 3),
        ({"classes": np.array(["a", "b"])}, 2),
        ({"classes": ["a", "a", "b", "b"]}, None),
        ({"classes": 3}, None),
        ({"classes": {"a": 0, "b": 4}}, 5),
        ({"class_to_idx": {"a": 1, "b": 2}, "classes": ["x"]}, 3),
        ({"class_to_idx": {"a": "x"}}, None),
        ({"label2id": {"a": 0, "b": 1}}, 2),
        ({"num_classes": 7}, 7),
        ({"num_classes": True}, None),
        ({}, None),
    ],
)
def test_a_dataset_declares_its_classes(declared: dict[str, Any], count: int | None) -> None:
    wrapped: Dataset[int] = ConcatDataset([Subset(Declaring(**declared), [1, 2]), Declaring()])
    for dataset, where in ((Declaring(**declared), "dataset."), (wrapped, "dataset.datasets[0].dataset.")):
        found = find_class_names(partial(built, dataset))
        assert [names.count for names in found] == ([] if count is None else [count])
        assert all(names.where.startswith(where) for names in found)


def test_names_stand_for_numbers_where_each_has_one() -> None:
    pairs = [("cat", 0), ("cat", 0), ("dog", 1), ("dog", 1), ("all", 0), ("all", 1), (None, 3)]
    assert _function(pairs) == {"cat": 0, "dog": 1}
    assert _function([("a", 0), ("b", 0), ("a", 0), ("b", 0)]) == {}
    assert _function([(str(number), number) for number in range(9)]) == {}


@pytest.mark.parametrize(
    ("name", "stem"),
    [("train", ""), ("val_loader", "_loader"), ("depth_test", "depth_"), ("testDataloader", "dataloader"), ("x", None)],
)
def test_splits_have_their_names_in_common(name: str, stem: str | None) -> None:
    assert stem_of(name) == stem


@pytest.mark.scan
@pytest.mark.parametrize(
    ("contract", "failing"),
    [
        (
            {"num_classes": 4, "bbox_format": "yolo"},
            {"DG502": ["unlabelled", "void", "background", "words"], "DG503": [], "DG504": ["corners", "single"]},
        ),
        (
            {"num_classes": 6, "ignore_index": [-1, -100], "bbox_format": "pascal_voc"},
            {"DG502": ["void"], "DG503": [], "DG504": ["relative", "single"]},
        ),
        (
            {"num_classes": 5, "target_form": "index"},
            {"DG502": ["unlabelled", "background"], "DG503": ["shares", "several", "masks", "single"]},
        ),
        (
            {"target_form": "soft", "bbox_format": "xywh"},
            {
                "DG502": [],
                "DG503": ["labelled", "unlabelled", "void", "background", "several", "masks", "single"],
                "DG504": ["corners"],
            },
        ),
    ],
)
def test_the_contract_says_what_labels_and_boxes_mean(contract: dict[str, Any], failing: dict[str, list[str]]) -> None:
    checks = tuple(code for code, key in READERS.items() if key & set(contract))
    report = scan("tests.loaders.labelled:everything", Settings(select=checks, contract=contract))
    found = {
        code: [one.loader for one in report.results if (one.code, one.status) == (code, Status.FAILED)]
        for code in checks
    }
    assert found == failing
    assert not report.count(Status.BROKEN), report


READERS = {
    "DG502": {"num_classes", "ignore_index", "target_form"},
    "DG503": {"num_classes", "target_form"},
    "DG504": {"bbox_format"},
}
"""The checks, and the keys of the contract that they read."""


def table(*rows: Sequence[float], dtype: torch.dtype = torch.float32) -> Table:
    batch = torch.tensor(rows, dtype=dtype)
    return Table("", [only(batch, rows=True)], [None] * len(batch))


@pytest.mark.parametrize(
    ("found", "forms"),
    [
        (table([0, 1, 0], [1, 0, 0]), {"one-hot", "soft", "multilabel", "regression"}),
        (table([0, 1, 0], [1, 0, 0], dtype=torch.int64), {"index", "one-hot", "multilabel"}),
        (table([0.5, 0.5, 0], [0.2, 0, 0.8]), {"soft", "regression"}),
        (table([0, 1, 1], [0, 0, 0]), {"multilabel", "regression"}),
        (table([1], [0]), {"binary", "regression"}),
        (table([2], [0], dtype=torch.int64), set()),
        (table([0.5, 0.7, 0], [0.2, 0, 0.8]), {"regression"}),
    ],
)
def test_a_leaf_has_some_forms_and_not_others(found: Table, forms: set[str]) -> None:
    width = found.width if (found.width or 0) > 1 else None
    assert {form for form in TARGET_FORMS if fits(found, form, width) and (form != "multilabel" or width)} == forms


@pytest.mark.scan
@pytest.mark.parametrize(("face", "severity"), [("bad", Severity.ERROR), ("bad_from_one", Severity.WARNING)])
def test_labels_that_alone_tell_of_classes_are_a_warning(face: str, severity: Severity) -> None:
    (result,) = scan(f"sample_datasets.dg502_label_out_of_range:{face}", Settings(select=("DG502",))).results
    assert (result.status, result.severity) == (Status.FAILED, severity)
