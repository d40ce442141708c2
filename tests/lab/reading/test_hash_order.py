"""Sets in an order of choice: they are sets in every other respect, and only what hashes decide changes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataguard.lab.core.object_graph import _reduced
from dataguard.lab.reading.fresh_import import Places
from dataguard.lab.reading.hash_order import OrderedFrozenset, OrderedSet, ordered_sets

TEXTS = st.sets(st.text(max_size=3), max_size=6)

SOURCE = """
from collections.abc import Iterable

NAMES = ("cat", "dog", "owl", "elk", "fox", "cow")
LISTED = [name for name in set(NAMES)]
SPELLED = list({"cat", "dog", "owl", "elk", "fox", "cow"})
MADE = list({name.upper() for name in NAMES} | {"ANT"})
SORTED = sorted(set(NAMES))
NUMBERS = list({5, 3, 1, 4})
KNOWN = isinstance(set(), set) and isinstance({1}, (set, frozenset)) and not isinstance([], set)


class Own(set):
    pass


DERIVED = isinstance(Own(), set) and not isinstance(set(), Own)


def count(names: set[str], other: Iterable[str] = frozenset()) -> set[str]:
    kept: set[str] = {*names, *other}
    return kept


def shadowed(hash):
    return hash + 1


SALTED = count({"a"}) == {"a"} and shadowed(1) == 2
"""


def imported(folder: Path, name: str, *, backward: bool) -> tuple[ModuleType, Places]:
    """The module, with sets in one of two orders, and the places where that was asked for."""
    (folder / f"{name}.py").write_text(SOURCE)
    places: Places = {}
    sys.path.insert(0, str(folder))
    try:
        with ordered_sets(places, backward=backward):
            return importlib.import_module(name), places
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(name, None)


def test_only_orders_that_depend_on_hashes_are_reversed(tmp_path: Path) -> None:
    (one, places), (two, _) = (imported(tmp_path, f"sets_{backward}", backward=backward) for backward in (False, True))
    for name in ("LISTED", "SPELLED", "MADE"):
        assert getattr(one, name) == getattr(two, name)[::-1]
    assert one.SORTED == two.SORTED == sorted(one.NAMES)
    assert one.NUMBERS == two.NUMBERS == list({5, 3, 1, 4})
    assert one.KNOWN
    assert one.DERIVED
    assert one.SALTED
    assert {line for place in places if place for line in place[1:2]} >= {5, 6, 7}


@given(TEXTS, TEXTS)
def test_an_ordered_set_is_a_set(one: set[str], two: set[str]) -> None:
    for kind in (OrderedSet, OrderedFrozenset):
        first, second = kind(one), kind(two)
        assert first == one
        assert set(first) == one
        for found, expected in ((first | second, one | two), (first & two, one & two), (first - second, one - two)):
            assert found == expected
            assert type(found) is kind
        assert first.union(two) == one | two
        assert sorted(first ^ second) == sorted(one ^ two)
        assert len(first) == len(one)


def test_an_ordered_set_pops_until_it_is_empty() -> None:
    items = OrderedSet({"a", "b", "c"})
    assert {items.pop() for _ in range(3)} == {"a", "b", "c"}
    with pytest.raises(KeyError):
        items.pop()


def test_dates_are_memory_that_is_not_copied() -> None:
    assert _reduced(np.array(["2024-01-01"], "datetime64[D]")) == []
