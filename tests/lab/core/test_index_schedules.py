"""Index samplers that replace the user's: an epoch is planned even where a sampler never ends."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from dataguard.lab.core.index_schedules import PATIENCE, PlannedEpoch, Spread, epoch_of


class Endless:
    """Shuffles without end, as samplers of iterations do."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.drawn = 0

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[list[int]]:
        for number in itertools.count():
            self.drawn += 1
            yield [number % self.length] * 4


def test_an_endless_sampler_is_as_long_as_it_says() -> None:
    sampler = Endless(20)
    assert epoch_of(sampler) == PlannedEpoch([[number] * 4 for number in range(20)], False)
    assert sampler.drawn < 10_000
    spread = Spread(Endless(20), 400, None, 2, batched=True)
    assert len(list(spread)) == 20
    assert not spread.whole


def test_an_endless_sampler_without_length_is_drawn_a_few_times_over(monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = epoch_of(map(list, zip(itertools.cycle(range(20)), itertools.repeat(0))), 20)
    assert not epoch.ends
    assert not epoch.late
    assert len(epoch.entries) < PATIENCE
    monkeypatch.setattr("dataguard.lab.core.index_schedules.MOST_SECONDS", 0.0)
    assert len(epoch_of(itertools.count()).entries) == 1
    spread = Spread(([number] for number in itertools.count()), 400, None, 2, batched=True)
    assert list(spread) == [[0]]
    assert (spread.sizes, spread.whole) == (None, False)


def test_a_sampler_that_ends_is_read_to_its_end_whatever_it_says() -> None:
    class Short(list):
        def __len__(self) -> int:
            return 2

    assert epoch_of(Short([1, 2, 3, 4])) == PlannedEpoch([1, 2, 3, 4], True)
    assert epoch_of(iter([1, 2])) == PlannedEpoch([1, 2], True)
