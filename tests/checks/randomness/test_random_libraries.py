"""Random numbers of public libraries: whether workers and epochs draw alike is measured, and the scan must agree.

Nothing is assumed about any version. A library that only the extra `nightly` brings may be missing.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings
from tests.support.faces import EVERY_FACE, todays

pytestmark = pytest.mark.scan

LIBRARIES = ["datasets", "torchvision", *(["albumentations"] if EVERY_FACE else [])]
NIGHTLY = todays(["audiomentations", "kornia", "torchio", *(["monai"] if EVERY_FACE else [])])
Table = dict[str, dict[str, bool]]
"""For each loader, whether each of DG101 and DG102 is to be found."""

CERTAIN = {
    "scipy global": {"DG101": False, "DG102": False},
    "scipy own generator": {"DG101": True, "DG102": True},
    "scipy own state kept": {"DG101": True, "DG102": False},
}
"""What is so in any version: a measurement that sees nothing would not go unnoticed."""


def measured(libraries: str) -> Table:
    """What torch's own loader shows, in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.measurement", *libraries.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
    table: Table = json.loads(done.stdout.splitlines()[-1])
    return table


def judged(libraries: str, monkeypatch: pytest.MonkeyPatch) -> Table:
    """What the scan says; it has to decide."""
    monkeypatch.setenv("LIBRARIES", libraries)
    report = scan("tests.loaders.random_libraries:LOADERS", Settings(select=("DG101", "DG102")))
    table: Table = {}
    for result in report.results:
        assert result.status in (Status.PASSED, Status.FAILED), result
        table.setdefault(result.loader, {})[result.code] = result.status is Status.FAILED
    return table


@pytest.mark.parametrize(
    ("libraries", "known"),
    todays(
        [("scipy", CERTAIN), ("datasets", {}), ("torchvision", {}), *([("albumentations", {})] if EVERY_FACE else [])]
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_verdict_is_what_is_measured(libraries: str, known: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = measured(libraries)
    assert known.items() <= truth.items()
    assert judged(libraries, monkeypatch) == truth


@pytest.mark.parametrize("library", NIGHTLY)
def test_a_library_that_may_be_missing(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec(library) is None:  # importing it would run its code, and its warnings, in here
        pytest.skip(f"{library} is not installed: pip install -e '.[nightly]'")
    assert judged(library, monkeypatch) == measured(library)
