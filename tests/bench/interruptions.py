"""Kill scans at random moments, and look for what they leave: `python -m tests.bench.interruptions --count 100`.

Each scan runs on its own, with its own temporary folder. SIGKILL hits the reporting process; SIGINT its process group,
as Ctrl-C does, and SIGTERM and SIGHUP; with `--inner 20`, SIGKILL also hits the reaper and the observing process.
`--sharing file_system` scans a loader whose tensors are shared by name.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.support.namespace import SharedMemory, own_or_common_shared_memory

ROOT = Path(__file__).parents[2]
TARGETS = ("sample_datasets.dg101_cloned_worker_rng:bad", "sample_datasets.dg101_cloned_worker_rng:good")
BY_NAME = ("tests.loaders.named_memory:make", "second=tests.loaders.named_memory:make")
MARK = "DATAGUARD_TEST_MARK"
WITHIN = 30.0
"""Seconds within which everything is gone; a process that is just importing torch first ends that."""
FAMILY = ("reporting process", "reaper", "observing process")
"""Each is a child of the one before."""
KILLED = (
    ("reporting process", signal.SIGKILL),
    ("process group", signal.SIGINT),
    ("process group", signal.SIGTERM),
    ("process group", signal.SIGHUP),
    ("reaper", signal.SIGKILL),
    ("observing process", signal.SIGKILL),
)


@dataclass
class Killed:
    """A scan that was killed after so many seconds, and what was wrong afterwards."""

    whom: str
    after: float
    wrong: list[str] = field(default_factory=list)


@dataclass
class Scans:
    """Scans in a folder, of targets that share a process which imports torch if there are several."""

    folder: Path
    shared: SharedMemory
    targets: tuple[str, ...] = TARGETS
    options: tuple[str, ...] = ("--select", "DG101,DG301")

    def usual(self) -> float:
        """Seconds that a scan takes: the median of three."""
        taken = []
        for _ in range(3):
            started = time.monotonic()
            self._start(uuid.uuid4().hex).communicate(timeout=300)
            taken.append(time.monotonic() - started)
        return statistics.median(taken)

    def killed(self, whom: str, after: float, number: signal.Signals = signal.SIGKILL) -> Killed:
        """Kill a scan, and see what is left once all of it should be gone."""
        mark = uuid.uuid4().hex
        before = self.shared.names()
        process = self._start(mark)
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(after)
            done = process.poll() is not None
            hit = not done and self._kill(process, whom, number)
            _, err = process.communicate(timeout=120)
        finally:
            process.kill()
        wrong = [*self._leftovers(mark, before), *self._outcome(process.returncode, err, whom if hit else "", number)]
        for pid in _alive(mark):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._temporary, ignore_errors=True)
        return Killed(whom, after, wrong)

    @property
    def _temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def _report(self) -> Path:
        return self.folder / "reports" / "report.json"

    def _start(self, mark: str) -> subprocess.Popen[str]:
        for folder in (self._temporary, self._report.parent):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        scan = ("scan", *self.targets, *self.options, "--output", str(self._report))
        return subprocess.Popen(
            self.shared.command(ROOT, sys.executable, "-m", "dataguard", *scan),
            env={**os.environ, "TMPDIR": str(self._temporary), MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _kill(self, process: subprocess.Popen[str], whom: str, number: signal.Signals) -> bool:
        """Send the signal; False if there is no such process at this moment."""
        if whom == "process group":
            os.killpg(process.pid, number)
            return True
        family = [process.pid]
        with contextlib.suppress(psutil.Error, IndexError):
            for _ in range(FAMILY.index(whom)):
                family.append(psutil.Process(family[-1]).children()[0].pid)
            os.kill(family[-1], number)
            return True
        return False

    def _leftovers(self, mark: str, before: set[str]) -> Iterator[str]:
        """Processes, names in /dev/shm and files that are still there after a while."""
        deadline = time.monotonic() + WITHIN
        while _alive(mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        yield from (f"still runs: {words}" for words in _alive(mark).values())
        yield from (f"/dev/shm/{name}" for name in self.shared.names() - before if self.shared.enter)
        yield from (f"$TMPDIR/{path.name}" for path in self._temporary.iterdir())
        yield from (f"beside the report: {path.name}" for path in self._report.parent.iterdir() if path != self._report)

    def _outcome(self, code: int, err: str, hit: str, number: signal.Signals) -> Iterator[str]:
        """What is wrong with the exit code, the messages and the report."""
        if hit == "process group" and code == -number and str(ROOT / "dataguard") not in err:
            return  # Python itself was starting
        if "Traceback" in err:
            yield f"a traceback: {err.strip().splitlines()[-1]}"
        if hit == "process group":
            expected: tuple[int, ...] = (130,) if number == signal.SIGINT else (-number,)
        elif hit == "reporting process":
            expected = (-signal.SIGKILL,)
        else:  # the scan goes on, and may end without a verdict on what the killed process was asked for
            expected = (0, 1, 2)
        if code not in expected:
            yield f"exit code {code}: {err.strip()[-200:]}"
        if self._report.exists():
            with contextlib.suppress(ValueError):
                json.loads(self._report.read_text())
                return
            yield "half a report"
        elif re.search(r"\d+ of \d+ checks ran", err):
            yield "no report of the checks that ran"


def _alive(mark: str) -> dict[int, str]:
    """The processes that inherited a mark."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = " ".join(process.cmdline())
    return found


@contextlib.contextmanager
def fresh(targets: tuple[str, ...]) -> Iterator[Scans]:
    """Scans in a folder and with a /dev/shm of their own."""
    with tempfile.TemporaryDirectory() as name, own_or_common_shared_memory() as shared:
        yield Scans(Path(name), shared, targets)


def main(count: int, inner: int, seed: int, sharing: str) -> None:
    """Print a row for each process that is killed, and on stderr each scan that left something."""
    chance = random.Random(seed)
    sys.stdout.write("| signal | to | scans | nothing left, the right exit code |\n|---|---|---|---|\n")
    both = BY_NAME if sharing == "file_system" else TARGETS
    for whom, number in KILLED:
        outer = whom in ("reporting process", "process group")
        targets, scans = (both, count) if outer else (both[:1], inner)
        with fresh(targets) as first:
            usual = first.usual()
        clean = 0
        for _ in range(scans):
            with fresh(targets) as one:
                killed = one.killed(whom, chance.uniform(0, usual), number)
            clean += not killed.wrong
            for words in killed.wrong:
                sys.stderr.write(f"{number.name} to {whom}, after {killed.after:.3f} s of {usual:.1f} s: {words}\n")
        sys.stdout.write(f"| {number.name} | {whom} | {scans} | {clean} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--inner", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sharing", choices=("file_descriptor", "file_system"), default="file_descriptor")
    main(**vars(parser.parse_args()))
