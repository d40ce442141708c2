"""Which assignments to a shared dataset count as a lost transform."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from dataguard.lab.splits.shared_transforms import find_replaced, find_shared, find_steady


class Rows(Dataset[Tensor]):
    def __init__(self, transform: Any = None) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Tensor:
        row = torch.arange(4.0) + index
        return self.transform(row) if self.transform else row


def noisy(row: Tensor) -> Tensor:
    return row + torch.rand(4)


def plain(row: Tensor) -> Tensor:
    return row * 2


def after_split() -> Any:
    train = Subset(Rows(noisy), range(4))
    train.dataset.transform = plain  # type: ignore[attr-defined]
    return train


def before_split() -> Any:
    rows = Rows(noisy)
    rows.transform = plain
    return Subset(rows, range(4))


def random_last() -> Any:
    train = Subset(Rows(plain), range(4))
    train.dataset.transform = noisy  # type: ignore[attr-defined]
    return train


def plain_first() -> Any:
    train = Subset(Rows(Tensor.neg), range(4))
    train.dataset.transform = plain  # type: ignore[attr-defined]
    return train


@pytest.mark.parametrize(
    ("make", "lost"), [(after_split, True), (before_split, False), (random_last, False), (plain_first, False)]
)
def test_a_random_transform_is_lost_if_it_is_replaced_after_the_split(
    make: Callable[[], Any], lost: bool, tmp_path: Path
) -> None:
    found = find_replaced(lambda: DataLoader(make()), tmp_path, ["dataset.dataset.transform"], [0, 1])
    assert (found is not None) is lost
    assert found is None or (found.name, found.replacement) == ("noisy", "plain")


def test_only_common_dataset_objects_share_a_transform() -> None:
    rows = Rows(noisy)
    train, val = DataLoader(Subset(rows, range(4))), DataLoader(Subset(rows, range(4, 8)))
    assert [one.path for one in find_shared((train, val))] == ["dataset.dataset.transform"]
    assert not find_shared((train, DataLoader(Subset(Rows(noisy), range(4, 8)))))


def test_leaves_are_steady_while_the_transform_that_draws_them_is_frozen(tmp_path: Path) -> None:
    assert find_steady(DataLoader(Rows(noisy)), tmp_path, "dataset.transform", [0, 1]) == {""}
