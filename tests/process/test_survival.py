"""Real scans of loaders that do everything they should not: the report is right, and nothing is left behind."""

from __future__ import annotations

import pytest

import dataguard
from dataguard.process import launcher
from dataguard.settings.settings import Settings
from tests.support.projects import MARK, TIMEOUT, Outcome, Project, failed, statuses

pytestmark = pytest.mark.scan

SELECT = "DG0,DG301,DG501"
ODD_FACTORIES = "daemon_factory thread_factory closing_factory changing_factory shared_factory"
WRONG = {
    "segfault_factory": ("DG002", "was killed by SIGSEGV while calling the factory"),
    "leaving_factory": ("DG002", "exited with status 0 while calling the factory"),
    "goodbye_factory": ("DG001", "calling the factory raised SystemExit: 3"),
    "interrupted_factory": ("DG001", "calling the factory raised KeyboardInterrupt"),
    "negative": ("DG001", "__len__() should return >= 0"),
    "huge_shuffled": ("DG001", "can't allocate memory"),
    "fractional": ("DG001", "'float' object cannot be interpreted as an integer"),
    "silent": ("DG001", "no length today"),
    "parsing_factory": (
        "DG001",
        "SystemExit: 2; its last words: nasty.py: error: the following arguments are required: --data",
    ),
    "leaving": ("DG001", "raised SystemExit: 3"),
}
"""Factories that fail and loaders that lie about their length, with what is found."""


@pytest.fixture(scope="module")
def deaths(project: Project) -> Outcome:
    return project.scan("deaths", "--select", SELECT)


@pytest.fixture(scope="module")
def raisings(project: Project) -> Outcome:
    return project.scan(f"raisings {' '.join(WRONG)}", "--select", SELECT)


@pytest.fixture(scope="module")
def hangs(project: Project) -> Outcome:
    return project.scan("hangs spins last_hang sleeping_factory", "--select", "DG0,DG301")


@pytest.fixture(scope="module")
def oddities(project: Project) -> Outcome:
    return project.scan(f"oddities {ODD_FACTORIES}", "--select", SELECT)


class TestDeaths:
    """Processes that end by a signal or by an exit call, wherever it happens."""

    def test_the_exit_code_tells_of_findings(self, deaths: Outcome) -> None:
        assert (deaths.code, deaths.err) == (1, "")

    def test_a_healthy_loader_beside_them_is_judged_as_ever(self, deaths: Outcome) -> None:
        assert statuses(deaths.results["healthy"]) == {"passed"}
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
        found = failed(raisings.results[f"raisings.{loader}"])
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
        found = failed(raisings.results[f"raisings.say_goodbye_{place}"])
        assert list(found) == ["DG002"]
        assert words in found["DG002"]["message"]

    @pytest.mark.parametrize("target", WRONG)
    def test_factories_that_fail_and_lengths_that_lie_are_findings(self, raisings: Outcome, target: str) -> None:
        code, words = WRONG[target]
        found = failed(raisings.results[target])
        assert list(found) == [code]
        assert words in found[code]["message"]

    def test_none_is_a_bug_of_ours(self, raisings: Outcome) -> None:
        assert raisings.code == 1
        assert "broken" not in set().union(*map(statuses, raisings.results.values()))
        assert statuses(raisings.results["raisings.healthy"]) == {"passed"}


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
        found = failed(hangs.results[f"hangs.{loader}"])
        assert list(found) == ["DG003"]
        assert f"no progress for {TIMEOUT} s while" in found["DG003"]["message"]
        assert where in found["DG003"]["message"]
        assert found["DG003"]["at"]["what"] == function
        first = found["DG003"]["evidence"]["stacks"].split("\n\n")[0]
        assert f'nasty.py", line {found["DG003"]["at"]["line"]} in {function}' in first

    def test_an_unpicklable_batch_is_told_and_does_not_stop_the_rest(self, hangs: Outcome) -> None:
        found = failed(hangs.results["hangs.unpicklable"])
        assert "cannot be sent to the main process" in found["DG003"]["message"]
        assert hangs.results["hangs.unpicklable"]["DG301"]["status"] == "passed"

    def test_the_healthy_loader_after_them_is_judged(self, hangs: Outcome) -> None:
        assert hangs.code == 1
        assert statuses(hangs.results["hangs.healthy"]) == {"passed"}

    @pytest.mark.parametrize(
        ("loader", "where"), [("spins.spin_worker", "spin"), ("last_hang", "sleep"), ("sleeping_factory", "sleep")]
    )
    def test_a_busy_loop_a_finalizer_and_a_factory_hang_as_well(self, hangs: Outcome, loader: str, where: str) -> None:
        assert failed(hangs.results[loader])["DG003"]["at"]["what"] == where


class TestOddities:
    """Loaders that fork, print, leave, close and change what is not theirs, and give their samples all the same."""

    def test_they_pass(self, oddities: Outcome) -> None:
        assert {loader: failed(results) for loader, results in oddities.results.items() if failed(results)} == {}
        assert [loader for loader in oddities.results if "." not in loader] == ODD_FACTORIES.split()
        assert len(oddities.results) == 19 + len(ODD_FACTORIES.split())
        assert set().union(*map(statuses, oddities.results.values())) <= {"passed", "skipped"}
        assert (oddities.code, oddities.err) == (0, "")


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
