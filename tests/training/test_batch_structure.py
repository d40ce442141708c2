"""DG305 live: which leaf of a batch changed, and what may differ between batches."""

from __future__ import annotations

from collections import UserDict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch

from dataguard.training.batch_values import MOST_SIGNATURES, Structure, arrays_of

Pair = namedtuple("Pair", "image label")
IMAGES, LABELS = torch.zeros(4, 3, 2, 2), torch.zeros(4, dtype=torch.int64)


def first_change(batches: list[Any]) -> Any:
    structure = Structure()
    for batch in batches:
        found = None if structure.is_known(batch) else structure.changed(batch, arrays_of(batch))
        if found:
            return found
    return None


@pytest.mark.parametrize(
    ("batches", "change"),
    [
        ([[IMAGES, LABELS], [IMAGES, LABELS.float()]], ("[1]", ("int64", 1), ("float32", 1))),
        ([{"x": IMAGES}, {"x": IMAGES.double()}], ("['x']", ("float32", 4), ("float64", 4))),
        ([UserDict(x=IMAGES), UserDict(x=IMAGES.double())], ("['x']", ("float32", 4), ("float64", 4))),
        ([(IMAGES, LABELS), (IMAGES, LABELS.sum())], ("[1]", ("int64", 1), ("int64", 0))),
        ([np.zeros(3), np.zeros((3, 1))], ("", ("float64", 1), ("float64", 2))),
        (
            [[{"boxes": IMAGES}, {"boxes": IMAGES}], [{"boxes": IMAGES}, {"boxes": IMAGES.int()}]],
            ("[0]['boxes']", ("float32", 4), ("int32", 4)),
        ),
    ],
    ids=["labels become floats", "double", "a mapping", "squeezed", "numpy", "one of the targets"],
)
def test_another_dtype_or_dimension_is_named(batches: list[Any], change: Any) -> None:
    found = first_change(batches)
    assert found is not None
    assert found[1:] == change[1:]


@pytest.mark.parametrize(
    "batches",
    [
        [[IMAGES, LABELS], [IMAGES[:1], LABELS[:1]]],
        [{"x": IMAGES, "task": "a"}, {"y": LABELS, "task": "b"}, {"x": IMAGES, "task": "a"}],
        [{"x": IMAGES, "mask": None}, {"x": IMAGES, "mask": LABELS}],
        [(IMAGES, [{"boxes": torch.zeros(n, 4)} for n in counts]) for counts in ((1, 2), (0, 3, 1), (5,))],
        [(IMAGES, ["a"] * 4), (IMAGES, ["b"] * 3)],
        [Pair(IMAGES, LABELS), Pair(IMAGES, LABELS)],
        [[torch.zeros(3, n, n) for n in sizes] for sizes in ((4, 5, 6), (7, 8), (9,) * 12)],
    ],
    ids=["last batch", "tasks", "optional", "boxes", "strings", "namedtuple", "images of many sizes"],
)
def test_batches_of_healthy_loaders_differ_too(batches: list[Any]) -> None:
    assert first_change(batches) is None


def test_structures_without_end_are_not_all_remembered() -> None:
    structure = Structure()
    for number in range(MOST_SIGNATURES + 10):
        batch = {f"key{number}": LABELS}
        assert structure.changed(batch, arrays_of(batch)) is None
    assert structure.is_full
    assert not structure.is_known({f"key{MOST_SIGNATURES + 5}": LABELS})
