"""The HTML pages in a real browser: accessible, readable on a phone, foldable by keyboard, printed whole, offline."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from dataguard.checks import CATALOGUE
from dataguard.core.model import Finding, Location, Result, Status
from dataguard.machine.checkup import Checkup
from dataguard.machine.machine import Machine
from dataguard.measured import Advice
from dataguard.render.formats import renderer
from dataguard.report import Report
from tests.support import sample_figures
from tests.support.benches import FOUR, NONE, OWN, bench, timed
from tests.support.sample_reports import DOCS, full

pytestmark = pytest.mark.scan

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE: dict[str, Any] = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
LONG = "a/very/long/path/of/one/word/" * 12

TOKENS = "column " + "".join(f"{n:>4}" for n in range(40)) + "\ntoken  " + "   0" * 40 + "\nhere   " + "   ^" * 40


def illustrated() -> Report:
    """Every status and every figure, and names that are wider than a phone."""
    report = full()
    results: list[Result] = [
        replace(result, figures=sample_figures.every()) if result.code == "DG401" else result
        for result in report.results
    ]
    wide = Finding(LONG, {LONG: LONG, "matrix": {LONG: [LONG] * 3}, "py_random": TOKENS})
    results.append(replace(results[0], code="DG201", name="unsharded-workers", loader=LONG, findings=(wide,)))
    results.append(replace(results[0], status=Status.PASSED, loader=LONG, findings=()))
    cause = Finding("workers draw the same numbers", {"fix here": "a generator"}, at=Location("data.py", 7, "Data"))
    for code, name in (("DG101", "cloned-worker-rng"), ("DG102", "replayed-epoch")):
        results.append(replace(results[0], code=code, name=name, loader="test", findings=(cause,)))
    return replace(report, results=tuple(results), targets=(LONG,))


PAGES = {
    "scan": lambda: renderer("scan", "html")(illustrated(), DOCS),
    "bench": lambda: renderer("bench", "html")(
        bench(
            *(timed(NONE, *[0.2] * 4), timed(OWN, *[0.1, 0.11] * 4), timed(FOUR, *[0.05, 0.051] * 4)),
            advice=Advice(
                *(FOUR, "train.py:7", ("-" + LONG, "+" + LONG), "train.py"),
                (timed(OWN, *[0.1, 0.11] * 4), timed(FOUR, *[0.05, 0.051] * 4)),
            ),
        )
    ),
    "doctor": lambda: renderer("doctor", "html")(Checkup("0.1.0", Machine.read(), {})),
    "list": lambda: renderer("list", "html")(CATALOGUE),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if BROWSER is None:
        pytest.skip("no Chromium on this machine: `apt install chromium`, or Chrome")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages")
    for name, write in PAGES.items():
        (made / f"{name}.html").write_text(write(), encoding="utf-8")
    notebook = '<!doctype html><html lang="en"><title>n</title><body data-jp-theme-light="false">'
    notebook += f'<h1 id="own">A notebook</h1><table><tr><td id="cell">1</td></tr></table>{illustrated()._repr_html_()}'
    (made / "notebook.html").write_text(notebook, encoding="utf-8")
    return made


@contextmanager
def opened(browser: Browser, file: Path, *, width: int = 1200, scheme: Any = "light") -> Iterator[Page]:
    """The page of a file; it asks nothing of the network, and the console reports nothing."""
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    requests: list[str] = []
    reports: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: reports.append(message.text))
    page.on("pageerror", lambda error: reports.append(str(error)))
    page.goto(file.as_uri())
    yield page
    page.close()
    assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    assert reports == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_no_rule_of_accessibility_is_violated(browser: Browser, folder: Path, name: str, scheme: str) -> None:
    with opened(browser, folder / f"{name}.html", scheme=scheme) as page:
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        seen = Axe().run(page, options=AXE).response
        found = seen["violations"]
        assert "color-contrast" in {one["id"] for one in seen["passes"]}
    assert [(one["id"], one["impact"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found] == []


@pytest.mark.parametrize("name", [*PAGES, "notebook"])
def test_nothing_is_wider_than_a_phone(browser: Browser, folder: Path, name: str) -> None:
    with opened(browser, folder / f"{name}.html", width=360) as page:
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


BESIDE = """[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth)
    .map(one => one.innerText.slice(0, 80))"""
"""What a page shows only to those who scroll sideways."""


@pytest.mark.parametrize(("media", "width"), [("screen", 390), ("print", 690)])
@pytest.mark.parametrize("name", ["scan", "bench", "notebook"])
def test_no_figure_and_no_table_is_cut(browser: Browser, folder: Path, name: str, media: Any, width: int) -> None:
    with opened(browser, folder / f"{name}.html", width=width) as page:
        page.emulate_media(media=media)
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(BESIDE) == []


def test_columns_of_tokens_stay_aligned_on_a_phone(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "scan.html", width=390) as page:
        figure = page.locator("pre", has=page.locator("mark", has_text="0")).first
        assert figure.evaluate("one => one.clientHeight / parseFloat(getComputedStyle(one).lineHeight)") < 6
        assert figure.evaluate("one => getComputedStyle(one).overflowX") == "auto"


def test_codes_of_one_cause_stand_below_each_other(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "scan.html") as page:
        line = page.get_by_role("navigation").get_by_role("link", name="DG102")
        badges = line.locator(".badge")
        assert badges.all_inner_texts() == ["✗ DG101", "✗ DG102"]
        ends = badges.evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
        assert max(ends) < line.locator(".what").evaluate("one => one.getBoundingClientRect().left")


def test_names_keep_their_underscores(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "scan.html") as page:
        assert "py_random" in page.locator("dt").all_inner_texts()


def test_details_fold_by_keyboard(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "scan.html") as page:
        reached = set()
        for _ in range(80):
            page.keyboard.press("Tab")
            name = page.evaluate("document.activeElement.tagName")
            if name == "SUMMARY":
                words = page.evaluate("document.activeElement.textContent.trim()")
                open_ = "document.activeElement.parentElement.open"
                before = page.evaluate(open_)
                page.keyboard.press("Enter")
                assert page.evaluate(open_) != before
                page.keyboard.press("Enter")
                assert page.evaluate(open_) == before
                reached.add(words)
        assert {"2 more findings", "About DG401", "Not applicable", "Environment", "Settings"} <= reached


def test_a_line_of_the_summary_leads_to_its_finding(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "scan.html") as page:
        page.get_by_role("navigation").get_by_role("link", name="DG406").click()
        assert page.locator("article:target h3").inner_text().endswith("DG406-double-precision-batch")


def test_print_shows_what_is_folded(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "scan.html") as page:
        folded = page.get_by_text("would break under spawn")
        assert not folded.is_visible()
        page.emulate_media(media="print")
        assert folded.is_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_images_are_shown(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "scan.html") as page:
        sizes = page.evaluate("[...document.images].map(one => [one.naturalWidth, one.clientWidth > 40])")
        assert sizes
        assert all(width > 0 and seen for width, seen in sizes)


def test_a_notebook_keeps_its_style_and_gives_its_theme(browser: Browser, folder: Path) -> None:
    with opened(browser, folder / "notebook.html", scheme="light") as page:
        assert (
            page.evaluate("getComputedStyle(document.querySelector('#own')).fontFamily.includes('system-ui')") is False
        )
        assert page.evaluate("getComputedStyle(document.querySelector('#cell')).borderBottomWidth") == "0px"
        assert (
            page.evaluate("getComputedStyle(document.querySelector('.dataguard')).backgroundColor") == "rgb(20, 21, 23)"
        )
