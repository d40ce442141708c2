"""Offsets of leaves in rows, and which leaves belong together."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from torch.utils.data import DataLoader

from dataguard.checks import CATALOGUE
from dataguard.checks.provenance.dg527_shifted_rows import _may_be_next, offset_of
from dataguard.core.model import Finding, NotApplicable, NotTested, Undecided
from dataguard.lab.provenance.held_rows import find_rows
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.rows.origins import NO_ROW, LeafRows, RowOrigins, SampleRows
from tests.lab.rows.test_stores import Held

(CHECK,) = (check for check in CATALOGUE if check.code == "DG527")


def origins(*shifts: int, other: str = "['action']", source: str = "b", length: int = 3) -> RowOrigins:
    """Samples of two leaves of three rows, the second of which comes from so many rows later."""
    return RowOrigins(
        tuple(
            SampleRows(
                number,
                (
                    LeafRows("['state']", "a", 0, tuple(range(10 * number, 10 * number + 3))),
                    LeafRows(other, source, 0, tuple(10 * number + row + shift for row in range(length))),
                ),
            )
            for number, shift in enumerate(shifts)
        ),
        {"a": 100, "b": 100, "c": 90},
    )


@pytest.mark.parametrize(
    ("rows", "offset"),
    [
        (origins(1, 1, 1, 1), 1),
        (origins(0, 0, 0, 0), 0),
        (origins(-2, 1, 1, 1), 1),  # the first is padded
        (origins(0, 1, 2, 3), None),
        (origins(1, 1), None),
        (origins(1, 1, 1, source="c"), None),
        (origins(1, 1, 1, length=2), None),
    ],
)
def test_a_constant_offset(rows: RowOrigins, offset: int | None) -> None:
    assert offset_of(rows, "['state']", "['action']") == offset


def test_positions_without_a_row_do_not_matter() -> None:
    leaves = [LeafRows("x", "a", 0, (NO_ROW, 4, 5)), LeafRows("y", "b", 0, (NO_ROW, 5, 6))]
    assert offset_of(RowOrigins((SampleRows(0, tuple(leaves)),) * 3, {"a": 9, "b": 9}), "x", "y") == 1


def judged(rows: Any, **contract: Any) -> list[Finding]:
    """The findings of a lab that has seen these rows."""

    class Seen:
        paired_columns = ()

        @property
        def rows(self) -> RowOrigins:
            if isinstance(rows, Exception):
                raise rows
            found: RowOrigins = rows
            return found

    paths = ["['state']", "['action']"]
    lab: Any = SimpleNamespace(
        settings=SimpleNamespace(contract=contract),
        epoch=SimpleNamespace(samples=[SimpleNamespace(leaves=[SimpleNamespace(path=path) for path in paths])]),
        provenance=Seen(),
        dataset=SimpleNamespace(location=None, may_load=False),
        places=SimpleNamespace(value=lambda *_: None),
        repro=SimpleNamespace(samples=str),
    )
    return [one for one in CHECK.judge(lab) if isinstance(one, Finding)]


def test_declared_leaves_come_from_the_same_rows() -> None:
    (finding,) = judged(origins(1, 1, 1, 1), aligned=["state", "action"])
    assert finding.message == "sample['action'] comes from rows 1 later than sample['state'], to which it belongs"
    assert not judged(origins(0, 0, 0, 0), aligned="state, action")
    assert not judged(origins(1, 1, 1, 1))
    with pytest.raises(NotTested, match="no leaf of a sample is reward"):
        judged(origins(0, 0, 0, 0), aligned=["state", "reward"])


def test_a_column_that_holds_later_values() -> None:
    pair = "['state']", "['action']"
    late = replace(origins(0, 0, 0, 0), shifts={pair: 1}, columns={"a": (), "b": ("action",)})
    (finding,) = judged(late, aligned=["state", "action"])
    assert finding.message == (
        "sample['action'] holds the values of sample['state'], to which it belongs, from rows 1 later"
    )
    assert not judged(replace(origins(-1, -1, -1, -1), shifts={pair: 1}), aligned=["state", "action"])
    assert not judged(late)


STEPS = np.random.default_rng(0).normal(size=(200, 2)).cumsum(0)
FLAGS = np.random.default_rng(1).random(200) < 0.3
MOVES = np.random.default_rng(2).integers(0, 4, 200)
ENDS = np.arange(200) % 20 == 19
SHIFTS: dict[str, tuple[Any, Any, int]] = {
    "later": (STEPS, np.roll(STEPS, -1, 0), 1),
    "earlier": (STEPS, np.roll(STEPS, 3, 0), -3),
    "within episodes": (STEPS[:, 0], np.where(ENDS, 0, np.roll(STEPS[:, 0], -1)), 1),
    "moves": (MOVES, np.roll(MOVES, -1), 1),
    "a list": (MOVES.tolist(), np.roll(MOVES, -1).tolist(), 1),
    "unlike types": (STEPS[:, 0].astype(np.float32), np.roll(STEPS[:, 0].astype(np.float32), 2).astype(float), -2),
    "the same": (STEPS, STEPS.copy(), 0),
    "a counter and one that begins with 1": (np.arange(200), np.arange(1, 201), 0),
    "complements": (FLAGS, ~FLAGS, 0),
    "rare flags": (ENDS, np.roll(ENDS, -1), 0),
    "a mean over three rows": (STEPS[:, 0], np.convolve(STEPS[:, 0], np.ones(3) / 3, "same"), 0),
    "other columns": (STEPS[:, 0], STEPS[:, 1], 0),
    "other widths": (STEPS, np.roll(STEPS[:, 0], -1), 0),
    "words": (MOVES, np.array(list("abcd"))[np.roll(MOVES, -1)], 0),
}


@pytest.mark.parametrize("name", SHIFTS)
def test_shifts_of_columns(name: str, tmp_path: Any) -> None:
    one, other, shift = SHIFTS[name]
    dataset = Held(
        lambda self, i: {"state": np.array(self.one[i : i + 4]), "action": np.array(self.other[i : i + 4])},
        one=one,
        other=other,
    )
    read = find_rows(Reader(DataLoader(dataset), tmp_path), [3, 8, 20], aligned=["state", "action"])
    assert read.shifts.get(("['state']", "['action']"), 0) == shift
    assert read.shifts.get(("['action']", "['state']"), 0) == -shift


def test_shifts_of_columns_of_a_table(tmp_path: Any) -> None:
    frame = pd.DataFrame({"number": range(200), "price": STEPS[:, 0], "word": "a", "next": np.roll(STEPS[:, 0], -1)})
    dataset = Held(lambda self, i: tuple(self.frame.iloc[i][["price", "next"]].astype(float)), frame=frame)
    read = find_rows(Reader(DataLoader(dataset), tmp_path), [3, 8, 20], aligned=["[0]", "[1]"])
    assert read.shifts == {("[0]", "[1]"): 1, ("[1]", "[0]"): -1}
    assert not find_rows(Reader(DataLoader(dataset), tmp_path), [3, 8, 20]).shifts


def test_slow_loaders_are_undecided_only_where_leaves_belong_together() -> None:
    with pytest.raises(Undecided):
        judged(Undecided("slow"), aligned=["state", "action"])
    with pytest.raises(NotApplicable, match="aligned"):
        judged(Undecided("slow"))


@pytest.mark.parametrize(
    ("pairs", "is_next"),
    [
        ([(0, 1), (4, 5), (9, 10), (12, 13)], True),
        ([(3, 9), (4, 40), (9, 11), (12, 13)], True),
        ([(5, 4), (9, 2), (12, 1)], True),
        ([(0, 7), (4, 2), (9, 10), (12, 1)], False),
        ([(1, 0), (2, 1), (5, 2), (6, 3), (7, 4)], False),
    ],
    ids=["next", "later ones of their group", "latest row first", "shuffled", "rows are dropped"],
)
def test_the_target_of_a_later_row_may_be_what_is_predicted(pairs: list[tuple[int, int]], *, is_next: bool) -> None:
    assert _may_be_next(pairs) is is_next
