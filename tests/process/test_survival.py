"""Real scans of loaders that do everything they should not: the report is right, and nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil
import pytest

import dataguard
from dataguard.process import launcher
from dataguard.settings.settings import Settings
from tests.support.namespace import SharedMemory, own_or_common_shared_memory

pytestmark = pytest.mark.scan

LOADERS = Path(__file__).parents[1] / "loaders" / "nasty.py"
MARK = "DATAGUARD_TEST_MARK"
TIMEOUT = 2
GONE_WITHIN = 8.0
"""Seconds within which everything is gone after the reporting process was killed."""


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


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("nasty")
    shutil.copy(LOADERS, folder)
    with own_or_common_shared_memory() as shared:
        yield Project(folder, shared, uuid.uuid4().hex)


@pytest.fixture(scope="module")
def deaths(project: Project) -> Outcome:
    return project.scan("deaths")


@pytest.fixture(scope="module")
def raisings(project: Project) -> Outcome:
    return project.scan("raisings", "--select", "DG0,DG301,DG501")


@pytest.fixture(scope="module")
def hangs(project: Project) -> Outcome:
    return project.scan("hangs", "--select", "DG0,DG301")


@pytest.fixture(scope="module")
def oddities(project: Project) -> Outcome:
    return project.scan("oddities", "--select", "DG0,DG301,DG501")


def failed(results: dict[str, Any]) -> dict[str, Any]:
    """The one finding of each check that failed."""
    return {code: result["findings"][0] for code, result in results.items() if result["status"] == "failed"}


def statuses(results: dict[str, Any]) -> set[str]:
    return {result["status"] for result in results.values()}


class TestDeaths:
    """Processes that end by a signal or by an exit call, wherever it happens."""

    def test_the_exit_code_tells_of_findings(self, deaths: Outcome) -> None:
        assert (deaths.code, deaths.err) == (1, "")

    def test_a_healthy_loader_beside_them_is_judged_as_ever(self, deaths: Outcome) -> None:
        assert statuses(deaths.results["healthy"]) == {"passed", "skipped"}
        assert deaths.results["healthy"]["DG002"]["exercised"]["samples"] == 16

    @pytest.mark.parametrize(
        ("loader", "how", "where"),
        [
            ("segfault_main", "the main process was killed by SIGSEGV", "reading a sample (index 5"),
            ("segfault_worker", "worker 1 was killed by SIGSEGV", "reading a sample (index 5"),
            ("segfault_collate", "was killed by SIGSEGV", "collating a batch"),
            ("segfault_init", "was killed by SIGSEGV", "starting a worker"),
            ("segfault_sampler", "the main process was killed by SIGSEGV", "iterating the loader"),
            ("segfault_stream", "was killed by SIGSEGV", "reading a sample"),
            ("leave_main", "the main process exited with status 7", "reading a sample (index 5"),
            ("leave_worker", "worker 1 exited with status 7", "reading a sample (index 5"),
            ("leave_collate", "exited with status 7", "collating a batch"),
            ("leave_init", "exited with status 7", "starting a worker"),
            ("leave_sampler", "the main process exited with status 7", "iterating the loader"),
            ("leave_stream", "exited with status 7", "reading a sample"),
            ("leave_pleased_main", "the main process exited with status 0", "reading a sample (index 5"),
            ("kill_main", "the main process was killed by SIGKILL", "reading a sample (index 5"),
            ("kill_worker", "worker 1 was killed by SIGKILL", "reading a sample (index 5"),
            ("bus_error_main", "the main process was killed by SIGBUS", "reading a sample (index 5"),
            ("bus_error_worker", "worker 1 was killed by SIGBUS", "reading a sample (index 5"),
            ("abort_main", "the main process was killed by SIGABRT", "reading a sample (index 5"),
            ("abort_worker", "worker 1 was killed by SIGABRT", "reading a sample (index 5"),
        ],
    )
    def test_dg002_says_how_and_where(self, deaths: Outcome, loader: str, how: str, where: str) -> None:
        results = deaths.results[loader]
        found = failed(results)
        assert list(found) == ["DG002"]
        assert how in found["DG002"]["message"]
        assert where in found["DG002"]["message"]
        assert statuses(results) == {"failed", "skipped"}
        assert results["DG001"]["reason"].startswith("see DG002: ")

    @pytest.mark.parametrize("place", ["main", "worker", "collate", "init", "sampler", "stream"])
    def test_a_crash_names_the_line_it_happened_on(self, deaths: Outcome, place: str) -> None:
        finding = failed(deaths.results[f"segfault_{place}"])["DG002"]
        assert finding["at"]["file"].endswith("nasty.py")
        assert finding["at"]["what"] == "segfault"
        assert "in segfault" in finding["evidence"]["stacks"]


class TestExceptions:
    """Exceptions that are easily mistaken for something else."""

    @pytest.mark.parametrize(
        ("loader", "words"),
        [
            ("interrupt_main", "raised KeyboardInterrupt"),
            ("interrupt_worker", "raised KeyboardInterrupt"),
            ("interrupt_sampler", "raised KeyboardInterrupt"),
            ("recurse_main", "raised RecursionError"),
            ("recurse_worker", "raised RecursionError"),
            ("use_up_memory_main", "raised MemoryError: unable to allocate 8.00 TiB"),
            ("use_up_memory_worker", "raised MemoryError: unable to allocate 8.00 TiB"),
            ("raise_unspeakable_main", "raised Unspeakable"),
            ("raise_unspeakable_worker", "raised Unspeakable"),
            ("raise_unspeakable_collate", "raised Unspeakable"),
        ],
    )
    def test_they_are_what_dg001_says(self, raisings: Outcome, loader: str, words: str) -> None:
        found = failed(raisings.results[loader])
        assert list(found) == ["DG001"]
        assert words in found["DG001"]["message"]
        assert found["DG001"]["at"]["file"].endswith("nasty.py")

    @pytest.mark.parametrize(
        ("place", "words"),
        [("main", "SystemExit: 3"), ("collate", "exited with status 3"), ("init", "exited with status 3")],
    )
    def test_a_process_that_leaves_in_order_is_dead_all_the_same(
        self, raisings: Outcome, place: str, words: str
    ) -> None:
        found = failed(raisings.results[f"say_goodbye_{place}"])
        assert list(found) == ["DG002"]
        assert words in found["DG002"]["message"]

    def test_none_is_a_bug_of_ours(self, raisings: Outcome) -> None:
        assert raisings.code == 1
        assert "broken" not in set().union(*map(statuses, raisings.results.values()))
        assert statuses(raisings.results["healthy"]) == {"passed"}


class TestHangs:
    """Loaders that wait forever, or burn the CPU forever."""

    @pytest.mark.parametrize(
        ("loader", "where", "function"),
        [
            ("sleep_main", "reading a sample (index 5", "sleep"),
            ("sleep_worker", "reading a sample (index 5, worker 1)", "sleep"),
            ("sleep_collate", "collating a batch (worker", "sleep"),
            ("sleep_init", "starting a worker (worker", "sleep"),
            ("sleep_sampler", "iterating the loader", "sleep"),
            ("sleep_stream", "reading a sample (worker", "sleep"),
            ("wait_for_lock_worker", "reading a sample (index 5, worker 1)", "wait_for_lock"),
        ],
    )
    def test_dg003_shows_who_waits_and_on_which_line(
        self, hangs: Outcome, loader: str, where: str, function: str
    ) -> None:
        found = failed(hangs.results[loader])
        assert list(found) == ["DG003"]
        assert f"no progress for {TIMEOUT} s while" in found["DG003"]["message"]
        assert where in found["DG003"]["message"]
        assert found["DG003"]["at"]["what"] == function
        first = found["DG003"]["evidence"]["stacks"].split("\n\n")[0]
        assert f'nasty.py", line {found["DG003"]["at"]["line"]} in {function}' in first

    def test_an_unpicklable_batch_is_told_and_does_not_stop_the_rest(self, hangs: Outcome) -> None:
        found = failed(hangs.results["unpicklable"])
        assert "cannot be sent to the main process" in found["DG003"]["message"]
        assert hangs.results["unpicklable"]["DG301"]["status"] == "passed"

    def test_the_healthy_loader_after_them_is_judged(self, hangs: Outcome) -> None:
        assert hangs.code == 1
        assert statuses(hangs.results["healthy"]) == {"passed"}

    def test_a_busy_loop_a_finalizer_and_a_factory_hang_as_well(self, project: Project) -> None:
        outcome = project.scan("spins last_hang sleeping_factory", "--select", "DG003")
        where = {loader: failed(results)["DG003"]["at"]["what"] for loader, results in outcome.results.items()}
        assert where == {"spins.spin_worker": "spin", "last_hang": "sleep", "sleeping_factory": "sleep"}
        assert outcome.code == 1


class TestOddities:
    """Loaders that fork, print, leave, close and change what is not theirs, and give their samples all the same."""

    def test_they_pass(self, oddities: Outcome) -> None:
        assert {loader: failed(results) for loader, results in oddities.results.items() if failed(results)} == {}
        assert len(oddities.results) == 19
        assert set().union(*map(statuses, oddities.results.values())) <= {"passed", "skipped"}
        assert (oddities.code, oddities.err) == (0, "")

    def test_so_do_factories(self, project: Project) -> None:
        targets = "daemon_factory thread_factory closing_factory changing_factory shared_factory"
        outcome = project.scan(targets, "--select", "DG001,DG301")
        assert list(outcome.results) == targets.split()
        assert [statuses(results) for results in outcome.results.values()] == [{"passed"}] * 5

    def test_factories_that_fail_and_lengths_that_lie_are_findings(self, project: Project) -> None:
        outcome = project.scan(" ".join(WRONG), "--select", "DG0,DG301")
        found = {loader: failed(results) for loader, results in outcome.results.items()}
        assert {loader: list(findings) for loader, findings in found.items()} == {
            loader: [code] for loader, (code, _) in WRONG.items()
        }
        for loader, (code, words) in WRONG.items():
            assert words in found[loader][code]["message"], loader
        assert outcome.code == 1


WRONG = {
    "segfault_factory": ("DG002", "was killed by SIGSEGV while calling the factory"),
    "leaving_factory": ("DG002", "exited with status 0 while calling the factory"),
    "goodbye_factory": ("DG002", "SystemExit: 3 while calling the factory"),
    "interrupted_factory": ("DG001", "calling the factory raised KeyboardInterrupt"),
    "negative": ("DG001", "__len__() should return >= 0"),
    "huge_shuffled": ("DG001", "can't allocate memory"),
    "fractional": ("DG001", "'float' object cannot be interpreted as an integer"),
    "silent": ("DG001", "no length today"),
    "leaving": ("DG001", "raised SystemExit: 3"),
}
"""Factories that fail and loaders that lie about their length, with what is found."""


class TestImports:
    """What importing the user's module does to the process that observes."""

    @pytest.mark.parametrize(
        ("wish", "words"),
        [
            ("segfault", "was killed by SIGSEGV during its import"),
            ("kill", "was killed by SIGKILL during its import"),
            ("leave", "exited with status 7 during its import"),
            ("goodbye", "raised SystemExit: 3"),
            ("interrupt", "KeyboardInterrupt"),
        ],
    )
    def test_a_module_that_ends_its_process_is_no_target(self, project: Project, wish: str, words: str) -> None:
        outcome = project.scan("healthy", NASTY_IMPORT=wish)
        assert (outcome.code, outcome.out) == (2, "")
        assert words in outcome.err
        assert "Traceback" not in outcome.err

    def test_a_module_that_never_ends_importing_shows_where(self, project: Project) -> None:
        outcome = project.scan("healthy", "--timeout", "0.5", NASTY_IMPORT="sleep")
        assert outcome.code == 2
        assert "importing its module takes too long" in outcome.err
        assert "nasty.py" in outcome.err
        assert "in sleep" in outcome.err

    @pytest.mark.parametrize(
        ("body", "code", "words"),
        [
            ("import os; os.kill(os.getpid(), 11)", "DG002", "was killed by SIGSEGV while calling the factory"),
            ("import time; time.sleep(1000)", "DG003", " s while calling the factory"),
        ],
        ids=["segfault", "hang"],
    )
    def test_a_library_that_the_factory_imports_takes_only_the_factory_down(
        self, project: Project, body: str, code: str, words: str
    ) -> None:
        outcome = self._with_library(project, body, "def make():\n    import unsound\n", "--timeout", "0.5")
        result = outcome.results["make"][code]
        assert result["status"] == "failed"
        assert words in result["findings"][0]["message"]

    def test_a_library_that_fails_half_the_way_is_left_to_the_factory(self, project: Project) -> None:
        body = """
            import builtins
            if hasattr(builtins, "half"):
                raise RuntimeError("a second time in one process")
            builtins.half = True
            raise ImportError("something else is missing")
        """
        factory = """
            from nasty import healthy
            def make():
                try:
                    import unsound
                except ImportError:
                    return healthy()
        """
        outcome = self._with_library(project, dedent(body), dedent(factory))
        assert statuses(outcome.results["make"]) == {"passed"}

    @staticmethod
    def _with_library(project: Project, body: str, factory: str, *options: str) -> Outcome:
        """The outcome for a factory `make`, where a library `unsound` is installed."""
        packages = project.folder / "site-packages"
        packages.mkdir(exist_ok=True)
        (packages / "unsound.py").write_text(body)
        (project.folder / "importing.py").write_text(factory)
        found = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH"))))
        return project.scan("healthy", "importing:make", "--select", "DG0", *options, PYTHONPATH=found)

    def test_everything_else_it_may_do_is_survived(self, project: Project) -> None:
        wishes = "thread,daemon,child,service,babble,close_output,shared,tensors,change"
        outcome = project.scan("healthy", "--select", "DG0,DG301,DG501", NASTY_IMPORT=wishes)
        assert statuses(outcome.results["healthy"]) == {"passed"}
        assert (outcome.code, outcome.err) == (0, "")

    def test_a_service_started_at_import_serves_every_observation(self, project: Project) -> None:
        outcome = project.scan("served", "--select", "DG0,DG301,DG501", NASTY_IMPORT="service")
        assert statuses(outcome.results["served"]) == {"passed"}


class TestInterruptions:
    """The reporting process is interrupted or killed while a loader with daemons hangs."""

    @pytest.mark.parametrize("wholesale", [True, False], ids=["group", "process"])
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
    def test_everything_is_gone_soon(self, project: Project, number: signal.Signals, wholesale: bool) -> None:
        process = project.start("slow_hang", "--timeout", "60")
        self._wait_for_the_hang(project)
        (os.killpg if wholesale else os.kill)(process.pid, number)
        _, err = process.communicate(timeout=GONE_WITHIN)
        deadline = time.monotonic() + GONE_WITHIN
        while any(project.leftovers()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert project.leftovers() == ([], set(), [])
        if number == signal.SIGINT:
            assert process.returncode == 130
            assert err.strip() == "dataguard: interrupted, no report"

    @staticmethod
    def _wait_for_the_hang(project: Project) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            marks = [file.read_bytes() for file in project.temporary.glob("dataguard-*/*/flight_recorder")]
            if any(b"sample\0" in mark and b"\x005\0" in mark for mark in marks):
                return
            time.sleep(0.05)
        pytest.fail("the loader does not hang")


def test_a_session_in_this_process_survives_and_leaves_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv(MARK, project.mark)
    monkeypatch.setattr(launcher, "_open", [])  # a shared zygote would carry the mark, and stay
    report = dataguard.scan("nasty:segfault_factory", select=("DG0",), timeout=TIMEOUT)
    assert [result.status.value for result in report.results] == ["skipped", "failed", "skipped"]
    assert report.exit_code(Settings().fail_on) == 1
    assert project.alive() == []
