"""What importing the user's module does to the process that observes."""

from __future__ import annotations

import os
from textwrap import dedent

import pytest

import dataguard
from dataguard.core.model import UsageError
from dataguard.process.process_tree import descendants
from tests.support.offspring import left_over
from tests.support.projects import TIMEOUT, Project, statuses

pytestmark = pytest.mark.scan

LIBRARIES = {
    "crashing": "import os; os.kill(os.getpid(), 11)",
    "hanging": "import time; time.sleep(1000)",
    "halved": """
        import builtins
        if hasattr(builtins, "half"):
            raise RuntimeError("a second time in one process")
        builtins.half = True
        raise ImportError("something else is missing")
    """,
}
IMPORTING = """
    from nasty import healthy
    def make():
        try:
            import {name}
        except ImportError:
            return healthy()
"""
"""A factory that imports one of them."""


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
        outcome = project.scan("healthy", "--import-timeout", "8", NASTY_IMPORT="sleep")
        assert (outcome.code, outcome.out) == (2, "")
        assert "Traceback" not in outcome.err
        assert "importing its module takes too long" in outcome.err
        assert "nasty.py" in outcome.err
        assert "in sleep" in outcome.err

    def test_a_library_that_the_factory_imports_takes_only_the_factory_down(self, project: Project) -> None:
        """A library that fails half the way is left to the factory, which may do without."""
        packages = project.folder / "site-packages"
        packages.mkdir()
        for name, body in LIBRARIES.items():
            (packages / f"{name}.py").write_text(dedent(body))
            (project.folder / f"imports_{name}.py").write_text(dedent(IMPORTING.format(name=name)))
        found = os.pathsep.join(filter(None, (str(packages), os.environ.get("PYTHONPATH"))))
        targets = " ".join(f"{name}=imports_{name}:make" for name in LIBRARIES)
        outcome = project.scan("healthy", *targets.split(), "--select", "DG0", "--timeout", "0.5", PYTHONPATH=found)
        crashing = outcome.results["crashing"]["DG002"]["findings"][0]
        assert "was killed by SIGSEGV while calling the factory" in crashing["message"]
        hanging = outcome.results["hanging"]["DG003"]["findings"][0]
        assert " s while calling the factory" in hanging["message"]
        assert statuses(outcome.results["halved"]) == {"passed"}

    def test_everything_else_it_may_do_is_survived(self, project: Project) -> None:
        wishes = "thread,daemon,child,service,babble,close_output,shared,tensors,change"
        outcome = project.scan("healthy served", "--select", "DG0,DG301,DG501", NASTY_IMPORT=wishes)
        assert statuses(outcome.results["healthy"]) == {"passed"}
        assert statuses(outcome.results["served"]) == {"passed"}, "the service serves every observation"
        assert (outcome.code, outcome.err) == (0, "")
