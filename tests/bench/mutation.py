"""Mutation testing of what decides: `python -m tests.bench.mutation [--sample 2100] [--only PREFIX] [--minutes 20]`.

One process collects the quick tests and notes which functions each of them calls. Each mutant is a fork in which one
change takes effect and the tests of the changed function run until one fails. The mutants are a sample, the same each
time, of every module, and are tried in random order, so that a run of some minutes has a random part of them; the
result is `tests/bench/mutation.json`.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import itertools
import json
import math
import os
import platform
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

from tests.bench.mutants import Mutant, install, mutants_of

ROOT = Path(__file__).parents[2]
FOUND = Path(__file__).with_suffix(".json")
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")
DECIDES = (
    "dataguard/checks",
    "dataguard/stats",
    "dataguard/observer/judge.py",
    "dataguard/lab/images/chart_fit.py",
    "dataguard/lab/reproducibility/runs.py",
    "dataguard/lab/core/records.py",
)
"""Modules of judges, and what decides below them: pure functions of what was observed."""
DRAWN = "*figures.py"
"""Figures show what was observed, and decide nothing."""
TESTS = (
    "tests/checks",
    "tests/stats",
    "tests/lab/images",
    "tests/lab/reproducibility",
    "tests/lab/core",
    "tests/observer",
)
FEWEST = 10
"""Mutants of each module that are tried at least."""
SLOW = 2.0
"""Seconds from which on a test is left out."""
PATIENCE = 20
"""Seconds of a processor's time after which a mutant counts as noticed, as it does not end."""


def modules() -> Iterator[str]:
    """The names of the modules that are mutated."""
    for place in DECIDES:
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            if file.name != "__init__.py" and not file.match(DRAWN):
                yield ".".join(file.relative_to(ROOT).with_suffix("").parts)


def family(module: str) -> str:
    """The room of a module: the family of checks that it judges, or what decides below them."""
    parts = module.split(".")
    return parts[2] if parts[1] == "checks" else f"{parts[1]}.{parts[2]}"


def sample(size: int, only: Sequence[str]) -> list[Mutant]:
    """So many mutants, some of each module; those of the modules with one of these prefixes.

    They are drawn by their digests: changed code leaves the mutants of all other lines in the sample, or out of it.
    """
    chosen: list[Mutant] = []
    rest: list[Mutant] = []
    for module in modules():
        found = sorted(mutants_of(module), key=_digest)
        chosen += found[:FEWEST]
        rest += found[FEWEST:]
    chosen += sorted(rest, key=_digest)[: max(size - len(chosen), 0)]
    asked = [mutant for mutant in chosen if not only or any(part in mutant.module for part in only)]
    return sorted(asked, key=_digest)


def _digest(mutant: Mutant) -> bytes:
    return hashlib.sha256(mutant.key.encode()).digest()


def still_open(keys: Sequence[str]) -> list[Mutant]:
    """The mutants with these keys."""
    return [one for one in itertools.chain.from_iterable(map(mutants_of, modules())) if one.key in keys]


class Runner:
    """A plugin of pytest that runs the tests once for each mutant."""

    def __init__(self, mutants: Sequence[Mutant], jobs: int, minutes: float) -> None:
        self._mutants = mutants
        self._jobs = jobs
        self._end = time.monotonic() + 60 * minutes
        self._called: dict[str, set[str]] = {}
        self._files = {str(ROOT / Path(*module.split(".")).with_suffix(".py")): module for module in modules()}
        self._failed = False
        self.noticed: dict[Mutant, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if not _is_left_out(item)]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = self._timed(session.items)
        running: dict[int, Mutant] = {}
        started = time.monotonic()
        for number, mutant in enumerate(self._mutants):
            while len(running) >= self._jobs:
                self._wait(running)
            if time.monotonic() > self._end:
                break
            running[self._start(mutant, items)] = mutant
            if number % 100 == 99:
                done = f"{number + 1} of {len(self._mutants)} mutants, {time.monotonic() - started:.0f} s"
                print(f"{done}, {sum(one == 'no' for one in self.noticed.values())} not noticed", file=sys.__stderr__)
        while running:
            self._wait(running)
        return True

    def _timed(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """The tests that pass, the quickest first, each with the functions that it calls."""
        seconds: dict[str, float] = {}
        for item in items:
            called: set[str] = set()
            self._called[item.nodeid] = called
            self._failed = False
            started = time.monotonic()
            sys.settrace(lambda frame, event, _, called=called: self._note(frame, event, called))  # type: ignore[misc]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            sys.settrace(None)
            seconds[item.nodeid] = time.monotonic() - started
            if self._failed:
                print(f"fails without any change: {item.nodeid}", file=sys.__stderr__)
                seconds[item.nodeid] = SLOW
        return sorted((one for one in items if seconds[one.nodeid] < SLOW), key=lambda one: seconds[one.nodeid])

    def _note(self, frame: FrameType, event: str, called: set[str]) -> None:
        module = self._files.get(frame.f_code.co_filename) if event == "call" else None
        if module:
            called.add(f"{module}:{frame.f_code.co_name}")
            called.add(module)

    def _start(self, mutant: Mutant, items: Sequence[pytest.Item]) -> int:
        child = os.fork()
        if child:
            return child
        code = 2
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE + 5))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.alarm(10 * PATIENCE)
            code = 1 if self._is_noticed(mutant, items) else 0
        finally:
            os._exit(code)

    def _is_noticed(self, mutant: Mutant, items: Sequence[pytest.Item]) -> bool:
        install(mutant)
        name = mutant.function.rpartition(".")[2]
        wanted = f"{mutant.module}:{name}"
        if not any(wanted in called for called in self._called.values()):  # constants, and fields of classes
            wanted = mutant.module
        for item in items:
            if wanted in self._called[item.nodeid]:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if self._failed:
                    return True
        return False

    def _wait(self, running: dict[int, Mutant]) -> None:
        child, status = os.wait()
        if child in running:
            mutant = running.pop(child)
            outcomes = {0: "no", 1: "yes", 2: "no module"}
            self.noticed[mutant] = outcomes[os.WEXITSTATUS(status)] if os.WIFEXITED(status) else "no end"


def _is_left_out(item: pytest.Item) -> bool:
    """Scans, and tests that draw their examples."""
    drawn = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    return drawn or item.get_closest_marker("scan") is not None


def explained() -> dict[str, str]:
    """The mutants that change nothing that matters, each with the reason."""
    reasons: dict[str, str] = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return reasons


def main() -> int:
    """Try the mutants, and write down what was noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=2100)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--tests", nargs="+", default=[place for place in TESTS if (ROOT / place).exists()])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no other mutant after so many minutes")
    parser.add_argument("--open", action="store_true", help="try only those that nothing noticed, after adding tests")
    parser.add_argument("--count", action="store_true", help="only count the mutants there are")
    asked = parser.parse_args()
    before = json.loads(FOUND.read_text(encoding="utf-8")) if asked.open else None
    mutants = still_open(before["open"]) if before else sample(asked.sample, asked.only)
    print(f"{len(mutants)} mutants", file=sys.stderr)  # noqa: T201
    if asked.count:
        return 0
    torch.set_num_threads(1)
    runner = Runner(mutants, asked.jobs, asked.minutes)
    pytest.main(
        [
            "-qq",
            "--no-header",
            "--no-summary",
            "--capture=no",
            "--assert=plain",
            "-W",
            "ignore",
            "-p",
            "no:xdist",
            "-p",
            "no:cacheprovider",
            *asked.tests,
        ],
        plugins=[runner],
    )
    _report(runner.noticed, before, whole=not asked.only)
    return 0


def _report(noticed: dict[Mutant, str], before: dict[str, Any] | None, *, whole: bool) -> None:
    known = explained()
    survivors = [one for one, outcome in noticed.items() if outcome == "no"]
    rows: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, row in before["families"].items() if before else ():
        rows[name] = Counter({**row, "open": 0})
    for one, outcome in noticed.items():
        rows[family(one.module)]["mutants"] += before is None
        rows[family(one.module)]["noticed" if outcome != "no" else "explained" if one.key in known else "open"] += 1
    for one in sorted(survivors, key=lambda one: (one.module, one.line)):
        if one.key not in known:
            print(one)  # noqa: T201 - the product
    for one, outcome in noticed.items():
        if outcome != "no" and one.key in known:
            print(f"needs no explanation: {one}")  # noqa: T201
    found: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "all": sum(len(mutants_of(module)) for module in modules()),
        "families": {name: dict(row) for name, row in sorted(rows.items())},
        "open": [one.key for one in survivors if one.key not in known],
    }
    total = sum(row["mutants"] for row in rows.values())
    print(f"{sum(row['noticed'] for row in rows.values())} of {total} noticed", Counter(noticed.values()))  # noqa: T201
    if whole:
        FOUND.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
