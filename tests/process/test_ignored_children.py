"""User code or a parent process that ignores SIGCHLD: our processes wait for their children nevertheless."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dataguard
from dataguard.process.launcher import ADDRESS
from dataguard.settings.settings import Settings

pytestmark = pytest.mark.scan

LOADERS = """
import signal
from torch.utils.data import DataLoader, DistributedSampler

signal.signal(signal.SIGCHLD, signal.SIG_IGN)

class Data(list):
    def __getitem__(self, index):
        assert signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
        return super().__getitem__(index)

def make(rank=0, world_size=1):
    data = Data(range(16))
    return DataLoader(data, sampler=DistributedSampler(data, world_size, rank), batch_size=4)
"""


def test_what_a_module_sets_holds_only_where_its_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ignoring_children.py").write_text(LOADERS)
    monkeypatch.chdir(tmp_path)
    report = dataguard.scan("ignoring_children:make", select=("DG0", "DG202", "DG301"), roles={"make": "train"})
    assert {result.code: result.reason for result in report.results if result.status.value != "passed"} == {}
    assert not [note for note in report.notes if "calls the factory again" in note]


def test_what_the_caller_of_a_scan_in_hand_sets_holds_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data import DataLoader, Dataset

    class Data(Dataset):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> int:
            assert signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
            return index

    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        report = dataguard.scan(DataLoader(Data()), select=("DG0",))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert report.exit_code(Settings().fail_on) == 0, str(report)


def test_a_parent_that_ignores_children_changes_nothing(tmp_path: Path) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "dataguard", "scan", "sample_datasets.dg301_overlong_len:good", "--select", "DG0,DG301"],
        env={**os.environ, ADDRESS: ""},
        cwd=Path(__file__).parents[2],
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (outcome.returncode, outcome.stderr) == (0, ""), outcome.stdout
    assert "4 passed" in outcome.stdout
