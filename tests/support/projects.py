"""A folder of loaders that do everything they should not, and scans of it that may leave nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.namespace import SharedMemory

pytestmark = pytest.mark.scan


LOADERS = Path(__file__).parents[1] / "loaders" / "nasty.py"
MARK = "DATAGUARD_TEST_MARK"
TIMEOUT = 2


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """By loader, then by code. What is on stdout must be one JSON object and nothing else."""
        by_loader: dict[str, dict[str, Any]] = {}
        for result in json.loads(self.out)["results"]:
            by_loader.setdefault(result["loader"], {})[result["code"]] = result
        return by_loader


@dataclass
class Project:
    """A folder with the nasty loaders, and a mark by which every process that a scan starts there is known."""

    folder: Path
    shared: SharedMemory
    mark: str

    def start(self, targets: str, *options: str, **environment: str) -> subprocess.Popen[str]:
        self.temporary.mkdir(exist_ok=True)
        self.before = self.shared.names()
        spellings = [f"nasty:{target}" for target in targets.split()]
        scan = ("scan", *spellings, "--format", "json", "--timeout", str(TIMEOUT), *options)
        return subprocess.Popen(
            self.shared.command(self.folder, sys.executable, "-m", "dataguard", *scan),
            env={**os.environ, "TMPDIR": str(self.temporary), MARK: self.mark, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def scan(self, targets: str, *options: str, **environment: str) -> Outcome:
        """Scan these targets together, and see that nothing of it stays."""
        process = self.start(targets, *options, **environment)
        out, err = process.communicate(timeout=150)
        assert self.leftovers() == ([], set(), [])
        return Outcome(process.returncode, out, err)

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def leftovers(self) -> tuple[list[str], set[str], list[Path]]:
        """Processes, names in /dev/shm and temporary files that are there and should not be."""
        return self.alive(), self._new_names(), [*self.temporary.iterdir()]

    def alive(self) -> list[str]:
        """Every process that inherited the mark."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join([str(process.pid), *process.cmdline()]))
        return found

    def _new_names(self) -> set[str]:
        deadline = time.monotonic() + 5
        while (new := self.shared.names() - self.before) and not self.shared.enter and time.monotonic() < deadline:
            time.sleep(0.2)  # what other tests are using comes and goes
        return new


def failed(results: dict[str, Any]) -> dict[str, Any]:
    """The one finding of each check that failed."""
    return {code: result["findings"][0] for code, result in results.items() if result["status"] == "failed"}


def statuses(results: dict[str, Any]) -> set[str]:
    return {result["status"] for result in results.values()}
