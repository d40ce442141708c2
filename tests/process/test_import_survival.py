"""What importing the user's module does to the process that observes."""

from __future__ import annotations

import os
from textwrap import dedent

import pytest

import dataguard
from dataguard.model import UsageError
from dataguard.process.process_tree import descendants
from tests.support.offspring import left_over
from tests.support.projects import TIMEOUT, Outcome, Project, statuses

pytestmark = pytest.mark.scan


@pytest.fixture(scope="module")
def _zygote() -> None:
    """What all scans of this process fork from is there, and stays."""
    dataguard.scan("sample_datasets.dg301_overlong_len:good", select=("DG001",))


class TestImports:
    """What importing the user's module does to the process that observes."""

    @pytest.mark.usefixtures("_zygote")
    @pytest.mark.parametrize(
        ("wish", "words"),
        [
            ("segfault", "was killed by SIGSEGV during its import"),
            ("kill", "was killed by SIGKILL during its import"),
            ("leave", "exited with status 7 during its import"),
            ("goodbye", "raised SystemExit: 3"),
            ("parse", "SystemExit: 2 at .*nasty.py:.*; its last words: nasty.py: error: .* required: --data$"),
            ("interrupt", "KeyboardInterrupt"),
        ],
    )
    def test_a_module_that_ends_its_process_is_no_target(
        self, project: Project, wish: str, words: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(project.folder)
        monkeypatch.setenv("NASTY_IMPORT", wish)
        before = descendants()
        with pytest.raises(UsageError, match=words):
            dataguard.scan("nasty:healthy", timeout=TIMEOUT)
        assert left_over(before) == []

    def test_a_module_that_never_ends_importing_shows_where(self, project: Project) -> None:
        outcome = project.scan("healthy", "--timeout", "0.5", NASTY_IMPORT="sleep")
        assert (outcome.code, outcome.out) == (2, "")
        assert "Traceback" not in outcome.err
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
