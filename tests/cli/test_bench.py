"""`dataguard bench` on real loaders, and the checks that need to know how long a step takes."""

from __future__ import annotations

import ast
import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataguard.cli import main
from dataguard.cli.bench import bench
from dataguard.core.model import Status, UsageError
from dataguard.engine import scan
from dataguard.measured import Bench
from dataguard.settings.parsers import built
from dataguard.settings.settings import Settings, resolve
from tests.support.faces import runs

ROOT = Path(__file__).parents[2]
TARGET = "tests.loaders.timed:slow_storage"
TWINS = ("bad", "good")


TRAINING = """\
from pathlib import Path
from torch.utils.data import DataLoader
from sample_datasets._storage import Storage
from tests.loaders.timed import step

loader = DataLoader(Storage(200, 0.005), batch_size=4, num_workers=1)
for batch in loader:
    step(batch)
Path("saved").touch()
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main.main(["bench", *arguments])
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The JSON of one bench of a training script, and its text beside it."""
    path = tmp_path_factory.mktemp("bench") / "bench.json"
    files = (
        "--format",
        "json",
        "--output",
        str(path),
        "--format",
        "text",
        "--output",
        str(path.with_suffix(".txt")),
    )
    options = ("--workers", "0,4", "--budget", "14", "--step", "tests.loaders.timed:step")
    script = path.with_name("train.py")
    script.write_text(TRAINING, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.chdir(script.parent)
        patch.syspath_prepend(str(ROOT))
        assert main.main(["bench", "run train.py", *options, *files]) == 0
    assert not path.with_name("saved").exists()
    return path


@pytest.mark.scan
def test_what_a_run_tells(measured: Path) -> None:
    (loader,) = built(Bench, json.loads(measured.read_text(encoding="utf-8"))).loaders
    assert loader.ranking(loader.workers).best in ("4 workers", None)
    assert {timed.setting.workers for timed in loader.workers} == {0, 1, 4}
    stages = {stage.name: stage for stage in loader.stages}  # where the time goes
    assert (stages["fetch"].seconds or 0) >= 0.02
    assert (stages["collate"].seconds or 1) < 0.02
    assert stages["transfer"].seconds is not None
    assert stages["pinning"].skipped or loader.device
    own = loader.waits[0]  # a step waits for a slow storage, and not for memory
    assert own.setting == loader.own
    assert own.share > 0.2
    assert loader.ideal is not None
    assert loader.ideal < own.each
    advice = loader.advice  # None on a machine that is too busy to tell
    assert advice is None or advice.setting.workers == 4
    if advice is not None and advice.setting == replace(loader.own, workers=4):
        assert advice.diff[1] == "+loader = DataLoader(Storage(200, 0.005), batch_size=4, num_workers=4)"
    if advice is not None:
        assert [timed.failed for timed in advice.tried] == [None, None]
        assert min(min(timed.per_batch) for timed in advice.tried) >= 0.01  # with its step
    text = measured.with_suffix(".txt").read_text(encoding="utf-8")
    assert "1 worker (yours)" in text
    assert "with a step (tests.loaders.timed:step)" in text
    assert "is fastest" in text or "cannot tell" in text


class TestTrouble:
    @pytest.mark.scan
    def test_a_hanging_loader_ends_it_with_a_reason(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, "tests.loaders.timed:two", "--loader", "val", "--timeout", "3", "--budget", "5")
        assert (code, out) == (2, "")
        assert "tests.loaders.timed:two [val] cannot be measured: no progress for" in err

    @pytest.mark.scan
    def test_a_loader_that_raises(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = run(capsys, "tests.loaders.timed:raising", "--budget", "5")
        assert code == 2
        assert "cannot be measured: ValueError: picture 3 is broken; `dataguard scan" in err

    @pytest.mark.scan
    def test_a_loader_without_batches(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = run(capsys, "tests.loaders.timed:nothing", "--budget", "5")
        assert code == 2
        assert "the epoch has no batches" in err

    @pytest.mark.scan
    def test_a_loader_of_another_name(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = run(capsys, "tests.loaders.timed:two", "--loader", "trian")
        assert code == 2
        assert "no such loader in tests.loaders.timed:two; did you mean 'train'?" in err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "bench measures one target"),
            ((TARGET, "--workers", "two"), "--workers two: expected integers"),
            ((TARGET, "--workers", "1,,2"), "expected integers"),
            ((TARGET, "--workers", "-1"), "expected integers"),
            ((TARGET, "--workers", "2,4000"), "at most 256 workers"),
            ((TARGET, "--step-ms", "fast"), "--step-ms fast: expected a positive number of milliseconds"),
            ((TARGET, "--step-ms", "0"), "expected a positive number"),
            ((TARGET, "--step-ms", "nan"), "expected a positive number"),
            ((TARGET, "--step", "step"), "--step step: expected pkg.mod:function"),
            ((TARGET, "--step", "a:b", "--step-ms", "3"), "exclude each other"),
            ((TARGET, "--budget", "-3"), "budget: expected a positive number"),
            ((TARGET, "--output", "nowhere/a.txt"), "no such folder: nowhere"),
            ((TARGET, "--format", "sarif"), "sarif"),
        ],
    )
    def test_what_is_wrong_is_said_before_anything_runs(
        self, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (2, "")
        assert message in err


@pytest.mark.scan
@pytest.mark.parametrize("stem", ["dg801_starved_step", "dg803_slow_worker_count"])
def test_a_sample_trips_what_its_name_says_once_the_step_is_known(stem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = ast.parse((ROOT / "sample_datasets" / f"{stem}.py").read_text(encoding="utf-8"))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[:3] in ("bad", "goo")]
    faces = [name for name in names if name in TWINS or runs(f"{stem}:{name}")]
    step = importlib.import_module(f"sample_datasets.{stem}").STEP_MS
    monkeypatch.setenv("FACES", " ".join(f"{stem}:{face}" for face in faces))
    code = stem[:5].upper()
    settings = Settings(samples=16, budget=30, select=(code,), contract={"step_ms": step})
    report = scan("tests.loaders.faces:named", settings)
    failed = {result.loader for result in report.results if result.status is Status.FAILED}
    assert failed == {f"{code}.{face}" for face in faces if face.startswith("bad")}, report


@pytest.mark.scan
def test_without_a_step_time_nothing_is_measured() -> None:
    report = scan("tests.loaders.timed:slow_storage", Settings(samples=8, select=("DG801", "DG802", "DG803")))
    assert {result.status for result in report.results} == {Status.SKIPPED}
    assert all("step_ms" in (result.reason or "") for result in report.results)


def test_every_option_of_bench_stands_in_its_page() -> None:
    page = (ROOT / "docs" / "throughput.md").read_text(encoding="utf-8")
    flags = [flag for option in bench.params for flag in option.opts if flag.startswith("--")]
    assert [flag for flag in flags if flag not in page] == []


@pytest.mark.parametrize("value", ["20", 0, -3, True, None])
def test_a_step_time_is_a_number_of_milliseconds(value: Any) -> None:
    with pytest.raises(UsageError, match="step_ms: expected a positive number of milliseconds"):
        resolve(contract={"step_ms": value})
