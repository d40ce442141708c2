"""Tests against another version of a library than the one that is installed: `python -m tests.support.nightly`.

Each version goes into a virtual environment on top of the running one, which needs pip and a package index and stays as
it is. There, the tests that measure the library's random numbers run, and what was measured is printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

VERSIONS = {"albumentations": "1.4.20"}
"""Workers draw apart from each other in this one, and alike in the one that the tests have."""
ROOT = Path(__file__).parents[2]


def environment(folder: Path, requirement: str) -> str:
    """Make an environment on top of the running one, with the requirement in it; returns its interpreter."""
    venv.create(folder, with_pip=False)
    python = str(folder / "bin" / "python")
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    below = sysconfig.get_path("purelib")
    # Later on the path than the environment's own packages; addsitedir reads the .pth files there as well.
    (packages / "below.pth").write_text(f"import site; site.addsitedir({below!r})\n")
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", requirement], check=True)
    return python


def run(python: str, *arguments: str) -> int:
    """Run a module of Python in an environment."""
    settings = {**os.environ, "NO_ALBUMENTATIONS_UPDATE": "1", "DATAGUARD_EVERY_FACE": "1"}
    return subprocess.run([python, "-W", "ignore", "-m", *arguments], cwd=ROOT, env=settings).returncode


def main() -> int:
    """Measure in both environments, and test in the new one; the exit code tells whether that passed."""
    failed = 0
    for library, version in VERSIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            python = environment(Path(folder), f"{library}=={version}")
            for interpreter in (sys.executable, python):
                run(interpreter, "tests.support.measurement", library)
            failed |= run(python, "pytest", "tests/checks/randomness/test_random_libraries.py", "-k", library)
    return failed


if __name__ == "__main__":
    sys.exit(main())
