"""The documentation of checks where Python strips docstrings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dataguard.checks import CATALOGUE

PROGRAM = "from dataguard.checks import CATALOGUE; print([check.doc for check in CATALOGUE])"


def test_it_is_read_where_python_strips_docstrings(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONOPTIMIZE": "2", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    outcome = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert outcome.stderr == ""
    assert outcome.stdout == f"{[check.doc for check in CATALOGUE]}\n"
