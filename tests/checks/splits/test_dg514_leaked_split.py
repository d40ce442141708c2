"""DG514: how many samples two splits share, and what leaves that open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.splits.dg514_leaked_split import dg514_leaked_split
from dataguard.core.model import Undecided
from dataguard.lab.splits.sample_pairs import SamplePair, SharedSeries
from dataguard.lab.splits.split_overlap import Comparison, Match
from tests.support.recordings import Verdict, recordings, verdict_of

OTHER = "[DG514.bad.train].facts"


def pair(number: int, *, same: bool = True, file: str | None = None) -> SamplePair:
    return SamplePair(number, number + 100, same, identical=same, file=file)


def judged(
    pairs: Sequence[SamplePair],
    total: int = 0,
    *,
    roles: tuple[str, str] = ("train", "val"),
    series: SharedSeries | None = None,
    **changes: Any,
) -> Verdict:
    """The verdict on a split of which some pairs with an earlier one were read again."""
    recorded = recordings("dg514_leaked_split")["bad.val"]
    (path,) = (path for path in recorded.reads if path.startswith(".splits.compared_with("))
    matches = (Match("content", total or len(pairs), tuple(pairs)),) if pairs else ()
    seen = Comparison(matches, 20, 20, "the content of all samples", whole=True, repeated=0, near_duplicates=None)
    facts = {
        place: replace(recorded.read(place), role=role) for place, role in zip((OTHER, ".facts"), roles, strict=True)
    }
    text: dict[str, Any] = {".splits.text_shared_with": lambda _: None, ".splits.series_shared_with": lambda _: series}
    text[".ranks"] = SimpleNamespace(overlap_with=lambda _: None)
    return verdict_of(dg514_leaked_split.judge, recorded.but({path: replace(seen, **changes), **text, **facts}).lab)


@pytest.mark.parametrize(
    ("pairs", "total", "complete", "count"),
    [
        ([pair(0), pair(1)], 2, "the content of all samples", "2 of 20"),
        ([pair(0), pair(1)], 9, "the content of all samples", "9 of 20"),
        ([pair(0), pair(1, same=False)], 9, "the content of all samples", "at least 1 of 20"),
        ([pair(0), pair(1)], 9, None, "at least 9 of 20"),  # an augmentation may hide others
        ([pair(0), pair(1)], 20, None, "20 of 20"),
    ],
)
def test_pairs_that_are_all_equal_stand_for_the_others(
    pairs: Sequence[SamplePair], total: int, complete: str | None, count: str
) -> None:
    (finding,) = judged(pairs, total, complete=complete).findings
    assert finding.message.endswith(f": {count} samples are in both")
    assert finding.message.startswith("dataset[100] of")


def test_eight_pairs_are_listed() -> None:
    assert len(judged([pair(number) for number in range(9)]).findings[0].evidence["confirmed by reading"]) == 8


@pytest.mark.parametrize(
    ("roles", "shared", "alias"),
    [(("val", "test"), 19, True), (("val", "test"), 18, False), (("train", "val"), 20, False)],
)
def test_a_test_split_may_be_the_validation_split(roles: tuple[str, str], shared: int, alias: bool) -> None:
    verdict = judged([pair(0)], shared, roles=roles)
    assert bool(verdict.findings) != alias
    assert ("under another name" in str(verdict.outcome.note)) == alias


def test_no_pair_of_all_samples() -> None:
    verdict = judged([])
    assert verdict.findings == ()
    assert "by the content of all samples" in verdict.outcome.note


@pytest.mark.parametrize(
    ("pairs", "changes", "words"),
    [
        ([pair(1, same=False, file="a.png")], {}, "index 101 and index 1 of DG514.bad.train read one file"),
        ([pair(1, same=False)], {"complete": None}, "all samples were compared"),
        ([], {"complete": None, "whole": False}, "only 20 samples were compared"),
    ],
)
def test_what_leaves_it_open(pairs: Sequence[SamplePair], changes: dict[str, Any], words: str) -> None:
    verdict = judged(pairs, **changes)
    assert isinstance(verdict.outcome, Undecided)
    assert str(verdict.outcome).startswith(words)


def test_pairs_that_differ_are_no_leak() -> None:
    assert judged([pair(1, same=False)]).findings == ()


@pytest.mark.parametrize(
    ("windows", "of", "found"), [(8, 20, True), (7, 20, False), (10, 100, True), (9, 100, False), (0, 20, False)]
)
def test_windows_of_one_series(windows: int, of: int, found: bool) -> None:
    series = SharedSeries(windows, of, (3, 5), 2) if windows else SharedSeries(0, of)
    findings = judged([], series=series).findings
    assert [finding.message for finding in findings] == found * [
        "dataset[3] of DG514.bad.val is a window of the series of dataset[5] of DG514.bad.train, 2 steps apart: "
        f"{windows} of {of} windows overlap"
    ]
