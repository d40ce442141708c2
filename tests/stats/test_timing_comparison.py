"""Settings are told apart when their times say so, and not by chance."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataguard.stats.timing_comparison import LEAST_ROUNDS, MOST_ROUNDS, _ratio, paired, race, rank

SECONDS = st.floats(1e-6, 1e3)


def noisy(costs: Mapping[str, float], spread: float, seed: int) -> Callable[[str], float]:
    """Laps of known costs on a machine whose speed wanders, with an outlier now and then."""
    draw = random.Random(seed)

    def lap(name: str) -> float:
        burst = 3.0 if draw.random() < 0.05 else 1.0
        return costs[name] * math.exp(draw.gauss(0, spread)) * burst

    return lap


def run(costs: Mapping[str, float], spread: float, seed: int) -> dict[str, list[float]]:
    return race(list(costs), noisy(costs, spread, seed), may_continue=lambda: True, seed=seed)


class TestRace:
    @pytest.mark.parametrize("spread", [0.02, 0.1, 0.3])
    def test_the_best_is_found_or_nothing_is_said(self, spread: float) -> None:
        costs = {"0": 4.0, "1": 4.1, "2": 2.0, "4": 1.0, "8": 1.3}
        said = [rank(run(costs, spread, seed)).best for seed in range(400)]
        assert said.count(None) + said.count("4") >= 399  # a wrong word once in a thousand times, at each look
        if spread < 0.2:
            assert said.count("4") >= 300

    def test_equal_settings_are_not_told_apart(self) -> None:
        said = [rank(run({"2": 1.0, "4": 1.0}, 0.1, seed)).best for seed in range(400)]
        assert said.count(None) >= 392

    def test_what_is_surely_slower_drops_out_and_keeps_its_times(self) -> None:
        times = run({"slow": 10.0, "a": 1.0, "b": 1.02}, 0.05, 3)
        assert len(times["slow"]) == LEAST_ROUNDS
        assert len(times["a"]) == len(times["b"]) > LEAST_ROUNDS

    def test_settings_that_are_surely_alike_end_it(self) -> None:
        times = run({"a": 1.0, "b": 1.001}, 0.001, 0)
        assert len(times["a"]) == LEAST_ROUNDS < MOST_ROUNDS

    def test_a_round_that_is_cut_short_counts_for_nobody(self) -> None:
        laps: list[str] = []

        def lap(name: str) -> float:
            laps.append(name)
            return 1.0 + 0.5 * (len(laps) % 3)

        times = race(["a", "b", "c"], lap, may_continue=lambda: len(laps) < 8)
        assert {name: len(seconds) for name, seconds in times.items()} == {"a": 2, "b": 2, "c": 2}

    def test_the_first_round_is_always_whole(self) -> None:
        assert race(["a", "b"], lambda _: 1.0, may_continue=lambda: False) == {"a": [1.0], "b": [1.0]}

    def test_what_fails_leaves_with_its_times(self) -> None:
        times = race(["a", "b"], lambda name: None if name == "b" else 1.0, may_continue=lambda: True)
        assert times == {"a": [1.0] * LEAST_ROUNDS}
        assert race(["a"], lambda _: None, may_continue=lambda: True) == {}


class TestRatios:
    @given(st.lists(st.tuples(SECONDS, SECONDS), min_size=LEAST_ROUNDS, max_size=30))
    def test_an_interval_holds_what_was_measured(self, pairs: list[tuple[float, float]]) -> None:
        one, other = zip(*pairs, strict=True)
        ratio = paired(one, other)
        back = paired(other, one)
        assert ratio is not None
        assert back is not None
        assert ratio.least <= ratio.measured * 1.001
        assert ratio.most >= ratio.measured * 0.999 or ratio.most > 1e20
        assert not (ratio.slower and ratio.faster)
        assert ratio.slower == back.faster

    @given(st.lists(SECONDS, max_size=LEAST_ROUNDS - 1))
    def test_few_rounds_say_nothing(self, seconds: list[float]) -> None:
        assert paired(seconds, seconds) is None

    @given(st.lists(SECONDS, min_size=LEAST_ROUNDS, max_size=20))
    def test_a_setting_is_as_fast_as_itself(self, seconds: list[float]) -> None:
        ratio = paired(seconds, seconds)
        assert ratio is not None
        assert ratio.alike

    def test_noise_that_hits_a_round_hits_both(self) -> None:
        machine = [1.0, 5.0, 2.0, 1.0, 9.0, 3.0]
        ratio = paired([1.3 * slow for slow in machine], machine)
        assert ratio is not None
        assert ratio.slower

    @given(st.dictionaries(st.text(max_size=3), st.lists(SECONDS, min_size=1, max_size=6), min_size=1, max_size=5))
    def test_everything_is_ranked_once(self, times: dict[str, list[float]]) -> None:
        ranking = rank(times)
        assert sorted(ranking.order) == sorted(times)
        assert set(ranking.tied) <= set(ranking.order[1:])

    def test_nothing_is_ranked_of_nothing(self) -> None:
        assert rank({}).best is None

    def test_faster_and_slower_and_alike(self) -> None:
        one, other = [1.0, 1.1, 0.9, 1.0], [2.0, 2.1, 1.9, 2.0]
        fast, slow = paired(one, other), paired(other, one)
        assert fast is not None
        assert slow is not None
        assert (fast.faster, fast.slower, fast.alike) == (True, False, False)
        assert (slow.faster, slow.slower, slow.alike) == (False, True, False)
        assert slow.measured == pytest.approx(2, rel=0.05)

    def test_extremes_are_left_out_from_eight_rounds_on(self) -> None:
        burst = [1.0] * 6 + [100.0]
        assert paired([*burst, 1.0], [1.0] * 8) == paired([1.0] * 8, [1.0] * 8)
        few = paired(burst, [1.0] * 7)
        assert few is not None
        assert few.measured > 1.5


@pytest.mark.parametrize("freedom", range(1, 21))
def test_a_difference_by_chance_has_a_probability_of_one_in_a_thousand(freedom: int) -> None:
    """The tail of Student's t beyond the bound of the interval, by the density."""
    bound = math.log(_ratio(0.0, 0.01, freedom).most) / 0.01
    steps = (np.arange(100_000) + 0.5) / 100_000
    beyond = bound / steps
    scale = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)
    density = scale * (1 + beyond**2 / freedom) ** (-(freedom + 1) / 2)
    assert (density * beyond / steps).mean() == pytest.approx(0.001, rel=2e-3)


def test_the_settings_of_a_round_take_turns_in_any_order() -> None:
    laps: list[str] = []

    def lap(name: str) -> float:
        laps.append(name)
        return 1.0 + len(laps) % 5

    race(["a", "b", "c"], lap, may_continue=lambda: True)
    rounds = {tuple(laps[start : start + 3]) for start in range(0, 12, 3)}
    assert len(rounds) > 1
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
