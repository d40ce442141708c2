"""Offsets of leaves in rows, and which leaves belong together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks import CATALOGUE
from dataguard.checks.provenance.dg527_shifted_rows import offset_of
from dataguard.core.model import Finding, NotApplicable, NotTested, Undecided
from dataguard.lab.provenance.origins import NO_ROW, LeafRows, RowOrigins, SampleRows

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
        dataset=SimpleNamespace(location=None),
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


def test_slow_loaders_are_undecided_only_where_leaves_belong_together() -> None:
    with pytest.raises(Undecided):
        judged(Undecided("slow"), aligned=["state", "action"])
    with pytest.raises(NotApplicable, match="aligned"):
        judged(Undecided("slow"))
