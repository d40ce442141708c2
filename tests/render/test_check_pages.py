"""The pages of the checks are the docstrings of their judges, and nothing else.

A stale page is renewed with `python -m tests.pages`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dataguard.checks import CATALOGUE
from dataguard.model import Check
from dataguard.render import check_pages
from tests.support.sample_reports import CATALOGUE as SAMPLES

PAGES = Path(__file__).parents[2] / "docs" / "checks"


@pytest.mark.parametrize("name", sorted(check_pages.pages(CATALOGUE)))
def test_a_page_is_current(name: str) -> None:
    assert (PAGES / name).read_text(encoding="utf-8") == check_pages.pages(CATALOGUE)[name]


def test_no_page_is_left_over() -> None:
    assert {path.name for path in PAGES.glob("*.md")} == set(check_pages.pages(CATALOGUE))


@pytest.mark.parametrize("check", CATALOGUE, ids=lambda check: check.id)
def test_a_docstring_reads_well_as_markdown(check: Check) -> None:
    doc = check.doc
    assert doc.summary.endswith(".")
    assert all(link.startswith("https://") for link in doc.links)
    for section in (doc.summary, doc.symptom, doc.cause, doc.fix):
        outside_code = re.sub(r"```.*?```|`[^`]*`|^    .*$", "", section, flags=re.DOTALL | re.MULTILINE)
        assert "`" not in outside_code, "a backtick is not closed"
        assert not re.search(r"__\w|\*\w", outside_code), "Markdown would read this as emphasis: put it into backticks"


def test_every_code_belongs_to_a_group() -> None:
    assert {check.code[2] for check in CATALOGUE} <= set(check_pages.GROUPS)


def test_the_index_groups_and_links_every_check() -> None:
    index = check_pages.pages(SAMPLES)["index.md"]
    assert "## Workers and randomness" in index
    for check in SAMPLES:
        assert f"| [{check.id}]({check.stem}.md) | {check.severity.value} | {check.doc.summary} |" in index
