"""Real scans of many loaders that die or hang, together: the report is right, and nothing is left behind.

`tests/hostile` has one scan for each of many more.
"""

from __future__ import annotations

import pytest

import dataguard
from dataguard.process import launcher
from dataguard.settings.settings import Settings
from tests.support.projects import MARK, TIMEOUT, Outcome, Project, failed, statuses

pytestmark = pytest.mark.scan

SELECT = "DG0,DG301,DG501"


@pytest.fixture(scope="module")
def deaths(project: Project) -> Outcome:
    return project.scan("deaths", "--select", SELECT)


@pytest.fixture(scope="module")
def hangs(project: Project) -> Outcome:
    return project.scan("hangs spins last_hang sleeping_factory", "--select", "DG0,DG301")


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
