"""DG402: what a batch loses, and what leaves that open."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.batches.dg402_lossy_collate import dg402_lossy_collate
from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.batches.collate_observations import GetitemsReads
from tests.support.lines import NoLines
from tests.support.recordings import Verdict, recordings, verdict_of

GOOD = recordings("dg402_lossy_collate")["good"]
OBSERVED = GOOD.read(".batches.observed")
OVERWRITTEN = SimpleNamespace(forward=SimpleNamespace(overwritten=("a sample",)))


def judged(changes: dict[str, Any] | None = None, getitems: GetitemsReads | None = None, **collation: Any) -> Verdict:
    """The verdict on batches that are right except for what is changed."""
    observed = replace(OBSERVED, collation=replace(OBSERVED.collation, **collation), getitems=getitems)
    dataset = SimpleNamespace(readings=SimpleNamespace(forward=SimpleNamespace(overwritten=())))
    own = {".batches.observed": observed, ".batches.lines": NoLines(), ".dataset": dataset}
    lab = GOOD.but({**own, **(changes or {})}).lab
    return verdict_of(dg402_lossy_collate.judge, lab)


def test_batches_of_whole_samples() -> None:
    verdict = judged()
    assert verdict.findings == ()
    assert verdict.outcome.exercised["samples"] == len(OBSERVED.collation.indices)


@pytest.mark.parametrize(("kind", "word"), [("truncated", "is truncated"), ("overflowed", "overflows")])
def test_values_that_do_not_fit(kind: str, word: str) -> None:
    (finding,) = judged(None, None, **{kind: {"[1]": "float32 becomes int64"}}).findings
    assert finding.message.startswith(f"sample[1] {word}: float32 becomes int64")


def test_samples_that_getitems_returns_in_another_order() -> None:
    (finding,) = judged(getitems=GetitemsReads((4, 2), ((2,), (4, 5)))).findings
    assert finding.message == "__getitems__ returns dataset[2] where dataset[4] was requested"
    assert finding.evidence["requested"] == ["4", "2"]
    assert finding.evidence["returned"] == ["2", "4 or 5"]


def test_samples_that_share_a_buffer_are_another_defect() -> None:
    verdict = judged({".dataset": SimpleNamespace(readings=OVERWRITTEN)}, truncated={"[1]": "a cast"})
    assert (verdict.findings, str(verdict.outcome)) == ((), "all samples share one buffer: see DG308")
    assert judged({".dataset": SimpleNamespace(readings=OVERWRITTEN)}).outcome.exercised


@pytest.mark.parametrize(("others", "kind"), [((), Undecided), (("[0]",), NotApplicable)])
def test_no_row_is_a_sample(others: tuple[str, ...], kind: type) -> None:
    forms = {place: replace(form, recognized=()) for place, form in OBSERVED.collation.forms.items()}
    leaves = SimpleNamespace(others=others)
    verdict = judged({".batches.random_leaves": leaves}, forms=forms, equal_samples={})
    assert isinstance(verdict.outcome, kind)


def test_batches_of_one_sample_lose_none() -> None:
    assert str(judged(indices=(3,), shown=("3",)).outcome) == "each batch holds a single sample"


@pytest.mark.parametrize("index", [None, 3])
def test_a_sample_without_an_index_has_no_command(index: int | None) -> None:
    count = len(OBSERVED.collation.indices)
    (finding,) = judged(indices=(index,) * count, truncated={"[1]": "a cast"}).findings
    assert (finding.repro is None) == (index is None)
    assert ("collated samples" in finding.evidence) == (index is not None)
