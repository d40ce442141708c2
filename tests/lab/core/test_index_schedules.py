"""Index samplers that replace the user's: an epoch is planned even where a sampler never ends."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from dataguard.lab.core.index_schedules import Spread, epoch_of


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
    entries, ends = epoch_of(sampler)
    assert (entries, ends) == ([[number] * 4 for number in range(20)], False)
    assert sampler.drawn < 10_000
    spread = Spread(Endless(20), 400, None, 2, batched=True)
    assert len(list(spread)) == 20
    assert not spread.whole


def test_a_sampler_that_ends_is_read_to_its_end_whatever_it_says() -> None:
    class Short(list):
        def __len__(self) -> int:
            return 2

    assert epoch_of(Short([1, 2, 3, 4])) == ([1, 2, 3, 4], True)
    assert epoch_of(iter([1, 2])) == ([1, 2], True)
