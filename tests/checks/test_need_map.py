"""Checks that read samples by their index do not judge streams."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks import CATALOGUE
from dataguard.checks.common.check import check
from dataguard.core.model import Check, Coverage, Finding, Judgement, NotApplicable, Severity
from dataguard.lab.subject import Subject
from tests.support.recordings import Recording, recordings, verdict_of

BY_INDEX = ("DG211", "DG513", "DG518", "DG520", "DG521", "DG523")
"""Checks that compare indices, which samples of a stream have none of."""


STREAM = SimpleNamespace(kind="stream")


class OfStream:
    """A recorded lab whose dataset is a stream."""

    need_map = Subject.need_map

    def __init__(self, recording: Recording) -> None:
        self._lab = recording.lab
        self.facts: Any = replace(self._lab.facts, kind="stream") if ".facts" in recording.reads else STREAM

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lab, name)


@pytest.mark.parametrize("judged", [one for one in CATALOGUE if one.code in BY_INDEX], ids=lambda one: one.code)
def test_a_stream_is_not_judged(judged: Check) -> None:
    recording = next(one for one in recordings(judged.stem).values() if verdict_of(judged.judge, one.lab).findings)
    verdict = verdict_of(judged.judge, OfStream(recording))
    assert (type(verdict.outcome), verdict.findings) == (NotApplicable, ())


def test_the_decorator_makes_a_check_of_a_judge() -> None:
    @check("DG999", "planted-defect", Severity.WARNING, since="2026.3")
    def dg999_planted_defect(lab: object) -> Judgement:
        """A defect is planted.

        Symptom: none.
        Cause: this test.
        Fix: nothing.
        """
        yield Finding(f"the lab is {lab}")
        return Coverage({})

    made = dg999_planted_defect
    assert (made.code, made.name, made.severity, made.since) == ("DG999", "planted-defect", Severity.WARNING, "2026.3")
    assert made.doc.summary == "A defect is planted."
    assert [one.message for one in verdict_of(made.judge, 7).findings] == ["the lab is 7"]
