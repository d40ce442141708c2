"""The bytes of batches that are in flight."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dataguard.checks.machine.dg601_shm_headroom import PAGE_BYTES, Flight, _leaf_bytes, flight_of
from dataguard.lab.core.records import LeafRecord


def lab_of(sizes: Sequence[int], trial: int | None = None, samples: Sequence[int] = (), **facts: Any) -> Any:
    """A lab that saw batches of these sizes, and samples of so many bytes."""
    leaves = [
        SimpleNamespace(index=at, leaves=(SimpleNamespace(dtype="uint8", shape=(n,)),)) for at, n in enumerate(samples)
    ]
    known = {
        "num_workers": 2,
        "prefetch": 2,
        "pin_memory": False,
        "pins": False,
        "mixes_samples": True,
        "batch_size": 2,
    }
    batches = tuple(SimpleNamespace(shared_bytes=size) for size in sizes)
    epoch = SimpleNamespace(batches=batches, sizes=None, whole=False, samples=leaves)
    return cast(
        "Any",
        SimpleNamespace(
            facts=SimpleNamespace(**(known | facts)),
            epoch=epoch,
            resources=SimpleNamespace(batch_bytes=lambda _: trial),
        ),
    )


QUEUES = PAGE_BYTES * (3 * 3 + 5)


@pytest.mark.parametrize(
    ("lab", "needed"),
    [
        (lab_of([100] * 20), 600),
        (lab_of([1000] + [100] * 20), 1500),  # one is ten times as large: it is there once
        (lab_of([100, 120]), 100 + 120 + 4 * 110),
        (lab_of([100] * 20, pin_memory=True, pins=True), 400),
        (lab_of([100] * 20, pin_memory=True), 600),
        (lab_of([100] * 20, trial=900, samples=[10, 10, 10, 90]), 900 + 500),
        (lab_of([100] * 20, trial=90, samples=[10, 10, 10, 90]), 600),
        (lab_of([100] * 20, trial=900, samples=[10] * 4), 600),
        (lab_of([100] * 20, trial=900, samples=[10, 10, 10, 11]), 900 + 500),  # a tenth larger than the median
        (lab_of([100] * 20, trial=900, samples=[100, 100, 100, 109]), 600),
        (lab_of([100] * 20, trial=900, samples=[10, 90]), 900 + 500),
        (lab_of([100] * 20, trial=900, samples=[90]), 600),  # no batch
        (lab_of([100] * 20, trial=900, samples=[90, 90, 90, 10, 10]), 600),  # most are as large
        (lab_of([100] * 20, trial=900, samples=[10, 10, 10, 90], batch_size=None), 600),
        (lab_of([100, 100, 130], trial=None), 100 + 100 + 130 + 3 * 100),
        (lab_of([100] * 20, trial=900, samples=[10, 10, 10, 90], mixes_samples=False), 600),
        (lab_of([]), 0),
    ],
)
def test_what_is_in_flight(lab: Any, needed: int) -> None:
    assert flight_of(lab).needed - QUEUES == needed


@pytest.mark.parametrize(
    ("sizes", "room", "fitting"),
    [
        ((100, 100), QUEUES + 250, 2),
        ((100, 50), QUEUES + 99, 0),
        ((100,), 0, 0),
        ((0,), QUEUES + 7, 7),
        ((), QUEUES, 0),
    ],
)
def test_how_many_batches_fit(sizes: tuple[int, ...], room: int, fitting: int) -> None:
    assert Flight(sizes, QUEUES).fitting(room) == fitting


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        ("uint8", (6,), 6),
        ("float32", (2, 3), 24),
        ("int64", (), 8),
        ("bool", (6,), 6),
        (None, None, 1),
        ("float16", (3,), 6),
    ],
)
def test_the_bytes_of_a_leaf(dtype: str | None, shape: tuple[int, ...] | None, size: int) -> None:
    leaf = LeafRecord("", "Tensor", dtype, shape, b"")
    assert _leaf_bytes(leaf) == size
