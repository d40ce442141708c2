"""Real scans of many loaders that die or hang, together: the report is right, and nothing is left behind.

`tests/hostile` has one scan for each of many others, and the faces of DG002 die by other signals.
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
    return project.scan("hangs", "--select", "DG0,DG301")


class TestDeaths:
    """Processes that are killed by a signal, wherever it happens."""

    def test_the_exit_code_tells_of_findings(self, deaths: Outcome) -> None:
        assert (deaths.code, deaths.err) == (1, "")

    def test_a_healthy_loader_beside_them_is_judged_as_ever(self, deaths: Outcome) -> None:
        assert statuses(deaths.results["healthy"]) == {"passed"}
        assert deaths.results["healthy"]["DG002"]["exercised"]["samples"] == 16

    @pytest.mark.parametrize(
        ("where", "words"),
        [
            ("main", "was killed by SIGSEGV while reading a sample (index 5"),
            ("worker", "worker 1 was killed by SIGSEGV while reading a sample (index 5"),
            ("collate", "was killed by SIGSEGV while collating a batch"),
            ("init", "was killed by SIGSEGV while starting a worker"),
            ("sampler", "the main process was killed by SIGSEGV while iterating the loader"),
            ("stream", "was killed by SIGSEGV while reading a sample"),
        ],
    )
    def test_a_crash_names_the_line_it_happened_on(self, deaths: Outcome, where: str, words: str) -> None:
        results = deaths.results[f"segfault_{where}"]
        finding = failed(results)["DG002"]
        assert words in finding["message"]
        assert statuses(results) == {"failed", "skipped"}
        assert results["DG001"]["reason"].startswith("see DG002: ")
        assert finding["at"]["file"].endswith("nasty.py")
        assert finding["at"]["what"] == "segfault"
        assert "in segfault" in finding["evidence"]["stacks"]


class TestHangs:
    """Loaders that wait forever."""

    @pytest.mark.parametrize(
        ("loader", "where"),
        [("main", "reading a sample (index 5"), ("worker", "reading a sample (index 5, worker 1)")],
    )
    def test_dg003_shows_who_waits_and_on_which_line(self, hangs: Outcome, loader: str, where: str) -> None:
        found = failed(hangs.results[f"sleep_{loader}"])
        assert list(found) == ["DG003"]
        assert f"no progress for {TIMEOUT} s while" in found["DG003"]["message"]
        assert where in found["DG003"]["message"]
        assert found["DG003"]["at"]["what"] == "sleep"
        first = found["DG003"]["evidence"]["stacks"].split("\n\n")[0]
        assert f'nasty.py", line {found["DG003"]["at"]["line"]} in sleep' in first

    def test_the_healthy_loader_after_them_is_judged(self, hangs: Outcome) -> None:
        assert hangs.code == 1
        assert statuses(hangs.results["healthy"]) == {"passed"}


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
