"""A trend is steady growth that all workers agree on."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from dataguard.stats.trend import common, trend

MB = 1 << 20


def curve(value: Callable[[float], float], readings: int = 13, samples: int = 1200) -> list[tuple[float, float]]:
    return [(x, value(x)) for x in (samples * number / (readings - 1) for number in range(readings))]


@pytest.mark.parametrize(
    ("value", "steady"),
    [
        (lambda x: 1000 * x, True),
        (lambda x: 1000 * x + 30 * MB * (x > 100), True),  # after a warm-up
        (lambda x: (1 << 17) * (1000 * x // (1 << 17)), True),  # in steps, as an allocator takes it
        (lambda x: 50 * MB * (1 - math.exp(-x / 200)), False),
        (lambda x: 1000 * min(x, 500), False),
        (lambda x: 1000 * min(x, 900), False),
        (lambda x: 30 * MB * (x > 500), False),
        (lambda x: 3 * MB * math.sin(x), False),
        (lambda x: 0, False),
        (lambda x: -1000 * x, False),
    ],
)
@pytest.mark.parametrize("readings", [4, 13])
def test_a_trend_is_steady_or_levels_off(value: Callable[[float], float], steady: bool, readings: int) -> None:
    found = trend(curve(value, readings), 1 << 16)
    assert found is not None
    assert found.steady == steady
    if steady and readings > 4:
        assert found.rate == pytest.approx(1000, rel=0.1)


def test_growth_by_just_as_much_as_asked_for_is_no_noise() -> None:
    for slope in (0, 1000):
        found = trend(curve(lambda x: slope * x), 400 * slope)  # noqa: B023
        assert found is not None
        assert found.steady


def test_few_readings_tell_no_trend() -> None:
    assert trend(curve(lambda x: x, 3), 0) is None
    assert trend([(0, 1), (0, 2), (0, 3), (0, 4)], 0) is None
    assert common([]) is None
    assert common([trend(curve(lambda x: x), 0), None]) is None


def test_all_workers_have_to_agree() -> None:
    up, flat = trend(curve(lambda x: 1000 * x), MB / 4), trend(curve(lambda x: 0), MB / 4)
    both = common([up, up])
    assert both is not None
    assert both.steady
    mixed = common([up, flat])
    assert mixed is not None
    assert not mixed.steady
