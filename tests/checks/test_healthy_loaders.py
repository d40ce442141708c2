"""Loaders that look suspicious and are healthy pass in silence.

`DATAGUARD_EVERY_FACE=1` judges each by all checks. A daily run judges a tenth of them, each by a third of the checks,
which is always the same one of a loader: together these are as much as two or three seconds of a loader allow.
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings
from tests.support.faces import EVERY_FACE, runs

FOLDER = Path(__file__).parents[1] / "loaders" / "healthy"
THIRDS = (("DG1", "DG2"), ("DG3", "DG4"), ("DG5",))
MOST = 8
"""How many one scan judges."""


def healthy() -> Iterator[str]:
    """The functions that return loaders."""
    for path in sorted(FOLDER.glob("[a-z]*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.returns and "DataLoader" in ast.unparse(node.returns):
                yield f"tests.loaders.healthy.{path.stem}:{node.name}"


def third(face: str) -> tuple[str, ...]:
    """The checks that judge a loader in daily runs."""
    return THIRDS[zlib.crc32(face[::-1].encode()) % len(THIRDS)]


FACES = list(healthy())
TODAY = [
    (faces[start : start + MOST], select)
    for select in ([()] if EVERY_FACE else THIRDS)
    for faces in [[face for face in FACES if runs(face) and (EVERY_FACE or third(face) == select)]]
    for start in range(0, len(faces), MOST)
]


def test_each_third_and_module_has_loaders() -> None:
    assert {third(face) for face in FACES} == set(THIRDS)
    assert len(FACES) > 70


@pytest.mark.scan
@pytest.mark.parametrize(("faces", "select"), TODAY)
def test_a_healthy_loader_passes(faces: list[str], select: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACES", " ".join(faces))
    report = scan("tests.loaders.faces:named", Settings(select=select))
    assert len({result.loader.split(".")[1] for result in report.results}) == len(faces)
    assert [
        (result.loader, result.code, [finding.message for finding in result.findings])
        for result in report.results
        if result.status in (Status.FAILED, Status.BROKEN)
    ] == []
