"""Walks from a dataset to those that it wraps: what each rule finds, and how columns are merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from torch.utils.data import ConcatDataset, Dataset, Subset

from dataguard.lab.core.loader_facts import (
    Inner,
    base_of,
    by_name,
    by_torch,
    by_type,
    callables_of,
    columns_of,
    innermost,
    wrapped_by,
)


class Plain(Dataset):
    def __init__(self, length: int = 4) -> None:
        self.numbers = np.arange(length)
        self.transform: Any = abs
        self.kind = int

    def __getitem__(self, index: int) -> int:
        return int(self.numbers[index])

    def __len__(self) -> int:
        return len(self.numbers)


class Paired(Dataset):
    """A wrapper of the user's own, which keeps its datasets under names of its own."""

    def __init__(self, images: Any) -> None:
        self.images = images
        self.dataset = ["no", "dataset"]

    def __len__(self) -> int:
        return len(self.images)


class Unrelated:
    """A dataset that does not derive from torch's."""


class Renamed(Subset):
    """A subset that may do something else with what it holds."""


PLAIN = Plain()
UNRELATED = Unrelated()


@pytest.mark.parametrize(
    ("dataset", "inner", "paths"),
    [
        (Subset(PLAIN, [0]), by_name, ["dataset", "dataset.dataset"]),
        (Subset(PLAIN, [0]), by_type, ["dataset", "dataset.dataset"]),
        (Subset(PLAIN, [0]), by_torch, ["dataset", "dataset.dataset"]),
        (Renamed(PLAIN, [0]), by_name, ["dataset", "dataset.dataset"]),
        (Renamed(PLAIN, [0]), by_torch, ["dataset"]),
        (Subset(UNRELATED, [0]), by_name, ["dataset", "dataset.dataset"]),  # type: ignore[arg-type]
        (Subset(UNRELATED, [0]), by_type, ["dataset"]),  # type: ignore[arg-type]
        (Paired(PLAIN), by_name, ["dataset"]),
        (Paired(PLAIN), by_type, ["dataset", "dataset.images"]),
        (ConcatDataset([PLAIN, PLAIN, Plain()]), by_name, ["dataset", "dataset.datasets[0]", "dataset.datasets[2]"]),
        (
            ConcatDataset([Subset(PLAIN, [0]), Plain()]),
            by_type,
            ["dataset", "dataset.datasets[0]", "dataset.datasets[1]", "dataset.datasets[0].dataset"],
        ),
    ],
)
def test_a_rule_says_what_is_wrapped(dataset: Any, inner: Inner, paths: list[str]) -> None:
    assert [path for path, _ in wrapped_by(dataset, inner)] == paths


def test_datasets_that_hold_each_other_are_walked_once() -> None:
    one, two = Paired(PLAIN), Paired(PLAIN)
    one.images, two.images = two, one
    assert [path for path, _ in wrapped_by(one, by_type)] == ["dataset", "dataset.images"]


def test_the_innermost_wrap_nothing() -> None:
    whole: Any = ConcatDataset([Subset(UNRELATED, [0]), PLAIN])  # type: ignore[arg-type]
    assert [path for path, _ in innermost(whole, by_torch)] == ["dataset.datasets[1]", "dataset.datasets[0].dataset"]


def test_a_callable_attribute_can_be_replaced() -> None:
    inner = Plain()
    for state, name, value in callables_of(Subset(inner, [0]), by_name):
        assert value is abs
        state[name] = repr
    assert (inner.transform, inner.kind) == (repr, int), "a class is no transform"


def test_an_index_leads_to_its_base() -> None:
    assert base_of(Subset(Subset(PLAIN, [3, 2]), [1]), 0) == (PLAIN, 2)


def own(dataset: Any) -> Iterator[tuple[str, np.ndarray]]:
    numbers = getattr(dataset, "numbers", None)
    if numbers is not None:
        yield "numbers", numbers


def test_columns_follow_subsets_and_concatenations() -> None:
    whole: Any = Subset(ConcatDataset([Subset(PLAIN, [2, 0]), Plain(3)]), [4, 0])
    path, column = columns_of(whole, own)["numbers"]
    assert (path, column.tolist()) == ("dataset.dataset.datasets[*]", [2, 2])
    assert columns_of(ConcatDataset([PLAIN, Subset(UNRELATED, [0])]), own) == {}  # type: ignore[arg-type]
    assert columns_of(Paired(PLAIN), own) == {}
    assert columns_of(Paired(PLAIN), own, through=True)["numbers"][0] == "dataset.images"
