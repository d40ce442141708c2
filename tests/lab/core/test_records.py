"""Records say what they record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dataguard.lab.core.leaves import describe
from dataguard.lab.core.records import (
    FEWEST_VALUES,
    BatchRecord,
    Census,
    GeneratorState,
    LeafRecord,
    Seeding,
    WorkerEpoch,
    blank_of,
    sample_records,
)


def test_nothing_is_remarkable_unless_it_is_said() -> None:
    leaf = LeafRecord("", "int", None, None, b"")
    assert leaf.size == 1
    assert not any((leaf.nan, leaf.inf, leaf.mask, leaf.constant, leaf.shown, leaf.device))
    batch = BatchRecord(0, 0, 0, 4, (), 0.0, 0.0, (), 0)
    assert (batch.incident, batch.refuses_each, batch.threads, batch.began) == (None, False, 1, 0.0)
    seeding = Seeding("numpy", "0", "file.py", 1, "main")
    assert seeding.place == ("numpy", "file.py", 1)
    assert (seeding.direct, seeding.epochs, seeding.path) == (True, False, None)


def test_generators_at_one_path_are_the_same_unless_another_was_made() -> None:
    one = GeneratorState("dataset.rng", "numpy", b"", None)
    assert (one.made, one.reseed, one.part, one.library) == (0, None, None, None)
    assert GeneratorState("global jax", "jax", b"", None).library == "jax"


@pytest.mark.parametrize(("worker", "place"), [(None, (0, 2)), (0, (0, 2)), (1, (1, 2))])
def test_the_main_process_counts_as_the_first_worker(worker: int | None, place: tuple[int, int]) -> None:
    assert Census(worker, 2, 1, (), ()).where == WorkerEpoch(*place)


def test_generators_are_found_by_path() -> None:
    one, two = (GeneratorState(path, "numpy", b"", None) for path in ("dataset.rng", "global jax"))
    assert Census(0, 0, 1, (one,), (), (two,)).states == {"dataset.rng": one, "global jax": two}


def test_samples_of_a_fetch() -> None:
    leaves = [(), ()]
    one, two = sample_records((1, 0, 3), [7], [0.5], leaves)
    assert (one.worker, one.batch, one.position, one.index, one.shown, one.seconds) == (1, 3, 0, 7, "7", 0.5)
    assert (two.position, two.index, two.shown, two.seconds) == (1, None, None, 0.0)


@pytest.mark.parametrize(
    ("value", "coloured"),
    [
        (torch.rand(3, 8, 9), True),
        (torch.rand(8, 9, 4), True),
        (torch.rand(1, 8, 9), False),
        (torch.rand(2, 8, 9), False),
        (torch.rand(3, 8), False),
        (torch.rand(2, 3, 8, 9), False),
        (torch.ones(3, 8, 9, dtype=torch.int64), False),
        (Image.new("RGB", (8, 9)), True),
        (Image.new("L", (8, 9)), False),
        (3, False),
    ],
)
def test_images_with_colours(value: Any, coloured: bool) -> None:
    assert describe("", value).is_coloured == coloured


@pytest.mark.parametrize(
    ("values", "blank"),
    [
        ([torch.zeros(8, 8)], True),
        ([torch.zeros(8, 7)], False),  # too small
        ([torch.zeros(FEWEST_VALUES)], False),  # a row
        ([torch.rand(8, 8)], False),
        ([torch.zeros(8, 8), torch.rand(8, 8)], False),
        ([torch.zeros(3, 8, 8), torch.rand(8, 8)], True),  # the image counts, not the mask
        ([torch.rand(3, 8, 8), torch.zeros(8, 8)], False),
        ([], False),
    ],
)
def test_a_blank_sample(values: list[Any], blank: bool) -> None:
    assert (blank_of([describe("", value) for value in values]) is not None) == blank


@pytest.mark.parametrize(
    ("value", "name"),
    [(1, "int64"), (1.0, "float64"), ("a", "str"), (np.array(["ab"]), "str"), (np.float32(1), "float32")],
)
def test_the_name_of_a_type_is_that_of_its_tensor(value: Any, name: str) -> None:
    assert describe("", value).type_name == name
