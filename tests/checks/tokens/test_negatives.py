"""Negative examples that equal the positive one, in samples whose leaves are named so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from dataguard.checks.tokens.negatives import negatives_of
from tests.support.epochs import epoch

ITEMS = torch.randint(1, 400, (120, 6), generator=torch.Generator().manual_seed(0))
IMAGES = torch.rand(24, 3, 4, 4, generator=torch.Generator().manual_seed(0))


def column(row: int) -> dict[str, Any]:
    """Every fourth negative is taken from the column of positives."""
    return {"pos_item": int(ITEMS[row, 0]), "neg_item": int(ITEMS[row, row % 4])}


def apart(row: int) -> dict[str, Any]:
    return {"pos_item": int(ITEMS[row, 0]), "neg_item": int(ITEMS[row, 1 + row % 4])}


def listed(row: int) -> dict[str, Any]:
    """The positive item is the last of its negatives in every fourth row, and in one more by chance."""
    return {"positive": ITEMS[row, 0], "negatives": ITEMS[row, [1, 2, 3, 0 if row % 4 == 0 else 4]]}


def sequence(row: int) -> dict[str, Any]:
    """Rows that are padded with 0 on the left, as for next items."""
    padding = torch.zeros(row % 3, dtype=torch.long)
    return {"posSeq": torch.cat([padding, ITEMS[row, :3]]), "negSeq": torch.cat([padding, ITEMS[row, 3:]])}


def few_items(row: int) -> dict[str, Any]:
    """Negatives that are drawn from all of seven items."""
    return {"pos": int(ITEMS[row, 0]) % 7, "neg": int(ITEMS[row, 1]) % 7}


def triplet(row: int) -> dict[str, Any]:
    """The negative image is drawn from a group that holds the positive one."""
    image = IMAGES[row % 24]
    return {"anchor": image + 1, "positive": image, "negative": image if row % 3 == 0 else image + 2}


def twins(row: int) -> dict[str, Any]:
    """Names that say something else."""
    return {"position": row, "negotiated": row, "neg": row}


@pytest.mark.parametrize(
    ("make", "count", "equal"),
    [
        (column, 120, [30]),
        (apart, 120, [0]),
        (listed, 120, [31]),
        (sequence, 120, [0]),
        (few_items, 120, [0]),
        (triplet, 48, [0, 16]),
        (column, 12, [0]),
        (twins, 24, []),
    ],
)
def test_negatives_that_are_positives(make: Callable[[int], Any], count: int, equal: list[int]) -> None:
    seen = epoch([make(row) for row in range(count)], collate=lambda samples: samples)
    assert [one.equal for one in negatives_of(seen.samples, seen.value_summaries)] == equal
