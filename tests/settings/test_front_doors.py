"""Every setting is reached from the command line, from pytest and from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pytest

from dataguard.cli import main
from dataguard.core.model import Severity
from dataguard.pytest_plugin.plugin import OPTIONS
from dataguard.report import Report
from dataguard.settings.settings import Settings
from tests.support.sample_reports import clean, stub_engine

REACHED = {
    "targets": (["a:x", "b=c:y", "--arg", "k=1"], ("a:x(k=1)", "b=c:y(k=1)")),
    "select": (["a:x", "--select", "DG101,DG4", "--select", "ragged-collate"], ("DG101", "DG4", "ragged-collate")),
    "ignore": (["a:x", "--ignore", "DG406"], ("DG406",)),
    "samples": (["a:x", "--samples", "12"], 12),
    "all": (["a:x", "--all"], True),
    "budget": (["a:x", "--budget", "1.5"], 1.5),
    "timeout": (["a:x", "--timeout", "3"], 3.0),
    "import_timeout": (["a:x", "--import-timeout", "9"], 9.0),
    "seed": (["a:x", "--seed", "5"], 5),
    "workers": (["a:x", "--workers", "0"], 0),
    "start_method": (["a:x", "--start-method", "spawn"], "spawn"),
    "ranks": (["a:x", "--ranks", "3"], 3),
    "model": (["a:x", "--model", "a:net(depth=3)"], "a:net(depth=3)"),
    "loss": (["a:x", "--model", "a:net", "--loss", "torch.nn:MSELoss"], "torch.nn:MSELoss"),
    "step": (["a:x", "--model", "a:net", "--step", "a:step"], "a:step"),
    "fail_on": (["a:x", "--fail-on", "error"], Severity.ERROR),
    "fail_on_undecided": (["a:x", "--fail-on-undecided"], True),
    "expect": (["a:x", "--expect", "DG401[val]=a = b", "--expect", "DG101=c"], {"DG401[val]": "a = b", "DG101": "c"}),
    "baseline": (["a:x", "--baseline", "known.json"], "known.json"),
    "roles": (["a:x", "--role", "a=train", "--role", "b = val"], {"a": "train", "b": "val"}),
}
"""How each setting is spelled on the command line."""
COMMAND_LINE_ONLY = {
    "pictures": (["a:x", "--pictures", "--format", "html"], True),
}
"""A test session keeps nothing of a scan that was interrupted, and draws no report."""
FILES_ONLY = {
    "pythonpath": "as pytest's key: where the modules of a project are does not change from run to run",
    "checks": "a set is kept to by a whole project: it belongs into its file",
    "contract": "a table of many shapes: a file says it better than an option",
    "hypothesis": "hypothesis' own options say it under pytest, and a file anywhere",
    "overrides": "a table for each target: a file says it better than an option",
}
"""The settings that no option sets, and why."""


def test_every_setting_is_reached_by_both_front_doors_or_listed_with_a_reason() -> None:
    everything = {field.name for field in fields(Settings)}
    assert set(REACHED) | set(COMMAND_LINE_ONLY) | set(FILES_ONLY) == everything
    assert {option.setting for option in OPTIONS} - {"config", "args"} == set(REACHED)


@pytest.mark.parametrize("key", [*REACHED, *COMMAND_LINE_ONLY])
def test_the_command_line_reaches(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[Settings] = []

    def scan(targets: Sequence[str], settings: Settings, listen: object) -> Report:
        seen.append(settings)
        return clean()

    stub_engine(monkeypatch, scan)
    arguments, expected = {**REACHED, **COMMAND_LINE_ONLY}[key]
    assert main.main(["scan", *arguments]) == 0
    assert getattr(seen[0], key) == expected
