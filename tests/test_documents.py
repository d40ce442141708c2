"""Whatever the documents say twice, or say of the code, is compared here."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from dataguard.checks import CATALOGUE
from dataguard.core.model import DOCS, ISSUES, PACKAGE, REPOSITORY, Check
from tests.ecosystem.entries import ENTRIES
from tests.ecosystem.page import RESEARCH
from tests.pages import gallery
from tests.pages.findings import findings
from tests.pages.reference import reference
from tests.pages.report_image import described, drawn, scanned

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TWINS = runpy.run_path(str(ROOT / "docs" / "site" / "twins.py"))["twins"]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *(path for folder in ("docs", ".github") for path in sorted((ROOT / folder).rglob("*.md"))),
]


def test_the_readme_sets_up_in_two_commands_and_ci_runs_the_second() -> None:
    scan, test = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert scan.endswith("dataguard scan sample_datasets.images:make_folder")
    assert test in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


@pytest.mark.parametrize("name", ["cli.md", "api.md", "settings.md"])
def test_a_page_of_the_reference_is_current(name: str) -> None:
    """A stale one is renewed with `python -m tests.pages`."""
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == reference(ROOT / "docs")[name]


@pytest.mark.scan
def test_the_report_of_the_readme_is_that_of_a_scan() -> None:
    """A stale one is renewed with `python -m tests.pages`."""
    image = (ROOT / "docs" / "report.svg").read_text(encoding="utf-8")
    assert described(image) == described(drawn(scanned()))
    assert re.findall(r"(?:src|href)=|url\((?!#)", image) == []


def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    build = (sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "docs/site/mkdocs.yml", "-d", str(tmp_path))
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    for check in CATALOGUE:
        assert (tmp_path / check.page.removeprefix(f"{DOCS}/") / "index.html").is_file()
    listed = (tmp_path / "llms.txt").read_text(encoding="utf-8")
    assert f"- [In CI]({DOCS}/ci/): A scan needs no GPU" in listed
    example = (tmp_path / "checks" / "dg101_cloned_worker_rng" / "index.html").read_text(encoding="utf-8")
    assert example.index("<strong>Wrong</strong>") < example.index("<strong>Right</strong>")
    entries = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    weights = {entry["location"]: entry.get("boost", 1) for entry in entries}
    assert max(weight for place, weight in weights.items() if place.startswith("source/")) < 0.1
    assert weights["troubleshooting/#windows"] > weights["checks/"] > 0.1
    loaded = r"""<(?:script|img|link rel="(?:stylesheet|preload|icon)")[^>]*(?:src|href)=["']?(?:https?:)?//"""
    assert [page.name for page in tmp_path.rglob("*.html") if re.search(loaded, page.read_text("utf-8"))] == []


@pytest.mark.parametrize("check", CATALOGUE, ids=lambda check: check.code)
def test_a_page_of_the_site_shows_both_twins(check: Check) -> None:
    bad, good, both = TWINS(ROOT / "sample_datasets" / f"{check.stem}.py")
    assert "def bad(" in bad
    assert "def good(" in good
    assert not re.search(r"^def (bad|good)\b", both, re.MULTILINE)
    for code in (bad, good, both):
        compile(code, check.stem, "exec")


def test_addresses_and_the_name_are_those_of_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == PACKAGE
    assert project["urls"] == {
        "Documentation": DOCS,
        "Source": REPOSITORY,
        "Changelog": f"{REPOSITORY}/blob/main/CHANGELOG.md",
        "Issues": ISSUES,
    }
    assert f"site_url: {DOCS}/ " in (ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8")
    for name in ("README.md", "docs/getting_started.md"):
        assert f"\npip install {PACKAGE}\n" in (ROOT / name).read_text(encoding="utf-8")


def test_every_mention_of_the_repository_is_of_that_address() -> None:
    suffixes = {".md", ".toml", ".yml", ".yaml", ".py", ".cff"}
    folders = (".github", "dataguard", "docs", "tests")
    files = [*ROOT.glob("*.*"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    owner = re.escape(REPOSITORY.removeprefix("https://github.com/"))
    other = re.compile(rf"(?:github\.com/|uses: )(?!{owner}\b)[\w.<>-]+/{PACKAGE}\b\S*")
    mentions = {
        str(path.relative_to(ROOT)): other.findall(path.read_text(encoding="utf-8"))
        for path in files
        if path.suffix in suffixes and path != Path(__file__)
    }
    assert {name: found for name, found in mentions.items() if found} == {}


def test_the_page_of_detection_shows_what_was_measured() -> None:
    from tests.bench import detection  # loads torch

    assert detection.PAGE.read_text(encoding="utf-8") == detection.page()


def test_the_page_of_findings_shows_what_was_recorded() -> None:
    """A stale one is renewed with `python -m tests.pages`."""
    assert (ROOT / "docs" / "findings.md").read_text(encoding="utf-8") == findings()


def test_the_gallery_is_of_its_pictures_which_load_nothing() -> None:
    """Stale ones are renewed with `python -m tests.pages`."""
    assert (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8") == gallery.gallery()
    pictures = list(gallery.FOLDER.iterdir())
    assert {path.stem.upper() for path in pictures} == set(gallery.SHOWN)
    assert sum(path.stat().st_size for path in pictures) < 600_000
    for path in pictures:
        assert re.findall(r'(?:src|href)="(?!data:image/png;base64,)|url\(', path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_checks_named_in_a_document_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = [urlsplit(link) for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    assert [link.path for link in links if not link.scheme and not (document.parent / link.path).exists()] == []
    named = set(re.findall(r"\bDG\d{3}\b", text))
    assert named <= {check.code for check in CATALOGUE}


def test_the_research_code_on_the_page_is_counted() -> None:
    text = RESEARCH.read_text(encoding="utf-8")
    assert (ROOT / "docs" / "ecosystem.md").read_text(encoding="utf-8").endswith(text)
    for section in text.split("\n## "):
        repositories = re.findall(r"^\| `[\w./-]+` [0-9a-f]{7} \|", section, re.MULTILINE)
        found = {verdict: re.findall(rf"\((\d+)\) \*{verdict}\*", section) for verdict in ("true", "harmless", "false")}
        counts = ", ".join(f"{sum(map(int, loaders))} {verdict}" for verdict, loaders in found.items())
        assert f"{len(repositories)} repositories, " in section
        assert f"Findings: {counts}." in section


def test_every_public_library_of_the_list_stands_on_its_page() -> None:
    page = (ROOT / "docs" / "ecosystem.md").read_text(encoding="utf-8")
    assert [entry.factory for entry in ENTRIES if f"| `{entry.factory}` | {entry.library} " not in page] == []
