"""`dataguard init` writes what a scan needs, overwrites nothing, and scans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dataguard.cli import main
from dataguard.settings.settings import resolve

DATA = """
from torch.utils.data import DataLoader

def make_train():
    return DataLoader(range(12), shuffle=True)

def make_val():
    return DataLoader(range(12))
"""
PROJECT = '[project]\nname = "imgcls"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two factories under src."""
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "src" / "imgcls_of_init"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data.py").write_text(DATA)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def test_files_are_written_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["init", "--no-scan"]) == 0
    assert "wrote dataguard_loaders.py\nadded [tool.dataguard] to pyproject.toml" in capsys.readouterr().out
    assert (project / "pyproject.toml").read_text().startswith(PROJECT)
    settings = resolve()
    assert (settings.targets, settings.pythonpath) == (("dataguard_loaders:loaders",), ("src",))
    assert main.main(["init"]) == 2
    assert "dataguard_loaders.py exists; scan it with" in capsys.readouterr().err


@pytest.mark.parametrize("text", [None, "[tool]\ndataguard_free = 1\n[[x", "tool = {}\n"])
def test_without_a_project_file_that_can_be_extended_there_is_one_of_our_own(project: Path, text: str | None) -> None:
    (project / "pyproject.toml").unlink()
    if text is not None:
        (project / "pyproject.toml").write_text(text)
    assert main.main(["init", "--no-scan"]) == 0
    assert resolve(project / "dataguard.toml").pythonpath == ("src",)
    assert text is None or (project / "pyproject.toml").read_text() == text


def test_settings_that_exist_stay(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text(f"{PROJECT}[tool.dataguard]\nsamples = 3\n")
    assert main.main(["init", "--no-scan"]) == 0
    assert 'settings exist; add to them:\ntargets = ["dataguard_loaders:loaders"]' in capsys.readouterr().out
    assert resolve().targets == ()


def test_nothing_found_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(["init"]) == 2
    assert "no DataLoader found in the Python files" in capsys.readouterr().err


TRAINING = """
import sys
from torch.utils.data import DataLoader
assert sys.argv[1:] == ["--data", "a b"], "usage: train.py --data DATA"
train_loader = DataLoader(range(12), shuffle=True)
for batch in train_loader:
    batch.backward()
"""


@pytest.mark.scan
def test_a_training_script_is_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "evaluate.py").write_text("from torch.utils.data import DataLoader\nfor x in DataLoader([1]): print(x)")
    assert main.main(["init", "--list"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "run train.py",
        "run evaluate.py",
    ]
    assert main.main(["init", "--", "--data", "a b"]) == 0
    assert "found the loaders of train.py (and 1 more: `dataguard init --list`)" in capsys.readouterr().out
    assert resolve().targets == ("run train.py --data 'a b'",)


@pytest.mark.scan
def test_a_target_that_never_ran_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    parser = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('-d', '--data', required=True)\n"
    script = f"{parser}parser.add_argument('out')\nparser.parse_args()\n{TRAINING}"
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    assert main.main(["init"]) == 1
    assert "removed again. Pass the arguments of the script after --: `dataguard init -- -d ... ...`" in (
        capsys.readouterr().err
    )
    assert (tmp_path / "pyproject.toml").read_text() == PROJECT


@pytest.mark.scan
def test_the_parts_of_a_monorepo_fail_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = "return DataLoader(range(12), batch_size=11)"
    broken = {"speech": "open('/mnt/missing/index')", "text": "import missing_of_monorepo"}
    for part in ("speech", "text", "vision"):
        (tmp_path / part).mkdir()
        lines = f"    {broken[part]}\n" if part == "speech" else ""
        head = f"{broken[part]}\n" if part == "text" else ""
        (tmp_path / part / "data_of_monorepo.py").write_text(
            f"{head}from torch.utils.data import DataLoader\ndef {part}_train_loader():\n{lines}    {made}\n"
        )
    assert main.main(["init", "--no-scan"]) == 0
    capsys.readouterr()
    (tmp_path / "dataguard.toml").write_text(
        (tmp_path / "dataguard.toml")
        .read_text()
        .replace("# [roles]", "overrides.vision_train.expect.DG403 = 'known'\n")
    )
    assert main.main(["scan", "--select", "DG403,DG207", "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    statuses = {(result["loader"], result["code"]): result["status"] for result in report["results"]}
    assert statuses["speech_train", "DG001"] == statuses["text_train", "DG001"] == "failed"
    assert statuses["text_train", "DG207"] == "skipped"
    assert statuses["vision_train", "DG403"] == "expected"


@pytest.mark.scan
def test_a_retry_starts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import missing_of_init\n" + TRAINING)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "data_of_init.py").write_text("import missing_of_init\n" + DATA)
    (tmp_path / "train.py").unlink()
    assert main.main(["init"]) == 2
    assert "What init wrote was removed again" in capsys.readouterr().err
    assert (tmp_path / "pyproject.toml").read_text() == PROJECT
    assert not (tmp_path / "dataguard_loaders.py").exists()


@pytest.mark.scan
@pytest.mark.usefixtures("project")
def test_a_stranger_gets_a_report_with_two_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["init"]) == 0
    assert "dataguard dataguard_loaders:loaders" in capsys.readouterr().out
    assert main.main(["scan", "--select", "DG207", "--format", "json"]) == 0
    assert '"loader": "train"' in capsys.readouterr().out


@pytest.mark.parametrize("file", ["pyproject.toml", "dataguard.toml"])
def test_what_init_wrote_and_nobody_edited_is_replaced(project: Path, file: str) -> None:
    for path in (project / "pyproject.toml", project / "src/imgcls_of_init/data.py"):
        if path.name != file:
            path.unlink()
    (project / "train.py").write_text(f"{DATA}\nfor batch in make_train(): batch.backward()\n")
    for lr in ("1", "2"):
        assert main.main(["init", "--no-scan", "train.py", "--", "--lr", lr]) == 0
        assert resolve(project / file).targets == (f"run train.py --lr {lr}",)
    edited = (project / file).read_text().replace("# samples = 256 ", "samples = 256 ")
    (project / file).write_text(edited)
    assert main.main(["init", "--no-scan", "train.py", "--", "--lr", "3"]) == 0
    assert (project / file).read_text() == edited
