"""The pages of the checks are the docstrings of their judges, and nothing else.

A stale page is renewed with `python -m tests.pages`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dataguard.checks import CATALOGUE
from dataguard.core.model import Check
from dataguard.render.check_pages import group_of
from tests.pages.check_index import NEEDS, found_in_public_code, pages
from tests.support.faces import settings_of
from tests.support.sample_reports import CATALOGUE as SAMPLES

PAGES = Path(__file__).parents[2] / "docs" / "checks"


@pytest.mark.parametrize("name", sorted(pages(CATALOGUE)))
def test_a_page_is_current(name: str) -> None:
    assert (PAGES / name).read_text(encoding="utf-8") == pages(CATALOGUE)[name]


def test_no_page_is_left_over() -> None:
    assert {path.name for path in PAGES.glob("*.md")} == set(pages(CATALOGUE))


@pytest.mark.parametrize("check", CATALOGUE, ids=lambda check: check.id)
def test_a_docstring_reads_well_as_markdown(check: Check) -> None:
    doc = check.doc
    assert doc.summary.endswith(".")
    assert all(link.startswith("https://") for link in doc.links)
    for section in (doc.summary, doc.symptom, doc.cause, doc.fix):
        outside_code = re.sub(r"```.*?```|`[^`]*`|^    .*$", "", section, flags=re.DOTALL | re.MULTILINE)
        assert "`" not in outside_code, "a backtick is not closed"
        assert not re.search(r"__\w|\*\w", outside_code), "Markdown would read this as emphasis: put it into backticks"


@pytest.mark.parametrize("check", CATALOGUE, ids=lambda check: check.code)
def test_a_check_belongs_to_one_group(check: Check) -> None:
    """A new one is added to `GROUPS` if its code begins as no other does."""
    assert group_of(check.code)


def test_the_catalogue_groups_and_links_every_check() -> None:
    index = pages(SAMPLES)["index.md"]
    assert "## Workers, randomness, reproducibility" in index
    for check in SAMPLES:
        assert f"| [{check.id}]({check.stem}.md) | {check.severity.value} | {check.doc.summary} |" in index


def test_checks_whose_samples_need_settings_do_not_run_by_default() -> None:
    asked = {check.code for check in CATALOGUE if settings_of(check)}
    # The samples of DG603 say that the machine is smaller; no setting gives DG802 its GPU.
    assert set(NEEDS) == asked - {"DG603"} | {"DG802"}


def test_findings_in_public_code_are_counted_without_planted_ones() -> None:
    found = found_in_public_code()
    assert found["DG101"] >= 2  # albumentations, and imgaug in a repository
    assert not found["DG422"]  # planted
    assert set(found) <= {check.code for check in CATALOGUE}
