"""The shape of the repository: who imports whom, how long a file may be, and one stem for everything about a check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dataguard.checks import CATALOGUE

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dataguard"
CHECKS = PACKAGE / "checks"
TOOLS = Path(sys.executable).parent

CHECK_LINES = 100
"""A check fits one screen, its documentation included."""
MODULE_LINES = 300
"""Any other module fits two screens and a half; a longer one holds two subjects."""


@pytest.mark.parametrize(
    "command",
    [("ruff", "check"), ("mypy",), ("lint-imports", "--no-logo", "--no-cache")],
    ids=["ruff", "mypy", "import-linter"],
)
def test_static_analysis_is_clean(command: tuple[str, ...]) -> None:
    tool, *options = command
    outcome = subprocess.run([TOOLS / tool, *options], cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}
    checks = set(CHECKS.rglob("dg*.py"))
    allowed = {path: CHECK_LINES if path in checks else MODULE_LINES for path in lengths}
    too_long = {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > allowed[path]}
    assert too_long == {}


@pytest.mark.parametrize(
    ("folder", "suffix"),
    [("dataguard/checks", ".py"), ("sample_datasets", ".py"), ("docs/checks", ".md")],
    ids=["module", "sample", "page"],
)
def test_every_check_owns_one_file_of_its_stem(folder: str, suffix: str) -> None:
    assert {path.stem for path in (ROOT / folder).rglob(f"dg*{suffix}")} == {check.stem for check in CATALOGUE}


def test_the_catalogue_is_ordered_and_free_of_twins() -> None:
    codes = [check.code for check in CATALOGUE]
    assert codes == sorted(set(codes))
    assert len({check.name for check in CATALOGUE}) == len(CATALOGUE)
