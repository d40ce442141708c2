"""How two series of draws compare."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from dataguard.stats.coincidence import Agreement, Groups, agreement, is_shared, log_odds


def groups(*several: str) -> Groups:
    """Draws written as letters, one word a group."""
    return tuple(tuple(letter.encode() for letter in word) for word in several)


@pytest.mark.parametrize(
    ("one", "two", "found"),
    [
        (groups("aaa", "bbb"), groups("aaa", "bbb"), Agreement.DETERMINISTIC),
        (groups("abc"), groups("abd"), Agreement.DIFFERENT),
        (groups("abc"), groups("abc"), Agreement.UNSURE),
        (groups("abcdefghij", "klmnopqrst"), groups("abcdefghij", "klmnopqrst"), Agreement.CERTAIN),
        (groups("ab"), groups("ab"), Agreement.UNSURE),
        (groups("abb", "cdd"), groups("abb", "cdd"), Agreement.DETERMINISTIC),  # the first draws fill a cache
    ],
)
def test_equal_draws_prove_what_chance_does_not_explain(one: Groups, two: Groups, found: Agreement) -> None:
    assert agreement(one, two) is found


def test_one_random_series_is_enough() -> None:
    assert agreement(groups("aaa"), groups("abc")) is Agreement.DIFFERENT


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (range(12), range(12), False),
        (range(13), range(13), True),
        (range(40), range(28, 68), False),  # 12 in common
        (range(40), range(27, 67), True),
        (range(40), range(40, 80), False),
        ([*range(20), 0, 0, 0], range(20), False),  # contents repeat
        ([*range(30), 0], range(30), True),
        ("ab" * 20, "ab" * 20, False),
        ((), (), False),
    ],
)
def test_what_two_collections_have_in_common(one: Sequence[object], other: Sequence[object], shared: bool) -> None:
    assert is_shared(one, other) is shared


@pytest.mark.parametrize(("items", "found"), [(4, Agreement.UNSURE), (5, Agreement.CERTAIN)])
def test_chance_has_to_be_less_than_one_in_a_thousand_million(items: int, found: Agreement) -> None:
    series = groups(*["abc"] * items)
    assert agreement(series, series) is found


def test_the_odds_of_equal_draws() -> None:
    assert log_odds(groups("ab")) == pytest.approx(2 * math.log10(1 / 2))
    assert log_odds(groups("aab")) == pytest.approx(3 * math.log10(2 / 4))
    assert log_odds(groups("aaa")) == 0


def test_one_of_two_groups_may_be_constant() -> None:
    assert agreement(groups("aaa", "abc"), groups("aaa", "abd")) is Agreement.DIFFERENT
    assert agreement(groups("aaa", "abc"), groups("aaa", "abc")) is Agreement.UNSURE
