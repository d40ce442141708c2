"""Which arrays of a dataset are its samples, and the statistics of their columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from dataguard.lab.splits.tables import Column, Table, columns_of_rows, find_tables

ROWS = torch.arange(12.0).reshape(6, 2) ** 2
WHOLE = TensorDataset(ROWS, torch.arange(6))


class Frame(Dataset[Any]):
    """Rows of a data frame, as `made` changes them."""

    def __init__(self, made: Any = torch.clone) -> None:
        self.frame = pytest.importorskip("pandas").DataFrame({"a": ROWS[:, 0], "b": ROWS[:, 1], "name": "x"})
        self.made = made

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, index: int) -> Any:
        row = self.frame.iloc[index]
        return {"x": self.made(torch.tensor([row["a"], row["b"]], dtype=torch.float32))}


def tables(dataset: Any, indices: list[int]) -> tuple[Table, ...]:
    return find_tables(dataset, indices, dataset[indices[0]], indices[0])


def test_the_statistics_of_a_column() -> None:
    first, second = columns_of_rows(np.array([[0.0, 1.0], [4.0, 1.0], [4.0, 1.0], [0.0, 5.0]]))
    assert first == Column(4, 2.0, 4.0, 0.0, 4.0, 2, 2)
    assert second == Column(4, 2.0, 3.0, 1.0, 5.0, 3, 1)
    assert columns_of_rows(np.array([[0.0], [np.nan]])) == ()


def test_only_rows_that_are_asked_for_count() -> None:
    (whole,), (half,) = tables(WHOLE, [0, 1, 2, 3, 4, 5]), tables(WHOLE, [0, 2, 4])
    assert whole == Table("tensors[0]", columns_of_rows(ROWS.numpy()), path="[0]")
    assert half == Table("tensors[0]", columns_of_rows(ROWS[::2].numpy()), path="[0]")
    assert tables(Subset(WHOLE, [0, 2, 4]), [0, 1, 2]) == (half,)
    assert tables(ConcatDataset([WHOLE, WHOLE]), [1, 7])[0].columns[0].variance == 0


def test_a_data_frame_is_a_table_of_its_floats() -> None:
    (table,) = tables(Frame(), [0, 1, 2, 3, 4, 5])
    assert table == Table("frame", columns_of_rows(ROWS.numpy()), path="['x']")


def test_rows_that_no_sample_shows_are_no_table() -> None:
    assert tables(Frame(torch.negative), [1, 2]) == ()
    assert tables(TensorDataset(torch.zeros(6, 2, 2)), [0]) == ()
    assert find_tables(WHOLE, [], WHOLE[0], 0) == find_tables(WHOLE, [9], WHOLE[0], 0) == ()
