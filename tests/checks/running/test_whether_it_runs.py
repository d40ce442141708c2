"""A loader that does not run is reported whatever was selected."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from dataguard.core.model import Severity, Status
from dataguard.engine import scan
from dataguard.settings.settings import Settings


@pytest.mark.scan
@pytest.mark.parametrize("settings", [Settings(select=("DG408",)), Settings(select=("DG501",), ignore=("DG001",))])
def test_a_crash_is_reported_though_it_was_not_asked_for(settings: Settings) -> None:
    report = scan("tests.loaders.timed:raising", settings)
    assert [(result.code, result.status) for result in report.results] == [
        ("DG001", Status.FAILED),
        (settings.select[0], Status.SKIPPED),
    ]
    assert report.exit_code(Severity.WARNING) == 1


@pytest.mark.scan
def test_a_loader_that_runs_is_not_mentioned() -> None:
    report = scan("sample_datasets.dg301_overlong_len:good", Settings(select=("DG301",)))
    assert [(result.code, result.status) for result in report.results] == [("DG301", Status.PASSED)]


@pytest.mark.scan
@pytest.mark.parametrize(
    ("path", "hint"), [("/mnt/missing/index.tsv", None), ("missing.tsv", "this file does not exist; a")]
)
def test_a_factory_that_raises_is_shown_once_with_its_callers_and_called_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, hint: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    name = f"factory_of_callers_{len(path)}"
    (tmp_path / "src" / f"{name}.py").write_text(f"def read(): open('{path}')\ndef make(split): return read()\n")
    report = scan(f'{name}:make(split="a")', Settings(select=("DG001",), pythonpath=("src",)))
    (finding,) = report.failed[0].findings
    assert finding.evidence["called from"].endswith(f"{name}.py:2 in make")
    assert finding.evidence.get("hint") is None if hint is None else finding.evidence["hint"].startswith(hint)
    assert finding.evidence["fix here"] == "mount or download what is missing, or change the path"
    assert finding.repro == f"PYTHONPATH=src python -c 'from {name} import make; make(split='\"'\"'a'\"'\"')'"
    assert str(report).count("FileNotFoundError") == 2  # the finding, and its line at the end


@pytest.mark.scan
def test_a_sample_moved_to_cuda_is_told_from_a_device_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch refuses CUDA in forks of a process that asked for it, whether there is a device or not."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "moved.py").write_text(
        "from torch.utils.data import DataLoader\n"
        "from tests.loaders.nasty import Numbers\n"
        "import torch\n"
        "def move(): torch.zeros(1).to('cuda')\n"
        "def make(): return {'train': None, 'val': DataLoader(Numbers(move, 0), num_workers=2)}\n"
    )
    report = scan("moved:make", Settings(select=("DG001",)))
    (finding,) = report.failed[0].findings
    assert finding.evidence["fix here"].startswith("return tensors of the CPU")
    assert torch.cuda.is_available() or "re-initialize" not in finding.message
    assert report.notes == ("moved:make: train is None, and is not scanned",)


@pytest.mark.scan
@pytest.mark.skipif(sys.platform != "linux", reason="threads of native code are found in /proc")
@pytest.mark.parametrize(("name", "is_explained"), [("forked", True), ("asleep", False)])
def test_a_worker_that_waits_for_threads_that_forks_lack_names_their_library(name: str, is_explained: bool) -> None:
    pytest.importorskip("polars")
    report = scan(f"tests.loaders.forked_threads:{name}", Settings(select=("DG003",), timeout=2.0))
    (finding,) = report.failed[0].findings
    threads = str(finding.evidence.get("threads where the worker was forked", ""))
    assert ("polars" in threads, "fix here" in finding.evidence) == (is_explained, is_explained), finding.evidence
