"""The order of an epoch's indices, recorded while no sample is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils.data import DataLoader

from dataguard.lab.reading.recorded_order import MOST_RECORDED, Recorded, draw_epoch, recorder
from tests.support.targets import Ten


def test_an_epoch_without_indices_is_an_order() -> None:
    begun: list[Recorded] = []
    loader: DataLoader[Any] = DataLoader(Ten(), batch_sampler=Recorded([], 10, begun, batched=True))
    draw_epoch(loader, begun, 0)
    assert [(one.batches, one.whole) for one in begun] == [([], True)]


@pytest.mark.parametrize(
    ("kept", "batches"), [(None, [(0, 1, 2), (3, 4, 5), (6, 7)]), (4, [(0, 1, 2), (3, 4, 5)]), (0, [])]
)
def test_what_is_not_kept_is_counted(kept: int | None, batches: list[tuple[int, ...]]) -> None:
    order = Recorded([[0, 1, 2], [3, 4, 5], [6, 7]], 10, [], batched=True, kept=kept)
    for _ in range(2):
        assert list(order) == [[]]
        assert (order.batches, order.count, order.whole) == (batches, 3, True)


def test_a_loader_that_fails_before_it_draws_has_none() -> None:
    class Failing(DataLoader[Any]):
        def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
            raise RuntimeError("no epoch")

    begun: list[Recorded] = []
    with pytest.raises(RuntimeError, match="no epoch"):
        draw_epoch(Failing(Ten(), batch_sampler=Recorded([], 10, begun, batched=True)), begun, 0)


def test_an_epoch_of_a_nominal_length_is_not_drawn_to_its_end() -> None:
    recorded, schedule = recorder(10**10)
    draw_epoch(DataLoader(Ten(), batch_sampler=schedule([[0]] * (MOST_RECORDED + 9), True)), recorded, 0)
    assert [(one.whole, one.count) for one in recorded] == [(False, MOST_RECORDED)]
