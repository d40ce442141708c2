"""One process that imports torch for all targets of a run: what it forks is as good as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from dataguard.process import launcher
from dataguard.process.launcher import exported_zygote, shared_zygote
from dataguard.process.process_tree import descendants
from dataguard.process.session import Session
from dataguard.settings.settings import Settings
from tests.support.offspring import left_over

pytestmark = [pytest.mark.scan, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")]

LOADERS = """
import os
from pathlib import Path
from torch.utils.data import DataLoader

def make():
    names = [os.environ["NAME"], Path.cwd().name, str(os.getpid())]
    return {name: DataLoader([1, 2]) for name in names}
"""


Zygotes = Callable[[], list[psutil.Process]]


@pytest.fixture
def zygotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Zygotes]:
    """A folder with a module of loaders, and the zygotes that a test has to itself."""
    (tmp_path / "forked_loaders.py").write_text(LOADERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launcher, "_open", [])
    monkeypatch.delenv(launcher.ADDRESS)
    before = descendants()
    with shared_zygote():
        yield lambda: [
            one for one in descendants() if one not in before and "dataguard.observer.zygote" in command(one)
        ]
    assert left_over(before) == []


def command(process: psutil.Process) -> list[str]:
    """Its words; none where it has ended meanwhile."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def names(monkeypatch: pytest.MonkeyPatch, name: str) -> tuple[str, str, int]:
    """The environment, the folder and the number of the process in which a loader is made."""
    monkeypatch.setenv("NAME", name)
    with Session("forked_loaders:make", Settings()) as session:
        variable, folder, pid = session.loaders()
        return variable, folder, int(pid)


def test_each_target_has_the_environment_and_the_folder_of_its_moment(
    zygotes: Zygotes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert names(monkeypatch, "first")[:2] == ("first", tmp_path.name)
    (only,) = zygotes()
    below = tmp_path / "below"
    below.mkdir()
    (below / "forked_loaders.py").write_text(LOADERS)
    monkeypatch.chdir(below)
    variable, folder, pid = names(monkeypatch, "second")
    assert (variable, folder) == ("second", "below")
    assert zygotes() == [only]
    assert not psutil.pid_exists(pid)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert names(monkeypatch, "third")[0] == "third"
    assert zygotes() != [only]


def test_one_that_has_died_is_started_again(zygotes: Zygotes, monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, "first")
    (only,) = zygotes()
    only.kill()
    psutil.wait_procs([only], 10)
    assert names(monkeypatch, "second")[0] == "second"
    assert len(zygotes()) == 1


def test_other_processes_of_the_run_use_it(zygotes: Zygotes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "other")
    command = [sys.executable, "-m", "dataguard", "scan", "forked_loaders:make", "--select", "DG001"]
    with exported_zygote():
        (only,) = zygotes()
        assert subprocess.run(command, check=False).returncode == 0
        assert names(monkeypatch, "here")[0] == "here"
        assert zygotes() == [only]
        only.kill()
        psutil.wait_procs([only], 10)
        assert subprocess.run(command, check=False).returncode == 0
    assert launcher.ADDRESS not in os.environ


def test_it_ends_with_the_process_that_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    lines = "from dataguard.process import launcher as l; one = l.Zygote(); one.start(); print(one.address); input()"
    with subprocess.Popen([sys.executable, "-uc", lines], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        address = owner.stdout.readline()
        owner.kill()
    assert address
    deadline = time.monotonic() + 60  # torch is being imported
    while (left := list(tmp_path.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
