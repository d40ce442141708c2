"""The HTML pages: golden files, nothing of the user's that is markup, and small whatever a report holds.

`DATAGUARD_REGOLD=1 pytest tests/render/test_html.py` writes the golden files anew.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dataguard.core.figures import Box, Figure, Line, Matrix, Picture, Pictures, Plot, Span, Swatches, Timeline
from dataguard.core.model import Finding, Location, Severity, Status
from dataguard.measured import Timed
from dataguard.render.formats import renderer
from dataguard.render.html.figures import Axis, FigureRenderer, drawn, thinned
from dataguard.render.html.pages import throughput
from dataguard.render.html.templating import highlighted
from dataguard.report import Report
from tests.support import sample_figures
from tests.support.benches import FOUR, NONE, OWN, bench, timed
from tests.support.sample_reports import DOCS, clean, empty, full, many, result, undecided

GOLDEN = Path(__file__).parents[1] / "golden"
render = renderer("scan", "html")
render_bench = renderer("bench", "html")
EVIL = '<script>alert("1")</script>\'"&\x1b[31m\u202e\x00\udcff\n</style><img src=x onerror=alert(1)>'
VOID = ("meta", "img", "br")


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Outline(HTMLParser):
    """What a document consists of; refuses tags that do not nest."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All text, with single spaces."""
        return " ".join(" ".join(self.words).split())

    def values(self, name: str) -> list[str]:
        """The values of all attributes of a name."""
        return [value for attribute, value in self.attributes if attribute == name]


def of(*findings: Finding, figures: tuple[Figure, ...] = (), **changes_: Any) -> Report:
    """A report of one failed check."""
    failed = replace(result("DG101", "train", Status.FAILED, *findings), figures=figures)
    return replace(empty(), results=(failed,), **changes_)


PAGES: dict[str, Callable[[], str]] = {
    "html_report.html": lambda: render(full(), DOCS),
    "html_figures.html": lambda: render(of(Finding("seen"), figures=sample_figures.every()), {}),
    "html_bench.html": lambda: render_bench(
        bench(timed(NONE, *[0.2] * 4), timed(OWN, *[0.1, 0.11] * 4), timed(FOUR, *[0.05, 0.051] * 4))
    ),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_the_golden_one(name: str) -> None:
    text = re.sub(r"<style>.*?</style>", "<style></style>", PAGES[name](), flags=re.DOTALL)  # a file of its own
    text = re.sub(r"'sha256-[^']*'", "'sha256-'", text)
    path = GOLDEN / name
    if os.environ.get("DATAGUARD_REGOLD"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_no_golden_page_is_left_over() -> None:
    assert {path.name for path in GOLDEN.glob("html_*")} == set(PAGES)


class TestReport:
    def test_it_says_what_the_text_report_says(self) -> None:
        text = Outline(render(full(), DOCS)).text
        for words in (
            "6 failed 4 errors, 1 warning, 1 note",
            "1 broken 3 passed 1 expected 1 inconclusive 1 not run 6 not applicable",
            "no progress for 20 s while reading a sample, index 3, worker 1",
            "mypkg/data.py:41 in Crops.__getitem__",
            "odds of a coincidence 1.3e-11",
            "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … 30 more",
            "A generator that the dataset owns is copied into every worker",
            "python -m dataguard scan mypkg.data:make_loaders --select DG101 --seed 0 --workers 2 --samples 256",
            "2 more findings",
            "Note: seen in 4 of 4 batches",
            "curriculum: the order is meant order is the dataset's own in 2 epochs",
            "the budget of 60 s was used up after 12 of 64 draws DG306-shifting-label [train]",
            "A bug in dataguard, not in your code.",
            "roles.vall: no loader named 'vall'; did you mean 'val'?",
            "DG501-non-finite-sample train 256 samples, 1,024 leaves 2.0 s",
            "DG204-lost-samples, DG205-wrong-stream-length, DG208-starved-worker [train]",
            "would break under spawn DG105-unspawnable-dataset [train]",
            "numpy: 2.4.6",
        ):
            assert words in text

    def test_the_worst_comes_first(self) -> None:
        text = Outline(render(full(), DOCS)).text
        order = ["error DG003", "error DG101", "error DG401", "warning DG406", "note DG803", "Broken", "Expected"]
        places = [text.index(word) for word in order]
        assert places == sorted(places)

    def test_loaders_that_failed_alike_share_a_text(self) -> None:
        assert Outline(render(full(), DOCS)).text.count("odds of a coincidence") == 1

    @pytest.mark.parametrize(
        ("report", "words"),
        [
            (clean, "✓ No findings 2 passed"),
            (undecided, "? No check reached a verdict"),
            (empty, "? No check ran: none was selected"),
        ],
    )
    def test_without_findings_it_says_why(self, report: Callable[[], Report], words: str) -> None:
        assert words in Outline(render(report(), DOCS)).text

    def test_a_broken_check_never_reads_as_nothing_found(self) -> None:
        broken = replace(clean(), results=(*clean().results, result("DG502", "loader", Status.BROKEN, reason="x")))
        page = Outline(render(broken, DOCS))
        assert "1 broken a bug in dataguard" in page.text
        assert "No findings" not in page.text

    def test_every_list_that_is_not_failed_has_its_place(self) -> None:
        stale = result("DG301", "x", Status.PASSED, reason="expected to fail (why), but it passes: remove it")
        drawn_ = replace(result("DG302", "x", Status.PASSED), figures=(sample_figures.memory(),))
        known = result("DG101", "x", Status.EXPECTED, Finding("cloned"), reason="known")
        known = replace(known, figures=(sample_figures.contact_sheet(),))
        page = Outline(render(replace(empty(), results=(stale, drawn_, known)), DOCS))
        for words in ("Passed, but expected to fail", "Memory of each process", "1 figure", "6 images of samples"):
            assert words in page.text

    def test_ascii_reads_the_same(self) -> None:
        page = render(full(), DOCS, unicode=False)
        assert page.isascii()
        assert Outline(page).text == Outline(render(full(), DOCS)).text

    def test_anchors_exist_and_ids_are_unique(self) -> None:
        page = Outline(render(of(Finding("x"), figures=sample_figures.every()), DOCS))
        ids = page.values("id")
        assert len(ids) == len(set(ids))
        named = [value for key in ("aria-labelledby", "aria-describedby") for value in page.values(key)]
        links = [value[1:] for value in page.values("href") if value.startswith("#")]
        assert links
        assert {*named, *links} <= set(ids)


class TestSafety:
    def test_nothing_of_the_user_is_markup(self) -> None:
        finding = Finding(EVIL, {EVIL: EVIL, "nested": {EVIL: [EVIL] * 20}}, Location(EVIL, 1, EVIL), EVIL)
        figures = (
            Pictures(
                EVIL, EVIL, (EVIL,), (EVIL,), ((Picture(sample_figures.scene(0), EVIL, (Box(0, 0, 1, 1, EVIL),)),),)
            ),
            Swatches(EVIL, EVIL, (EVIL,), ((EVIL, (0.5,)),)),
            Matrix(EVIL, EVIL, (EVIL,), (EVIL,), ((1,),)),
            Plot(EVIL, EVIL, EVIL, EVIL, (Line(EVIL, ((0, 0), (1, 1))), Line(EVIL, ((0, 1),)))),
            Timeline(EVIL, EVIL, ((EVIL, (Span(0, 1, EVIL, EVIL),)),)),
        )
        harmless = set(Outline(render(of(Finding("x"), figures=sample_figures.every()), DOCS)).tags)
        rest = [replace(result("DG301", EVIL, status, reason=EVIL), findings=(finding,)) for status in Status]
        report = of(finding, figures=figures, targets=(EVIL,), notes=(EVIL,), environment={EVIL: EVIL})
        report = replace(report, results=(*report.results, *rest))
        page = render(report, DOCS)
        outline = Outline(page)
        assert set(outline.tags) <= harmless | {"ol", "ul", "li", "pre", "dl", "dt", "dd"}
        assert "script" not in outline.tags
        assert not [name for name, _ in outline.attributes if name.startswith("on") or name == "style"]
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", page)
        assert page.encode("utf-8")
        assert "\\x1b[31m\\u202e\\x00\\udcff" in outline.text

    @given(words=st.text(max_size=80))
    @hypothesis_settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_whatever_users_say_is_text(self, words: str) -> None:
        report = of(Finding(words, {words: words}, Location(words, 1, words), words), targets=(words,), notes=(words,))
        plain = Outline(render(of(Finding("x", {"x": "x"}, Location("x", 1, "x"), "x"), notes=("x",)), DOCS))
        page = render(report, DOCS)
        assert page.encode("utf-8")
        assert set(Outline(page).tags) <= {*plain.tags, "pre", "code"}

    def test_strings_of_any_length_are_cut(self) -> None:
        long = "ab/site-packages" * 640_000
        finding = Finding(long, {long: long, "lines": "x\n" * 1_000_000}, Location(long, 1, long), long)
        results = [
            result("DG101", long, Status.FAILED, finding),
            *(result("DG301", long, status, reason=long) for status in Status if status is not Status.FAILED),
        ]
        page = render(replace(empty(), results=tuple(results), targets=(long,), notes=(long,)), DOCS)
        assert len(page) < 200_000
        assert "more characters" in page

    def test_the_page_loads_nothing_and_runs_nothing(self) -> None:
        page = Outline(render(of(Finding("x"), figures=sample_figures.every()), DOCS))
        (policy,) = [value for value in page.values("content") if "default-src" in value]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy
        assert all(source.startswith("data:image/png;base64,") for source in page.values("src"))
        assert not {"script", "link", "iframe", "object"} & set(page.tags)
        assert not page.values("style")


class TestSize:
    def test_200_findings_fit_into_a_megabyte(self) -> None:
        assert len(render(many(), DOCS).encode()) < 1e6

    def test_so_they_do_with_charts(self) -> None:
        charts = lambda _: (sample_figures.orders(5_000), sample_figures.timeline())  # noqa: E731
        assert len(render(many(charts), DOCS).encode()) < 1e6

    def test_images_fit_into_five_megabytes_and_those_left_out_are_counted(self) -> None:
        images = [sample_figures.noise(seed) for seed in range(12)]

        def sheet(number: int) -> tuple[Figure, ...]:
            cells = tuple(
                tuple(Picture(images[(4 * number + row + n) % 12], "item") for n in range(2)) for row in range(2)
            )
            return (Pictures(f"sheet {number}", "Four photographs.", ("a", "b"), ("c", "d"), cells),)

        page = render(many(sheet), DOCS)
        assert len(page.encode()) < 5e6
        outline = Outline(page)
        shown = len(outline.values("src"))
        assert 0 < shown < 200
        assert f"contains {shown} images of samples. {200 - shown} images of less severe" in outline.text
        assert outline.text.count("4 images left out") == (200 - shown) // 4
        assert "4 images left out" not in outline.text[: outline.text.index("sheet 1 ")]

    def test_findings_of_one_check_are_limited(self) -> None:
        page = Outline(render(of(*(Finding(f"finding {n}") for n in range(10_000))), DOCS))
        assert "9,950 more findings: the JSON report has all" in page.text


class TestFigures:
    def test_equal_images_have_the_same_letter(self) -> None:
        page = Outline(render(of(Finding("x"), figures=(sample_figures.contact_sheet(),)), {}))
        assert page.text.count("identical: A") == page.text.count("identical: C") == 2
        assert "Images with the same letter are identical." in page.text
        assert "worker 1, epoch 2: item 17" in page.values("alt")

    def test_a_report_without_images_says_so(self) -> None:
        page = Outline(render(of(Finding("x"), figures=(sample_figures.sweep(),)), {}))
        assert "This report contains no images of your data." in page.text

    def test_every_figure_has_its_words(self) -> None:
        page = Outline(render(of(Finding("x"), figures=sample_figures.every()), {}))
        for figure in sample_figures.every():
            assert f"{figure.title} {figure.summary}" in page.text

    @pytest.mark.parametrize(
        "figure",
        [
            Pictures("t", "s", (), (), ()),
            Pictures("t", "s", ("a",), ("b", "c"), ((Picture(b"", ""),),)),
            Swatches("t", "s", (), ()),
            Swatches("t", "s", ("v",), (("a", (math.nan,)), ("b", (-1.0,)), ("c", (math.inf,)))),
            Matrix("t", "s", (), (), ()),
            Matrix("t", "s", ("a",) * 99, ("b",) * 99, ((0,) * 99,) * 99),
            Plot("t", "s", "x", "y", ()),
            Plot("t", "s", "x", "y", (Line("a", ()), Line("b", ((0, math.nan), (math.inf, 1))))),
            Plot("t", "s", "x", "y", (Line("a", ((5, 1e-12),)), Line("b", ((5, 1e-12),))), joined=False),
            Plot("t", "s", "x", "y", tuple(Line("a", ((1, 1e300), (2, -1e300)), ((0, 1), (1, 2))) for _ in range(9))),
            Timeline("t", "s", ()),
            Timeline("t", "s", (("a", ()), ("b", tuple(Span(n, n, f"kind {n % 7}") for n in range(999))))),
        ],
    )
    def test_odd_figures_are_drawn(self, figure: Figure) -> None:
        page = Outline(render(of(Finding("x"), figures=(figure,)), {}))
        assert "figure" in page.tags
        drawn_at = [value for name, value in page.attributes if name in ("x", "y", "width", "height", "d", "points")]
        assert not [value for value in drawn_at if re.search("nan|inf", value)]

    def test_an_axis_has_round_ticks(self) -> None:
        assert [words for _, words in Axis.over([0, 1999]).ticks()] == ["0", "500", "1,000", "1,500"]
        assert [words for _, words in Axis.over([0.13, 0.42], zero=True).widened().ticks()][-1] == "0.5"
        assert [words for _, words in Axis.over([0, 1, 2]).ticks()] == ["0", "1", "2"]
        assert Axis.over([3, 3]).share(3) == 1.0

    def test_extremes_survive_thinning(self) -> None:
        points = [(float(n), 99.0 if n == 777 else 0.0) for n in range(10_000)]
        kept = thinned(points, 100)
        assert (777.0, 99.0) in kept
        assert len(kept) <= 100
        assert kept == sorted(kept)
        assert len(drawn(points, 100)) == 100

    def test_many_charts_share_the_points(self) -> None:
        studio = FigureRenderer([sample_figures.orders(3_000)] * 100)
        view = studio.draw(sample_figures.orders(3_000))
        assert view["note"] == "60 points of each series are drawn"


class TestBench:
    def test_the_verdict_stands_with_its_numbers(self) -> None:
        now = bench(timed(OWN, *[0.2] * 8), timed(FOUR, *[0.05] * 8))
        text = Outline(render_bench(now)).text
        assert "4 workers is fastest: 4.02 times" in text
        assert "Samples per second by number of workers" in text
        assert "2 workers (yours)" in text

    def test_the_chart_is_of_samples_per_second(self) -> None:
        plot = throughput(bench(timed(FOUR, 0.04, 0.05, 0.08), timed(OWN, 0.1), Timed(NONE, failed="x")).loaders[0])
        assert plot is not None
        (line,) = plot.lines
        assert line.points == ((2.0, 80.0), (4.0, 160.0))
        assert line.spread == ((80.0, 80.0), (100.0, 200.0))

    def test_a_single_setting_has_no_chart(self) -> None:
        made = bench(timed(OWN, 0.1), Timed(FOUR, failed=EVIL))
        assert throughput(made.loaders[0]) is None
        assert "4 workers: not measured: <script>" in Outline(render_bench(made)).text


class TestNotebook:
    def test_it_is_the_report_without_a_document(self) -> None:
        body = full()._repr_html_()
        outline = Outline(body)
        assert "6 failed 4 errors" in outline.text
        assert not {"html", "body", "head", "meta", "title", "main"} & set(outline.tags)

    def test_its_style_ends_at_its_border(self) -> None:
        (style,) = re.findall(r"<style>(.*?)</style>", full()._repr_html_(), re.DOTALL)
        depth, selectors = 0, []
        for piece in re.split(r"([{}])", re.sub(r"@media print \{(.*)\}\s*$", r"\1", style, flags=re.DOTALL)):
            depth += {"{": 1, "}": -1}.get(piece, 0)
            if depth == 0 and piece not in "{}" and piece.strip():
                selectors.append(piece.strip())
        assert selectors
        assert [one for one in selectors if ".dataguard" not in one and one != "@page"] == []


def test_the_severities_all_have_a_colour() -> None:
    page = render(full(), DOCS)
    for severity in Severity:
        assert f".badge.{severity.value}" in page


def test_underlined_columns_are_marked_and_nothing_of_them_is_markup() -> None:
    here = "here" + " " * 16 + "^"
    row = f"token     <b>   7   0\nlabel       1   7   0\n{here}"
    marked = ["token     &lt;b&gt;   7   <mark>0</mark>", "label       1   7   <mark>0</mark>", here]
    assert highlighted(row).splitlines() == marked
    assert str(highlighted("<i>\nno columns")) == "&lt;i&gt;\nno columns"
