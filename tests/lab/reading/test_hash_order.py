"""Sets in an order of choice: they are sets in every other respect, and only what hashes decide changes."""

from __future__ import annotations

import ast
import importlib
import itertools
import subprocess
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

CASES = """
import dataclasses, enum, hashlib, random
from collections import defaultdict
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

NAMES = [f"name-{number}" for number in range(12)]
Kind = enum.Enum("Kind", [f"K{number}" for number in range(12)])
Level = enum.IntEnum("Level", [f"L{number}" for number in range(12)])


class Word(str):
    pass


class Row(NamedTuple):
    name: str
    number: int


@dataclasses.dataclass(frozen=True)
class Key:
    number: int
    name: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class Named:
    name: str


class Numbered:
    def __init__(self, name):
        self.name, self.number = name, int(name[5:])

    def __eq__(self, other):
        return self.number == other.number

    def __hash__(self):
        return hash(self.number)


class Called(Numbered):
    def __hash__(self):
        return hash(self.name) % 1009


class Stream:
    names = frozenset(NAMES)

    def __iter__(self):
        yield from self.names


def grouped():
    groups = defaultdict(set)
    for number, name in enumerate(NAMES):
        groups[number % 2].add(name)
    return [name for group in groups.values() for name in group]


def popped():
    names = set(NAMES)
    return [names.pop() for _ in NAMES]


FOUND = {name: repr(found) for name, found in {
    "set": list(set(NAMES)),
    "display": [*{"ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"}],
    "comprehension": [name for name in {name.upper() for name in NAMES}],
    "iterated": list(Stream()),
    "function": grouped(),
    "popped": popped(),
    "algebra": list(set(NAMES) - {"name-3"} | {"more"}),
    "in a dict": list(dict.fromkeys(frozenset(NAMES))),
    "bytes": list({name.encode() for name in NAMES}),
    "own strings": list({Word(name) for name in NAMES}),
    "paths": list({Path(name) for name in NAMES}),
    "dates": [day.day for day in {date(2024, 1, number) for number in range(1, 13)}],
    "enum": [kind.name for kind in set(Kind)],
    "tuples": list({(number, name) for number, name in enumerate(NAMES)}),
    "named tuples": [row.number for row in {Row(name, number) for number, name in enumerate(NAMES)}],
    "mixed": list({*NAMES, *range(4)}),
    "frozen dataclass": [one.name for one in {Named(name) for name in NAMES}],
    "own hash of a string": [one.number for one in set(map(Called, NAMES))],
    "keys": list(dict.fromkeys(NAMES).keys() & dict.fromkeys(NAMES[2:]).keys()),
    "hash": [hash(name) % 5 for name in NAMES],
    "hash of a tuple": hash(("a", 1)),
    "hash of a dataclass": hash(Named("a")),
    "hash as a key": sorted(NAMES, key=hash),
    "sorted": sorted(set(NAMES)),
    "most": max(set(NAMES)),
    "numbers": list({5, 3, 1, 4}),
    "floats": list({5.5, 3.25, 1.125}),
    "enum of numbers": [level.name for level in set(Level)],
    "spans": list({timedelta(number) for number in range(12)}),
    "tuples of numbers": list({(number, number % 3) for number in range(12)}),
    "dataclass of numbers": [one.number for one in {Key(number, str(number)) for number in range(12)}],
    "own hash of a number": [one.number for one in set(map(Numbered, NAMES))],
    "hash of numbers": hash((1, 2.5)),
    "differences": [3 - 1, {"a": 1}.keys() - {"b"} == {"a"}],
    "seeded by a string": random.Random("a").random(),
    "digest": hashlib.sha256(b"a").hexdigest(),
}.items()}
if __name__ == "__main__":
    print(FOUND)
"""
"""What depends on hashes, one way or another, and, from `sorted` on, what does not."""

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


def imported(folder: Path, name: str, *, backward: bool, source: str = SOURCE) -> tuple[ModuleType, Places]:
    """The module, with sets in one of two orders, and the places where that was asked for."""
    (folder / f"{name}.py").write_text(source)
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


def test_what_differs_is_what_differs_in_new_interpreters(tmp_path: Path) -> None:
    here = [imported(tmp_path, f"cases_{way}", backward=way, source=CASES)[0].FOUND for way in (False, True)]
    command = [sys.executable, "-s", "-S", str(tmp_path / "cases_True.py")]
    there = [
        ast.literal_eval(subprocess.check_output(command, env={"PYTHONHASHSEED": seed}, text=True))
        for seed in ("1", "2")
    ]
    differ_here, differ_there = ({name for name in one if one[name] != two[name]} for one, two in (here, there))
    assert differ_here == differ_there == set(itertools.takewhile("sorted".__ne__, here[0]))


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
