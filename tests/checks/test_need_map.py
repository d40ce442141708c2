"""Checks that read samples by their index do not judge streams."""

from __future__ import annotations

import pytest

from dataguard.checks import CATALOGUE
from dataguard.checks.common.check import check
from dataguard.model import Check, Finding, Judgement, Looked, NotApplicable, Severity
from tests.support.recordings import Recording, recordings, verdict_of

BY_INDEX = [
    pytest.param(one, recording, path, id=one.code)
    for one in CATALOGUE
    for recording in [*recordings(one.stem).values()][:1]
    for path in recording.reads
    if path.startswith(".need_map(")
]


@pytest.mark.parametrize(("judged", "recording", "path"), BY_INDEX)
def test_a_stream_is_not_judged(judged: Check, recording: Recording, path: str) -> None:
    stream = NotApplicable("it is a stream")
    assert verdict_of(judged.judge, recording.but({path: stream}).lab).outcome is stream


def test_the_decorator_makes_a_check_of_a_judge() -> None:
    @check("DG999", "planted-defect", Severity.WARNING, since="2026.3")
    def dg999_planted_defect(lab: object) -> Judgement:
        """A defect is planted.

        Symptom: none.
        Cause: this test.
        Fix: nothing.
        """
        yield Finding(f"the lab is {lab}")
        return Looked({})

    made = dg999_planted_defect
    assert (made.code, made.name, made.severity, made.since) == ("DG999", "planted-defect", Severity.WARNING, "2026.3")
    assert made.doc.summary == "A defect is planted."
    assert [one.message for one in verdict_of(made.judge, 7).findings] == ["the lab is 7"]
