"""Loaders that are passed as objects, and are observed in forks of the process that has them."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import dataguard
from dataguard.core.model import UsageError
from dataguard.lab.reading import checkpoint
from dataguard.observer import host
from dataguard.report import Report
from dataguard.settings import target_spelling
from dataguard.settings.settings import Settings
from tests.support.pytest_runs import LOADED

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.scan


class Noisy(Dataset[Any]):
    """Samples with noise of a generator that every worker copies."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        return torch.full((3, 8, 8), index / 64) + self.rng.random(), index % 4


class Stored(Dataset[str]):
    """Lines of a file that is open, in a folder that is removed when the dataset is."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        (Path(self.folder.name) / "lines").write_text("".join(f"line {number}\n" for number in range(16)))
        self.file = (Path(self.folder.name) / "lines").open("rb")

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> str:
        self.file.seek(0)
        return self.file.readlines()[index].decode()


def noisy(**settings: Any) -> DataLoader[Any]:
    return DataLoader(Noisy(), batch_size=8, num_workers=2, **settings)


def failed(report: Report) -> list[tuple[str, str]]:
    return [(result.code, result.loader) for result in report.failed]


def daemonic(answers: Any) -> None:
    """Iterate and check a loader in a process that may have no children."""
    with pytest.raises(AssertionError, match="daemonic processes are not allowed to have children"):
        next(iter(noisy()))
    report = dataguard.check(noisy(), select=["DG001", "DG101"])
    answers.put((failed(report), report.notes))


def test_a_daemonic_process_can_check_a_loader() -> None:
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    process = context.Process(target=daemonic, args=(answers,), daemon=True)
    process.start()
    found, (note, *_) = answers.get()
    process.join()
    assert found == [("DG101", "loader")]
    assert note.startswith("this process is a daemonic one, which may have no children")


def test_a_loader_is_observed_as_it_is() -> None:
    loader = noisy()
    before = loader.dataset.rng.bit_generator.state  # type: ignore[attr-defined]
    report = dataguard.check(loader, select=["DG101", "DG301"])
    assert failed(report) == [("DG101", "loader")]
    assert loader.dataset.rng.bit_generator.state == before  # type: ignore[attr-defined]
    (finding,) = report.failed[0].findings
    assert finding.repro == "dataguard.check(loader, select=['DG101'])"
    assert report.targets == ("loader",)
    assert "DG101" in str(report)
    assert "DG101" in report.to_json()
    assert repr(report).startswith("<Report 1 failed")
    assert len(repr(report)) < 100
    assert "DG101" in report._repr_html_()
    assert not [name for name in vars(target_spelling) if name.startswith("object_")]


def test_dicts_datasets_and_functions_are_as_good() -> None:
    local = noisy()
    report = dataguard.scan({"train": noisy(), "val": noisy()}, Noisy(), lambda: local, select=["DG101"])
    assert failed(report) == [("DG101", f"loader{name}") for name in ("1.train", "1.val", "2", "3")]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.nn.Linear(2, 2), "loader is a Linear, not a DataLoader"),
        ((number for number in range(3)), "loader is a generator"),
        ({"train": 3}, "loader is a dict of int"),
        (None, "loader is None"),
    ],
)
def test_what_holds_no_loader_is_refused_by_its_type(value: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        dataguard.check(value)


def test_a_system_without_fork_needs_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    with pytest.raises(UsageError, match="a DataLoader in hand needs"):
        dataguard.check(noisy())


def test_files_and_folders_of_this_process_stay() -> None:
    dataset = Stored()
    report = dataguard.check(DataLoader(dataset, batch_size=4), select=["DG001", "DG301", "DG302"])
    assert not report.failed
    assert dataset[3] == "line 3\n"
    dataset.file.close()
    dataset.folder.cleanup()


def test_threads_are_mentioned(capfd: pytest.CaptureFixture[str]) -> None:
    with_one = threading.Event()
    thread = threading.Thread(target=with_one.wait)
    thread.start()
    try:
        report = dataguard.check(noisy(), select=["DG301"])
    finally:
        with_one.set()
        thread.join()
    assert "1 other thread of this process" in report.notes[0]
    assert capfd.readouterr() == ("", "")


def test_a_process_with_cuda_is_observed_without_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert checkpoint.requested(Settings()) == {"pin_memory": False}
    assert "CUDA" in next(iter(host._notes([], daemonic=False)))


SCRIPT = """
import atexit, dataguard
from tests.process.test_loaders_in_hand import noisy
atexit.register(print, "exit handlers ran")
if __name__ == "__main__":
    print([result.code for result in dataguard.check(noisy(), select=["DG101"]).failed])
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_ends_once(script: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=True)
    assert ran.stdout.splitlines() == ["['DG101']", "exit handlers ran"]
    assert not ran.stderr


def test_tests_take_loaders_in_hand(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_data="""
        import dataguard
        from tests.process.test_loaders_in_hand import noisy

        loader = noisy()

        @dataguard.parametrize_with_checks(loader, select=["DG101", "DG301"])
        def test_loader(check):
            check()

        @dataguard.use_target(loader, select=["DG301"])
        def test_report(dataguard_report, dataguard_loader):
            assert not dataguard_report.failed
            assert dataguard_loader.dataset is loader.dataset
        """
    )
    pytester.runpytest_inprocess(*LOADED).assert_outcomes(passed=2, failed=1)
