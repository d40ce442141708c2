"""The verdict on a recorded loader that differs in one thing."""

from __future__ import annotations

from typing import Any

from dataguard.checks import CATALOGUE
from dataguard.core.model import Coverage
from tests.support.recordings import Verdict, recordings, verdict_of


def judged(check: str, face: str, changes: dict[str, Any]) -> Verdict:
    (one,) = (one for one in CATALOGUE if one.code == check)
    return verdict_of(one.judge, recordings(one.stem)[face].having(changes).lab)


def said(verdict: Verdict) -> list[str]:
    """The messages of findings, and the reason or the note."""
    outcome = verdict.outcome
    last = outcome.note if isinstance(outcome, Coverage) else str(outcome)
    return [*(finding.message for finding in verdict.findings), *([last] if last else [])]
