"""DG521: what looks like a scaler that was fitted on all splits, and what may be coincidence."""

from __future__ import annotations

import numpy as np
import pytest

from dataguard.checks.splits.dg521_fitted_on_evaluation import scaled_together
from dataguard.lab.splits.tables import columns_of_rows

ROWS = np.random.default_rng(7).gamma(2.0, 1.0, (200, 4))
STANDARD = (ROWS - ROWS.mean(0)) / ROWS.std(0)
ALL = [0, 1, 2, 3]


def found(rows: np.ndarray, train: int = 150, *, known: int | None = None) -> tuple[list[int], str] | None:
    """What is found of these rows, the first of which are for training, of which a part is known."""
    fitted = columns_of_rows(rows[:train])
    return scaled_together(fitted, [columns_of_rows(rows[: known or train]), columns_of_rows(rows[train:])])


@pytest.mark.parametrize("less", [0, 1], ids=["numpy", "pandas"])
def test_standardized_columns(less: int) -> None:
    assert found((ROWS - ROWS.mean(0)) / ROWS.std(0, ddof=less)) == (ALL, "mean 0 and deviation 1")


def test_columns_that_are_not_scaled_may_be_among_them() -> None:
    flags = np.arange(400).reshape(200, 2) % 3.0
    assert found(np.hstack([STANDARD, flags])) == (ALL, "mean 0 and deviation 1")
    assert found(np.hstack([STANDARD, flags, flags + 1, flags + 2])) is None


def test_constant_columns_do_not_count() -> None:
    assert found(np.hstack([STANDARD, np.zeros((200, 9))])) == (ALL, "mean 0 and deviation 1")


def test_what_is_exact_in_training_too_is_no_finding() -> None:
    train, val = ROWS[:150], ROWS[150:]
    assert found(np.vstack([(train - train.mean(0)) / train.std(0), (val - train.mean(0)) / train.std(0)])) is None
    assert found(np.vstack([(part - part.mean(0)) / part.std(0) for part in (train, val)])) is None


def test_one_column_may_be_exact_by_chance() -> None:
    assert found(STANDARD[:, :1]) is None


def test_rows_that_are_missing_make_it_inexact() -> None:
    assert found(STANDARD, known=149) is None


def test_ranges_whose_ends_are_single_values() -> None:
    largest = sorted({*ROWS.argmax(0).tolist()})
    ranged = np.vstack([np.delete(ROWS, largest, 0), ROWS[largest]])
    ranged = (ranged - ranged.min(0)) / (ranged.max(0) - ranged.min(0))
    lost = [place for place in ALL if ranged[:150, place].max() < 0.999]
    assert found(ranged) == (lost, "a range of 0 to 1")
    assert found(np.vstack([ranged, ranged[-len(largest) :]])) is None, "the ends occur twice"
    assert found(np.vstack([ranged[-len(largest) :], ranged[: -len(largest)]])) is None, "training has them"
