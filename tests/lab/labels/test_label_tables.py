"""What a dataset declares of its labels: a table of them, and the names of classes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from dataguard.checks.splits.split_mismatch import _function
from dataguard.lab.labels.declared_labels import find_class_names, find_table


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
