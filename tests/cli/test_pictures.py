"""`--pictures`: only where something draws them, and never without Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dataguard.cli import main
from dataguard.core.model import UsageError
from dataguard.engine import scan
from dataguard.report import Report
from dataguard.settings.settings import Settings
from tests.support.sample_reports import clean, stub_engine


@pytest.fixture
def taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each scan takes pictures."""
    monkeypatch.chdir(tmp_path)
    seen: list[bool] = []

    def run(targets: Sequence[str], settings: Settings, listen: object) -> Report:
        seen.append(settings.pictures)
        return clean()

    stub_engine(monkeypatch, run)
    return seen


def test_the_command_line_asks_for_pictures(taken: list[bool]) -> None:
    assert main.main(["scan", "a:x", "--pictures", "--output", "report.html"]) == 0
    assert main.main(["scan", "a:x", "--output", "report.html"]) == 0
    assert taken == [True, False]


def test_pictures_that_nothing_draws_are_refused(taken: list[bool], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["scan", "a:x", "--pictures"]) == 2
    assert taken == []
    assert "--pictures: only HTML reports show pictures: add --output report.html" in capsys.readouterr().err


def test_a_settings_file_may_ask_for_pictures_of_another_format(taken: list[bool], tmp_path: Path) -> None:
    (tmp_path / "dataguard.toml").write_text("pictures = true", encoding="utf-8")
    assert main.main(["scan", "a:x"]) == 0
    assert main.main(["scan", "a:x", "--output", "report.html"]) == 0
    assert taken == [False, True]


def test_pillow_is_asked_for_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataguard.engine.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="pip install pillow"):
        scan("tests.support.targets:loader", Settings(pictures=True))
