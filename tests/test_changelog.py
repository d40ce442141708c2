"""The changelog: a page that a person can read, and a fragment for each change since the last release."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from dataguard import __version__
from dataguard.checks import CATALOGUE

ROOT = Path(__file__).parents[1]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
FRAGMENTS = sorted(path for path in (ROOT / ".changelog").iterdir() if path.name != "README.md")
TYPES = "|".join(one["directory"] for one in SETTINGS["type"])
MOST_LINES = 60
"""Lines of a release: its reader decides in a minute whether to read on."""


def malformed(name: str, text: str) -> list[str]:
    """What is wrong with a fragment."""
    links = [urlsplit(link) for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    faults = {
        f"a name is +slug.type.md or number.type.md, where the type is {TYPES}": not re.fullmatch(
            rf"(\+[a-z0-9][a-z0-9_-]*|\d+)\.({TYPES})\.md", name
        ),
        "it is one paragraph": not text.strip() or "\n\n" in text.strip(),
        "towncrier adds the bullet": text.lstrip().startswith(("-", "*", "#")),
        "it ends a sentence": not text.rstrip().endswith((".", ")", "`")),
        "links are relative to the top": any(not one.scheme and not (ROOT / one.path).exists() for one in links),
        "it names no check that there is not": not set(re.findall(r"\bDG\d{3}\b", text))
        <= {check.code for check in CATALOGUE},
    }
    return [fault for fault, found in faults.items() if found]


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_is_well_formed(fragment: Path) -> None:
    assert malformed(fragment.name, fragment.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("orphan.fixed.md", "DG101 is silent."),
        ("+slug.mended.md", "DG101 is silent."),
        ("+slug.fixed.txt", "DG101 is silent."),
        ("+slug.fixed.md", "- DG101 is silent."),
        ("+slug.fixed.md", "DG101 is silent.\n\nDG102, too."),
        ("+slug.fixed.md", "DG100 is silent."),
        ("+slug.fixed.md", "See [this page](docs/no_such_page.md)."),
        ("+slug.fixed.md", ""),
    ],
)
def test_a_malformed_fragment_is_refused(name: str, text: str) -> None:
    assert malformed("+slug.fixed.md", "DG101 is silent.\n") == []
    assert len(malformed(name, text)) >= 1


def test_fragments_become_a_release(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9", "--date", "2030-01-01")
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert "## [9.9.9] - 2030-01-01" in built.stdout
    for fragment in FRAGMENTS:
        assert f"- {fragment.read_text(encoding='utf-8').split()[0]}" in built.stdout


def test_each_release_is_short_and_of_the_known_types() -> None:
    head, start, releases = CHANGELOG.partition(SETTINGS["start_string"])
    assert start
    assert head.startswith("# Changelog\n")
    versions = re.split(r"^## ", releases, flags=re.MULTILINE)[1:]
    assert versions[0].startswith(f"[{__version__}] - ")
    assert [version.splitlines()[0] for version in versions if len(version.splitlines()) > MOST_LINES] == []
    assert set(re.findall(r"^### (.+)", releases, re.MULTILINE)) <= {one["name"] for one in SETTINGS["type"]}
