"""One process that imports torch for all targets of a run: what it forks is as good as a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from dataguard.process import launcher
from dataguard.process.launcher import shared_zygote
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
