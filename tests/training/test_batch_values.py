"""DG501 and DG502 live: values that are wrong, and values that only look so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dataguard.training.batch_values import InvalidValues, Labels, arrays_of, non_finite
from tests.support.training_loops import Items, pair

NAN, INF = float("nan"), float("inf")


def bad_values(batch: Any) -> list[InvalidValues]:
    return list(non_finite(arrays_of(batch)))


@pytest.mark.parametrize(
    ("batch", "wrong"),
    [
        (torch.tensor([[0.0, NAN], [1.0, 2.0]]), InvalidValues("", "1 NaN", (0,), 2)),
        ([torch.zeros(3, 2), torch.tensor([1.0, INF, NAN])], InvalidValues("[1]", "1 NaN and 1 Inf", (1, 2), 3)),
        ({"x": torch.tensor([1.0, -INF]).half()}, InvalidValues("['x']", "1 Inf", (1,), 2)),
        ({"x": torch.tensor([[1.0], [NAN]]).bfloat16()}, InvalidValues("['x']", "1 NaN", (1,), 2)),
        (np.array([NAN, 1.0]), InvalidValues("", "1 NaN", (0,), 2)),
        (torch.tensor([INF, -INF, 1.0]), InvalidValues("", "2 Inf", (0, 1), 3)),
        (torch.tensor(NAN), InvalidValues("", "1 NaN", (0,), 1)),
    ],
    ids=["rows", "nan and inf", "half", "bfloat16", "numpy", "infinities that cancel", "scalar"],
)
def test_values_that_are_not_finite_are_counted_with_their_rows(batch: Any, wrong: InvalidValues) -> None:
    assert bad_values(batch) == [wrong]


@pytest.mark.parametrize(
    "batch",
    [
        {"attention_mask": torch.tensor([[0.0, -INF], [0.0, 0.0]])},
        torch.full((4,), 3e38),
        torch.full((4,), 65504.0, dtype=torch.float16),
        [torch.arange(4), torch.tensor([True]), "text", None, b""],
        torch.empty(0, 3),
        torch.zeros(2, 2).to_sparse(),
        torch.zeros(2).to(torch.float8_e4m3fn),
        torch.zeros(3, requires_grad=True),
        np.array(["a", None], dtype=object),
        torch.zeros(4, 4).t()[::2],
    ],
    ids=["mask", "overflow", "half", "others", "empty", "sparse", "float8", "grad", "objects", "strided"],
)
def test_finite_values_and_masks_are_fine(batch: Any) -> None:
    assert bad_values(batch) == []


def test_nothing_is_computed_in_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("torch may start threads for this, after which a forked worker may hang")

    for name in ("isfinite", "sum", "aminmax"):
        monkeypatch.setattr(torch, name, refuse)
    monkeypatch.setattr(torch.Tensor, "sum", refuse)
    assert bad_values([torch.zeros(4), torch.zeros(4).half()]) == []


def wrong_labels(labels: Labels, *batches: Any) -> list[InvalidValues]:
    return [wrong for batch in batches for wrong in labels.wrong(arrays_of(batch))]


def given(count: int | None, ignored: int | None = None, key: str | int | None = None) -> Labels:
    return Labels.of(None, count, ignored, key)


X = torch.zeros(4, 3)
MASK = torch.tensor([[[0, 1], [2, 255]]])


@pytest.mark.parametrize(
    ("labels", "batch", "path", "what"),
    [
        (given(4), [X, torch.tensor([0, 4, 1, -1])], "[1]", "-1, 4"),
        (given(4), {"x": X, "labels": torch.tensor([0, 9])}, "['labels']", "9"),
        (given(4), {"x": X, "labels": np.array([0, 9])}, "['labels']", "9"),
        (given(3), (X, MASK), "[1]", "255"),
        (given(3), (X, [{"labels": torch.tensor([3])}]), "[1][0]['labels']", "3"),
        (given(3, key="kind"), {"kind": torch.tensor([7]), "labels": torch.tensor([9])}, "['kind']", "7"),
        (given(3, key=2), (X, torch.tensor([9]), torch.tensor([7])), "[2]", "7"),
        (given(2), (X, torch.tensor([5, 6, 7, 8])), "[1]", "5, 6, 7 and 1 more values"),
    ],
)
def test_labels_out_of_range(labels: Labels, batch: Any, path: str, what: str) -> None:
    (wrong,) = wrong_labels(labels, batch)
    assert (wrong.path, wrong.what) == (path, what)


@pytest.mark.parametrize(
    ("labels", "batch"),
    [
        (given(None), (X, torch.tensor([-1, 1]))),
        (given(4), (X, torch.tensor([0, -100, 3]))),
        (given(3, 255), (X, MASK)),
        (given(2), (torch.tensor([7, 8]), torch.tensor([0.0, 9.0]))),
        (given(2), {"index": torch.tensor([99]), "label": torch.tensor([1])}),
        (given(2), (X, torch.tensor([True, False]))),
    ],
    ids=["undeclared", "ignored by torch", "ignored by the user", "floats", "another key", "bool"],
)
def test_labels_in_range_and_other_integers(labels: Labels, batch: Any) -> None:
    assert wrong_labels(labels, batch) == []


def test_the_classes_of_a_dataset_count_once_a_leaf_is_seen_to_hold_them() -> None:
    dataset = Items(pair, classes=["cat", "cow", "dog", "hen"])
    labels = Labels.of(dataset, None, None, None)
    assert wrong_labels(labels, *[(X, torch.arange(16) % 4)] * 2) == []
    (wrong,) = wrong_labels(labels, (X, torch.tensor([0, 1, 4, 2])))
    assert wrong == InvalidValues("[1]", "4", (2,), 4)
    assert labels.source == "dataset.classes"


def test_properties_of_a_dataset_are_not_run() -> None:
    class Costly(Items):
        @property
        def num_classes(self) -> int:
            raise AssertionError("this may read the whole dataset")

    assert Labels.of(Costly(pair), None, None, None).count is None


@pytest.mark.parametrize(
    "second",
    [torch.arange(16) * 37 + 4, torch.full((16, 5), 9), torch.full((16,), 9.0)],
    ids=["an index", "several values per sample", "floats"],
)
def test_other_leaves_of_a_dataset_with_classes_are_no_labels(second: torch.Tensor) -> None:
    labels = Labels.of(Items(pair, classes=["cat", "dog"]), None, None, None)
    assert wrong_labels(labels, *[(X, second)] * 8) == []
