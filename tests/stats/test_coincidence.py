"""How two series of draws compare."""

from __future__ import annotations

import pytest

from dataguard.stats.coincidence import Agreement, Groups, agreement


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
