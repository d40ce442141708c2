"""Whatever the documents say twice, or say of the code, is compared here."""

from __future__ import annotations

import json
import re
from dataclasses import Field, fields
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from dataguard.checks import CATALOGUE
from dataguard.cli.main import dataguard as command_line
from dataguard.pytest_plugin.plugin import OPTIONS
from dataguard.settings.settings import Settings
from tests.ecosystem.entries import ENTRIES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]


def block(text: str, name: str) -> str:
    """What stands in the fenced block between two markers."""
    found = re.search(rf"<!-- {name}:begin -->\n```\w*\n(.*?)```\n<!-- {name}:end -->", text, re.DOTALL)
    assert found, f"there is no block {name}"
    return found[1]


def test_the_readme_sets_up_in_two_commands_and_ci_runs_the_second() -> None:
    scan, test = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert scan.endswith("dataguard scan sample_datasets.images:make_folder")
    assert test in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_the_page_of_settings_shows_the_help_of_scan() -> None:
    outcome = CliRunner().invoke(command_line, ["scan", "--help"], prog_name="dataguard", terminal_width=100)
    # Versions of click break lines differently; the words are what must agree.
    assert block(SETTINGS, "help").split() == outcome.output.split()


def test_the_readme_shows_a_report() -> None:
    report = block(README, "report")
    assert "sample_datasets." in report
    assert re.search(r"^. (error|warning|note)", report, re.MULTILINE)


def test_the_page_of_detection_shows_what_was_measured() -> None:
    from tests.bench import detection  # loads torch

    assert detection.PAGE.read_text(encoding="utf-8") == detection.page()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_checks_named_in_a_document_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = [urlsplit(link) for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    assert [link.path for link in links if not link.scheme and not (document.parent / link.path).exists()] == []
    named = set(re.findall(r"\bDG\d{3}\b", text))
    assert named <= {check.code for check in CATALOGUE}


@pytest.mark.parametrize("field", fields(Settings), ids=lambda field: str(field.name))
def test_every_setting_stands_in_the_table_with_its_default_and_options(field: Field[object]) -> None:
    rows = [line for line in SETTINGS.splitlines() if line.startswith("|")]
    (row,) = [row for row in rows if f"`{field.name}`" in row.split("|")[1]]
    if field.name in ("checks", "contract"):
        return
    if isinstance(field.default, int | float | str):
        assert f"`{json.dumps(field.default)}`" in row
    flags = [f"`--{option.flag}`" for option in OPTIONS if option.setting == field.name]
    assert re.findall(r"`--dataguard[\w-]*`", row) == flags


def test_every_option_of_scan_stands_in_the_documents() -> None:
    flags = {flag for option in command_line.commands["scan"].params for flag in option.opts if flag.startswith("--")}
    documents = SETTINGS + README
    assert [flag for flag in sorted(flags) if flag not in documents] == []


def test_every_public_library_of_the_list_stands_on_its_page() -> None:
    page = (ROOT / "docs" / "ecosystem.md").read_text(encoding="utf-8")
    assert [entry.factory for entry in ENTRIES if f"| `{entry.factory}` | {entry.library} " not in page] == []
