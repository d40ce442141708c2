"""`dataguard init` writes what a scan needs, overwrites nothing, and scans."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataguard.cli import main
from dataguard.settings.settings import resolve

DATA = """
from torch.utils.data import DataLoader

class Config:
    size = 12

def build_loader(cfg, split):
    return DataLoader(range(cfg.size), shuffle=split == "train")
"""
SCRIPT = """
from imgcls_of_init.data import Config, build_loader

def main():
    config = Config()
    train_loader = build_loader(config, "train")
    val_loader = build_loader(config, "val")

if __name__ == "__main__":
    main()
"""
PROJECT = '[project]\nname = "imgcls"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a factory of two arguments under src."""
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "src" / "imgcls_of_init"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data.py").write_text(DATA)
    (tmp_path / "train.py").write_text(SCRIPT)
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


def test_a_script_is_not_taken_apart_and_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(["init"]) == 2
    assert "no DataLoader found in the Python files" in capsys.readouterr().err
    (tmp_path / "train.py").write_text(
        "from torch.utils.data import DataLoader\nfor x in DataLoader([1]):\n    print(x)"
    )
    assert main.main(["init", "--", "--data", "a b"]) == 0
    assert "`dataguard run train.py --data 'a b'` scans them" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.scan
@pytest.mark.usefixtures("project")
def test_a_stranger_gets_a_report_with_two_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["init"]) == 0
    assert "dataguard dataguard_loaders:loaders" in capsys.readouterr().out
    assert main.main(["scan", "--select", "DG207", "--format", "json"]) == 0
    assert '"loader": "train"' in capsys.readouterr().out
