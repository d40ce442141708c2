"""The factory runs once, and what its process leaves behind does no harm to observations."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.lab.process.fork_safety import ProcessSnapshot
from dataguard.report import Report
from dataguard.settings.settings import Settings
from tests.loaders.standing import LEAVES

pytestmark = pytest.mark.scan

SEVERAL = ("DG0", "DG101", "DG102", "DG301", "DG306", "DG307", "DG401", "DG402", "DG501")
"""Checks that make a dozen observations together."""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file into which factories write a line for each call."""
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return tmp_path / "calls"


def run(factory: str, *checks: str) -> Report:
    report = scan(f"tests.loaders.standing:{factory}", Settings(select=checks or SEVERAL))
    assert not report.count(Status.BROKEN), report
    return report


@pytest.mark.parametrize("factory", ["make", "make_forever", "make_with_bar", "make_with_blas"])
def test_a_factory_is_called_once_for_all_observations(factory: str, calls: Path) -> None:
    report = run(factory)
    assert not report.count(Status.FAILED), report
    assert report.count(Status.PASSED) > 5
    assert not report.notes
    assert calls.read_text().count("called") == 1


def test_a_fork_reads_a_file_from_where_the_factory_left_it(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"abcdefgh")
    before = ProcessSnapshot()
    with (tmp_path / "data").open("rb", buffering=0) as file:
        assert file.read(2) == b"ab"
        opened = before.files(tmp_path / "session")
        for _ in range(2):
            pid = os.fork()
            if pid == 0:
                for one in opened:
                    one.reopen()
                os._exit(int(file.read(4) != b"cdef"))
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("what", sorted(LEAVES))
def test_a_factory_whose_process_cannot_be_forked_is_called_again_and_said_so(
    what: str, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAVES", what)
    report = run("make_leaving", "DG0", "DG501")
    assert not report.count(Status.FAILED), report
    (note,) = report.notes
    assert LEAVES[what][1] in note
    assert calls.read_text().count("called") > 1
