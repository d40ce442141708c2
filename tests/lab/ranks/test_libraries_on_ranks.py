"""Ranks of loaders that a library shares out between them, without an option."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import dataguard
from dataguard.core.model import Status
from dataguard.lab.ranks.shares import counter_of
from dataguard.lab.reading import rank_queries
from dataguard.lab.reading.rank_queries import RankState

CODES = ("DG202", "DG203", "DG204", "DG210", "DG108")
FAILED = {
    ("DG202", "sent_to_all"),
    ("DG204", "asked_wrong"),
}


def test_a_remembered_rank_is_seen_to_be_asked_if_its_library_is_imported_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = (
        "class State:\n    shared = {}\n    def __init__(self):\n        self.__dict__, self.rank = self.shared, 0\n"
    )
    (tmp_path / "late_library.py").write_text(library, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    state = RankState("late_library", "State", "shared", frozenset({"rank"}), frozenset())
    monkeypatch.setattr(rank_queries, "RANK_STATES", (state,))
    monkeypatch.setattr(rank_queries, "_MODULES", frozenset({"late_library"}))
    with rank_queries.rank_queries() as asked:
        made = importlib.import_module("late_library").State()
        assert not asked
        assert made.rank == 0
    assert [location.what for location in asked] == ["State.rank"]
    made.rank  # noqa: B018 - nobody watches any more
    assert len(asked) == 1


@pytest.mark.scan
def test_what_accelerate_makes_of_a_loader_is_what_ranks_read() -> None:
    pytest.importorskip("accelerate")
    report = dataguard.scan("tests.loaders.accelerated:named", select=CODES)
    by_case = {(result.code, result.loader.removeprefix("named.")): result for result in report.results}
    assert {case for case, result in by_case.items() if result.status is Status.FAILED} == FAILED, report.failed
    for name in ("asked", "prepared", "dispatched", "dispatched_augmented"):
        for code in CODES[:3]:
            assert by_case[code, name].status is Status.PASSED, by_case[code, name]
            assert by_case[code, name].exercised["ranks"] == 2
    for name in ("prepared_val", "dispatched_val"):
        assert "'remainder' of what is iterated" in str(by_case["DG210", name].reason), by_case["DG210", name]
    assert by_case["DG108", "dispatched_augmented"].reason == "one rank reads for all ranks"


@pytest.mark.parametrize(
    ("held", "counter"),
    [
        ([{"rest": 2}, {"rest": 2}], "rest"),
        ([{"rest": 2, "epoch": 1}, {"rest": 2, "epoch": 1}], "rest"),
        ([{"rest": 6}, {"rest": 6}], None),
        ([{"own": 2}, {"own": 1}], None),
        ([{}, {}], None),
    ],
)
def test_what_says_how_many_samples_of_the_last_step_count(held: list[dict[str, int]], counter: str | None) -> None:
    assert counter_of([frozenset(one.items()) for one in held], total=42, step=8) == counter
    assert counter_of([frozenset(one.items()) for one in held], total=40, step=8) is None
