"""Each judge gives the recorded verdict on what was recorded of its samples: no scan, and so in no time.

`python -m tests.support.record` records again what a judge reads, after its observations changed.
"""

from __future__ import annotations

import pytest

from dataguard.checks import CATALOGUE
from dataguard.core.model import Check
from tests.support import recording_text
from tests.support.recordings import FOLDER, Recording, recordings, shown, verdict_of

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


def test_a_recording_is_the_text_that_would_be_written_of_it() -> None:
    """Else the next recording would change lines of it for no reason."""
    for path in FOLDER.glob("dg*.json"):
        text = path.read_text(encoding="utf-8")
        assert recording_text.written(recording_text.read(text)) == text, path.name


def test_recordings_share_what_occurs_twice_and_name_classes_once() -> None:
    record = {"$": "dataguard.core.model:Finding", "message": "a" * 100, "evidence": {"$": "bytes", "hex": "00ff"}}
    other = {"$": "dataguard.other:Finding", "message": "no class of that name yet"}
    faces = {"bad": {"reads": {".b": [record, record, other], ".a": 1}, "verdict": [record]}}
    text = recording_text.written(faces)
    assert recording_text.read(text) == faces
    assert list(recording_text.read(text)["bad"]["reads"]) == [".a", ".b"]
    assert (text.count("a" * 100), text.count("dataguard.core.model"), text.count("dataguard.other")) == (1, 1, 1)
