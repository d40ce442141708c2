"""What docs/ci.md says to paste is run here, as far as that goes without the servers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser import JUnitXml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from dataguard.render.text import render
from tests.support.sample_reports import DOCS, full

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
SNIPPETS: list[Any] = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
ACTION: dict[str, Any] = yaml.safe_load(
    (ROOT / ".github" / "actions" / "dataguard" / "action.yml").read_text(encoding="utf-8")
)
GITHUB = ROOT / ".github"
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOOK: dict[str, Any] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))[0]
SETTINGS = '[tool.dataguard]\ntargets = ["data:make_loaders"]\nselect = ["DG001"]\n'
LOADERS = """
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        raise ValueError("no such file")

def make_loaders():
    return {"train": DataLoader(Numbers(), batch_size=2)}
"""


def commands() -> Iterator[tuple[str, str]]:
    """Every command line of ours on the page, in the hook and in the action, by where it stands."""
    for step in ACTION["runs"]["steps"]:
        if "dataguard scan" in step.get("run", ""):
            yield (
                "github",
                step["run"].replace("python -m dataguard", "dataguard").replace("${{ inputs.arguments }} ", ""),
            )
    for snippet in (one for one in SNIPPETS if isinstance(one, dict)):
        for step in snippet["jobs"]["scan"]["steps"] if "jobs" in snippet else ():
            if str(step.get("run", "")).startswith("dataguard"):
                yield "github", step["run"]
        for line in snippet["dataguard"]["script"] if "dataguard" in snippet else ():
            if line.startswith("dataguard"):
                yield "gitlab", line
        for repo in snippet.get("repos", ()):
            yield "pre-commit", repo["hooks"][0]["entry"]
    yield "hook", " ".join([HOOK["entry"], *HOOK["args"]])


COMMANDS = dict(commands())


def test_every_service_has_a_command() -> None:
    assert set(COMMANDS) == {"github", "gitlab", "pre-commit", "hook"}


def test_the_local_hook_is_that_of_the_repository() -> None:
    (local,) = [repo["hooks"][0] for snippet in SNIPPETS if "repos" in snippet for repo in snippet["repos"]]
    same = ("id", "name", "language", "types", "pass_filenames", "require_serial")
    assert {key: local[key] for key in same} == {key: HOOK[key] for key in same}
    assert local["entry"].startswith(COMMANDS["hook"])


@pytest.mark.scan
@pytest.mark.parametrize("place", COMMANDS)
def test_a_command_of_the_page_runs(place: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "data.py").write_text(LOADERS, encoding="utf-8")
    script = re.sub(r"^dataguard\b", f"{sys.executable} -m dataguard", COMMANDS[place])
    outcome = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "GITHUB_STEP_SUMMARY": str(tmp_path / "step_summary_0")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (outcome.returncode, outcome.stderr) == (1, "")
    assert "DG001-crashing-loader[train]" in outcome.stdout
    if place == "github":
        assert "::error file=data.py" in outcome.stdout
        assert (tmp_path / "step_summary_0").read_text(encoding="utf-8").startswith("## dataguard: 1 failed")
    if place == "gitlab":
        assert JUnitXml.fromfile(str(tmp_path / "dataguard.xml")).failures == 1
    if place in ("github", "gitlab"):
        (found,) = json.loads((tmp_path / "dataguard.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]
        assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "data.py"


class TestProblemMatcher:
    FILE = resources.files("dataguard") / "render" / "ci" / "problem_matcher.json"
    MATCHERS: Any = json.loads(FILE.read_text(encoding="utf-8"))["problemMatcher"]

    @pytest.mark.parametrize("unicode", [True, False])
    def test_it_finds_the_summary_lines_of_a_report(self, unicode: bool) -> None:
        report = render(full(), DOCS, unicode=unicode).splitlines()
        found = []
        for matcher in self.MATCHERS:
            (pattern,) = matcher["pattern"]
            for line in report:
                if match := re.fullmatch(pattern["regexp"].strip("^$"), line):
                    groups = [match[pattern[key]] for key in ("code", "file", "line", "message")]
                    found.append((matcher["severity"], *groups[:3]))
        assert [(severity, code, Path(file).name, line) for severity, code, file, line in found] == [
            ("error", "DG003", "lmdb_reader.py", "9"),
            ("error", "DG101", "data.py", "41"),
        ]

    def test_the_command_of_the_page_prints_its_path(self) -> None:
        (step,) = [step for snippet in SNIPPETS if isinstance(snippet, list) for step in snippet]
        outcome = subprocess.run(
            ["bash", "-c", step["run"].replace("$(python ", f"$({sys.executable} ")],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert outcome.stdout == f"::add-matcher::{self.FILE}\n"


def test_our_own_jobs_run_what_the_package_says_that_it_supports() -> None:
    jobs = yaml.safe_load((GITHUB / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    matrix = jobs["quick"]["strategy"]["matrix"]
    assert f">={matrix['python'][0]}" == PROJECT["requires-python"]
    (torch,) = [one.removeprefix("torch>=") for one in PROJECT["dependencies"] if one.startswith("torch>=")]
    assert {one["torch"] for one in matrix["include"]} == {torch}
    assert {one["os"] for one in matrix["include"]} == set(matrix["os"]) == {"ubuntu-latest", "macos-latest"}
    assert {"run": ".ci/run"} in jobs["whole"]["steps"]


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_asks_for_the_report_and_the_versions(form: Path) -> None:
    fields = {field["id"]: field for field in yaml.safe_load(form.read_text(encoding="utf-8"))["body"]}
    assert {"report", "versions", "loader"} <= set(fields)
    assert "--format json --output report.json" in fields["report"]["attributes"]["description"]
    assert "dataguard --version" in fields["versions"]["attributes"]["description"]
