"""Each judge gives the recorded verdict on what was recorded of its samples: no scan, and so in no time.

`python -m tests.support.record` records again what a judge reads, after its observations changed.
"""

from __future__ import annotations

import pytest

from dataguard.checks import CATALOGUE
from dataguard.model import Check
from tests.support.recordings import Recording, recordings, shown, verdict_of

RECORDED = [
    pytest.param(check, one, id=f"{check.code}-{face}")
    for check in CATALOGUE
    for face, one in recordings(check.stem).items()
]


@pytest.mark.parametrize(("check", "recording"), RECORDED)
def test_the_verdict_is_the_recorded_one(check: Check, recording: Recording) -> None:
    assert shown(verdict_of(check.judge, recording.lab)) == recording.verdict


@pytest.mark.parametrize("check", CATALOGUE, ids=lambda check: check.code)
def test_the_recorded_verdicts_are_what_the_names_of_the_faces_say(check: Check) -> None:
    found: dict[str, bool] = {}
    for name, one in recordings(check.stem).items():
        face = name.split(".")[0]
        found[face] = found.get(face, False) or bool(one.verdict[0])
    assert found == {face: face.startswith("bad") for face in found}
