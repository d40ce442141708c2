"""Baselines: what identifies a finding, which results are known, new or vanished, and what the file looks like."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataguard import baseline
from dataguard.baseline import Baseline, culprit, identity
from dataguard.cli import main
from dataguard.core.model import Finding, Location, Result, Severity, Status, UsageError
from dataguard.report import Report
from dataguard.settings.settings import Settings, resolve
from tests.support.pytest_runs import LOADED
from tests.support.sample_reports import empty, result, stub_engine

TARGET = "mypkg.data:make_loaders"
RNG = Finding("workers 0 and 1 draw the same 32 values", at=Location("/a/b/data.py", 43, "dataset.rng"))
OTHER = Finding("workers 0 and 1 draw the same 32 values", at=Location("/a/b/data.py", 51, "dataset.other"))


@pytest.fixture(autouse=True)
def _empty_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def of(code: str, loader: str, status: Status, *findings: Finding, target: str = TARGET, **changes: Any) -> Result:
    return replace(result(code, loader, status, *findings, **changes), target=target)


def failed(*findings: Finding, **changes: Any) -> Result:
    return of("DG101", changes.pop("loader", "train"), Status.FAILED, *findings, **changes)


def baseline_of(*results: Result) -> Baseline:
    Path("known.json").write_text(baseline.written(report_of(*results), Baseline()), encoding="utf-8")
    return baseline.read("known.json")


def report_of(*results: Result) -> Report:
    return replace(empty(), results=results)


class TestIdentity:
    @pytest.mark.parametrize(
        ("finding", "expected"),
        [
            (RNG, "data.py dataset.rng"),
            (Finding("x", at=Location("C:\\project\\data.py", 3, "Crops.__getitem__")), "data.py Crops.__getitem__"),
            (Finding("batch['image'] of shape (8, 3) is float64"), "batch['image']"),
            (Finding("batch[1] and batch[2] differ"), "batch[1]"),
            (Finding("x", at=Location(None, None, "dataset.items[17].label")), "dataset.items[].label"),
            (Finding("dataset.rng draws", at=Location("d.py", 1, "dataset.rng")), "d.py dataset.rng"),
            (Finding("x", at=Location(None, None, "<function f at 0x7f12ab>")), "<function f at 0x>"),
            (Finding("3 of 8 samples are lost"), ""),
            (Finding("dataset and batch differ"), ""),
            (Finding("x", at=Location("/p/\udcff.py", 1)), "\\udcff.py"),
        ],
    )
    def test_the_culprit_is_a_name(self, finding: Finding, expected: str) -> None:
        assert culprit(finding) == expected

    def test_lines_counts_seeds_and_evidence_do_not_matter(self) -> None:
        moved = Finding("workers 3 and 4 draw the same 8 values", {"seed": 5}, Location("b/data.py", 99, "dataset.rng"))
        assert identity(failed(RNG), RNG) == identity(failed(moved), moved)

    def test_check_loader_target_and_culprit_do(self) -> None:
        others = [
            identity(of("DG102", "train", Status.FAILED, RNG), RNG),
            identity(failed(RNG, loader="val"), RNG),
            identity(failed(RNG, target="other.data:make"), RNG),
            identity(failed(OTHER), OTHER),
        ]
        assert len({identity(failed(RNG), RNG), *others}) == 5

    @pytest.mark.parametrize(
        ("target", "loader"),
        [
            (TARGET, "train"),
            (f"big={TARGET}", "train"),
            (f"big={TARGET}", "big.train"),
            (TARGET, "make_loaders.train"),
            (TARGET, f"{TARGET}.train"),
        ],
    )
    def test_it_is_the_same_for_one_target_and_for_several(self, target: str, loader: str) -> None:
        assert identity(failed(RNG, loader=loader, target=target), RNG) == identity(failed(RNG), RNG)

    def test_a_loader_that_is_its_target_has_one_name(self) -> None:
        names = [identity(failed(RNG, loader=name), RNG).loader for name in ("make_loaders", TARGET)]
        assert names == ["make_loaders", "make_loaders"]

    def test_scripts_and_objects_in_hand_are_targets_too(self) -> None:
        targets = ("run train.py --epochs 3", "loader=dataguard.settings.target_spelling:object_3", "")
        found = [identity(failed(RNG, target=target), RNG).target for target in targets]
        assert found == ["run train.py", "loader", ""]


class TestApplied:
    def test_a_known_finding_is_expected(self) -> None:
        known = baseline_of(failed(RNG))
        moved = replace(RNG, at=Location("data.py", 99, "dataset.rng"))
        seen = known.applied(failed(moved))
        assert (seen.status, seen.reason) == (Status.EXPECTED, "in the baseline known.json")
        assert seen.findings == (moved,)

    def test_a_new_finding_fails_without_the_known_ones(self) -> None:
        seen = baseline_of(failed(RNG)).applied(failed(RNG, OTHER, reason="seen in 4 batches"))
        assert (seen.status, seen.findings) == (Status.FAILED, (OTHER,))
        assert seen.reason == "seen in 4 batches; 1 more finding in the baseline known.json"

    def test_new_findings_that_are_mild_are_a_warning(self) -> None:
        seen = baseline_of(failed(RNG)).applied(failed(RNG, replace(OTHER, ambiguous=True)))
        assert seen.severity is Severity.WARNING

    def test_a_vanished_finding_is_reported_where_its_check_passes(self) -> None:
        seen = baseline_of(failed(RNG)).applied(of("DG101", "train", Status.PASSED))
        assert seen.stale
        assert seen.reason == (
            "expected to fail (in the baseline known.json), but it passes: update it with --write-baseline"
        )

    def test_a_vanished_finding_is_reported_where_others_are_left(self) -> None:
        known = baseline_of(failed(RNG, OTHER))
        assert known.applied(failed(OTHER)).reason == (
            "in the baseline known.json; no longer found: data.py dataset.rng; update it with --write-baseline"
        )
        new = known.applied(failed(Finding("x", at=Location(None, None, "dataset.new"))))
        assert new.status is Status.FAILED
        assert "no longer found: data.py dataset.other, data.py dataset.rng" in str(new.reason)

    @pytest.mark.parametrize("status", [Status.INCONCLUSIVE, Status.SKIPPED, Status.BROKEN, Status.EXPECTED])
    def test_what_was_not_decided_has_not_vanished(self, status: Status) -> None:
        seen = of("DG101", "train", status, reason="out of budget")
        assert baseline_of(failed(RNG)).applied(seen) == seen

    def test_other_checks_loaders_and_targets_are_untouched(self) -> None:
        known = baseline_of(failed(RNG))
        for seen in (
            of("DG102", "train", Status.FAILED, RNG),
            failed(RNG, loader="val"),
            failed(RNG, target="other.data:make"),
            of("DG101", "val", Status.PASSED),
        ):
            assert known.applied(seen) == seen


class TestFile:
    def test_it_is_sorted_with_one_finding_per_line_and_no_numbers(self) -> None:
        one = baseline.written(report_of(failed(OTHER, RNG), failed(RNG, loader="a")), Baseline())
        two = baseline.written(report_of(failed(RNG, loader="a"), failed(RNG, OTHER)), Baseline())
        assert one == two
        lines = [json.loads(line.rstrip(",")) for line in one.splitlines() if line.startswith("    {")]
        assert [(line["loader"], line["culprit"]) for line in lines] == [
            ("a", "data.py dataset.rng"),
            ("train", "data.py dataset.other"),
            ("train", "data.py dataset.rng"),
        ]
        assert lines[0]["check"] == "DG101-cloned-worker-rng"
        assert json.loads(one)["schema"] == baseline.SCHEMA

    def test_writing_it_anew_drops_what_vanished_and_keeps_what_was_not_judged(self) -> None:
        elsewhere, undecided = failed(RNG, target="other.data:make"), failed(RNG, loader="val")
        earlier = baseline_of(failed(RNG), elsewhere, undecided, of("DG102", "train", Status.FAILED, RNG))
        now = report_of(of("DG101", "train", Status.PASSED), of("DG101", "val", Status.INCONCLUSIVE, reason="x"))
        Path("known.json").write_text(baseline.written(now, earlier), encoding="utf-8")
        left = {(one.target, one.loader, one.check[:5]) for one in baseline.read("known.json").findings}
        assert left == {(TARGET, "val", "DG101"), (TARGET, "train", "DG102"), ("other.data:make", "train", "DG101")}

    def test_an_empty_one_is_valid(self) -> None:
        assert baseline_of().findings == frozenset()

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{", "Expecting property name"),
            ("[]", "expected a file with the schema urn:dataguard:baseline:1, got None"),
            ('{"schema": "urn:dataguard:report:1"}', "got 'urn:dataguard:report:1'"),
            ('{"schema": "urn:dataguard:baseline:1"}', "finding 1 needs target, loader, check, culprit"),
            ('{"schema": "urn:dataguard:baseline:1", "findings": [3]}', "finding 1 needs target"),
            ('{"schema": "urn:dataguard:baseline:1", "findings": [{"target": "a"}]}', "finding 1 needs target"),
            (
                '{"schema": "urn:dataguard:baseline:1", "findings": '
                '[{"target": "a", "loader": "b", "check": "c", "culprit": null}]}',
                "each a string",
            ),
            ("[" * 100_000, "nested too deeply"),
        ],
    )
    def test_a_bad_one_is_a_clear_error(self, text: str, message: str) -> None:
        Path("bad.json").write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=f"(?s)^baseline bad.json: .*{message}"):
            baseline.read("bad.json")

    def test_a_missing_one_says_how_to_write_it(self) -> None:
        with pytest.raises(UsageError, match=r"no such file; --write-baseline none\.json writes one"):
            baseline.read("none.json")

    def test_the_path_in_a_settings_file_is_relative_to_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        baseline_of(failed(RNG))
        Path("dataguard.toml").write_text('baseline = "known.json"', encoding="utf-8")
        assert baseline.read(resolve().baseline).file == "known.json"
        (tmp_path / "sub").mkdir()
        monkeypatch.chdir(tmp_path / "sub")
        assert baseline.read(resolve().baseline).file == str(tmp_path / "known.json")


class TestCommandLine:
    def run(self, monkeypatch: pytest.MonkeyPatch, report: Report, *options: str) -> int:
        def scan(targets: Sequence[str], settings: Settings, listen: object) -> Report:
            known = baseline.read(settings.baseline)
            return replace(report, results=tuple(map(known.applied, report.results)))

        stub_engine(monkeypatch, scan)
        return main.main(["scan", TARGET, *options])

    def test_a_written_baseline_makes_the_findings_known(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.run(monkeypatch, report_of(failed(RNG)), "--write-baseline", "known.json") == 0
        out, err = capsys.readouterr()
        assert "expected (1)" in out
        assert err == "dataguard: 1 known finding written to known.json\n"
        assert self.run(monkeypatch, report_of(failed(RNG)), "--baseline", "known.json") == 0
        assert self.run(monkeypatch, report_of(failed(RNG, OTHER)), "--baseline", "known.json") == 1
        assert "✗ DG101 train  data.py:51" in capsys.readouterr().out.replace("/a/b/", "")

    def test_writing_ignores_the_baseline_of_the_settings(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("dataguard.toml").write_text('baseline = "known.json"', encoding="utf-8")
        assert self.run(monkeypatch, report_of(failed(RNG)), "--write-baseline", "known.json") == 0
        assert self.run(monkeypatch, report_of(failed(RNG, OTHER)), "--write-baseline", "known.json") == 0
        assert len(baseline.read("known.json").findings) == 2
        assert self.run(monkeypatch, report_of(failed(RNG))) == 0

    @pytest.mark.parametrize("option", ["--baseline", "--write-baseline"])
    def test_a_bad_file_ends_the_run(
        self, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("bad.json").write_text("no", encoding="utf-8")
        assert self.run(monkeypatch, report_of(failed(RNG)), option, "bad.json") == 2
        assert "dataguard: error: baseline bad.json: " in capsys.readouterr().err

    def test_a_file_that_cannot_be_written_is_reported_before_the_scan(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.run(monkeypatch, report_of(failed(RNG)), "--write-baseline", "none/known.json") == 2
        assert "--write-baseline none/known.json: no such folder: none" in capsys.readouterr().err


@pytest.mark.scan
class TestFrontDoors:
    def test_command_line_pytest_and_python_share_a_baseline(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("data.py").write_text(LOADERS, encoding="utf-8")
        scan = ["scan", "data:make_loaders", "--select", "DG301,DG304"]
        assert main.main([*scan]) == 1
        assert main.main([*scan, "data:more", "--write-baseline", "known.json"]) == 0
        found = {(one.target, one.loader, one.check[:5]) for one in baseline.read("known.json").findings}
        assert found == {
            ("data:make_loaders", "train", "DG301"),
            ("data:make_loaders", "val", "DG301"),
            ("data:more", "more", "DG301"),
        }
        capsys.readouterr()
        assert main.main([*scan, "--baseline", "known.json"]) == 0
        assert "expected (2)" in capsys.readouterr().out
        shorter = LOADERS.replace('"val": loader(9)', '"val": loader(8)')
        Path("data.py").write_text(f"# a line more\n{shorter}", encoding="utf-8")
        options = [
            "--dataguard=data:make_loaders",
            "--dataguard-select=DG301",
            "--dataguard-baseline=known.json",
            "-rxX",
        ]
        outcome = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                *LOADED,
                *options,
            ],
            env={**os.environ, "PYTHONPATH": str(Path(baseline.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert outcome.returncode == 0, outcome.stdout
        assert re.search(r"XFAIL .*\[train\].* - in the baseline known\.json", outcome.stdout)
        assert re.search(r"XPASS .*\[val\].*in the baseline known\.json.*--write-baseline", outcome.stdout)


LOADERS = """
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return list(range(8))[index]

def loader(length):
    return DataLoader(Numbers(length), batch_size=2)

def make_loaders():
    return {"train": loader(9), "val": loader(9)}

def more():
    return loader(9)
"""
