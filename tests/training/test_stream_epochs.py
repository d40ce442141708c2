"""DG206 live: streams that repeat their order, and streams whose order is the same for a reason."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from dataguard.training import epoch_order
from dataguard.training.guard import guard
from tests.support.training_loops import codes, train

pytestmark = pytest.mark.scan
"""What a fork of this process reads."""


class Numbers(IterableDataset[torch.Tensor]):
    """Each worker's share of the numbers up to 200, as they are."""

    def order(self) -> list[int]:
        """All of them in the order of an epoch."""
        return list(range(200))

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        order = self.order()[info.id :: info.num_workers] if info else self.order()
        return map(torch.tensor, order)


class Reseeded(Numbers):
    """Shuffles by a constant seed."""

    def order(self) -> list[int]:
        return random.Random(7).sample(range(200), 200)


class ByEpoch(Numbers):
    """Shuffles by the epoch that it is given."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Remember the epoch."""
        self.epoch = epoch

    def order(self) -> list[int]:
        return random.Random(self.epoch).sample(range(200), 200)


class InOrder(ByEpoch):
    """Takes an epoch that changes nothing."""

    def order(self) -> list[int]:
        return list(range(200))


class Counting(ByEpoch):
    """Counts epochs by itself."""

    def order(self) -> list[int]:
        self.epoch += 1
        return super().order()


class Interleaved(ByEpoch):
    """Takes turns between two sources, each in its order, from an epoch's first one on."""

    def order(self) -> list[int]:
        return sorted(range(200), key=lambda number: (number % 100, (number // 100 + self.epoch) % 2))


def message(loader: DataLoader[torch.Tensor]) -> str:
    train(guard(loader, on_violation="record"), epochs=2)
    (finding,) = (found for result in guard.report(loader).results for found in result.findings)
    return f"{finding.message} {finding.evidence} {finding.at}"


@pytest.mark.parametrize("workers", [0, 2])
def test_nobody_calls_set_epoch(workers: int) -> None:
    said = message(DataLoader(ByEpoch(), batch_size=8, num_workers=workers))
    assert "ByEpoch has the same order in epochs 0 and 1, and another one once set_epoch is called" in said
    assert "call dataset.set_epoch(epoch) before each epoch" in said


def test_persistent_workers_do_not_see_set_epoch() -> None:
    said = message(DataLoader(ByEpoch(), batch_size=8, num_workers=2, persistent_workers=True))
    assert "persistent workers hold copies" in said


def test_a_constant_seed_decides_the_order() -> None:
    said = message(DataLoader(Reseeded(), batch_size=8))
    assert "Reseeded shuffles, but random.Random(7) gives epochs 0 and 1 the same order" in said
    assert "test_stream_epochs.py" in said


@pytest.mark.parametrize("stream", [Numbers, InOrder, Counting, Interleaved])
def test_orders_that_are_the_same_for_a_reason(stream: type[Numbers]) -> None:
    assert not codes(DataLoader(stream(), batch_size=8), epochs=3)


def test_set_epoch_is_called() -> None:
    stream = ByEpoch()
    loader = guard(DataLoader(stream, batch_size=8), on_violation="record")
    for epoch in range(3):
        stream.set_epoch(epoch)
        list(loader)
    assert not guard.report(loader).failed


def test_evaluation_may_repeat_its_order() -> None:
    loader = guard(DataLoader(Reseeded(), batch_size=8), on_violation="record", role="val")
    train(loader, epochs=2)
    assert not guard.report(loader).failed


def test_a_slow_stream_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(ByEpoch):
        def __iter__(self) -> Iterator[torch.Tensor]:
            for number in self.order()[:16]:
                time.sleep(0.01)
                yield torch.tensor(number)

    monkeypatch.setattr(epoch_order, "FORK_SECONDS", 0.1)
    assert not codes(DataLoader(Slow(), batch_size=8), epochs=2)
