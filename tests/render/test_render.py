"""Renderers: golden files for people, a schema for programs, and no way for user data to disturb either.

`DATAGUARD_REGOLD=1 pytest tests/render/test_render.py` writes the golden files anew.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError

from dataguard.checks import CATALOGUE
from dataguard.core.figures import LeafView, Picture, SampleView, SampleViews
from dataguard.core.model import (
    PREVENTED,
    SCHEMA,
    SCHEMA_VERSION,
    TO_DECLARE,
    Finding,
    Location,
    NotTested,
    Severity,
    SourceLines,
    Status,
    UsageError,
)
from dataguard.machine.checkup import Checkup
from dataguard.machine.machine import Machine
from dataguard.measured import Bench
from dataguard.render.formats import FORMATS, formats_of, renderer
from dataguard.render.text import render_result
from dataguard.report import Report
from tests.support.sample_figures import png
from tests.support.sample_reports import DOCS, clean, empty, full, result, undecided

GOLDEN = Path(__file__).parents[1] / "golden"
REPORTS = {"full": full, "clean": clean, "undecided": undecided, "empty": empty}
RENDER = {form: renderer("scan", form) for form in formats_of("scan")}
LOOKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "report_full_w80.txt": ("full", "text", {"width": 80}),
    "report_full_quiet.txt": ("full", "text", {"width": 80, "verbosity": -1}),
    "report_full_verbose.txt": ("full", "text", {"width": 100, "verbosity": 1}),
    "report_full_ascii.txt": ("full", "text", {"width": 80, "unicode": False}),
    "report_full_colour.txt": ("full", "text", {"width": 80, "colour": True}),
    "report_full.json": ("full", "json", {}),
    "report_full.sarif": ("full", "sarif", {}),
    "report_full.github.txt": ("full", "github", {"width": 80, "verbosity": -1}),
    "report_full.md": ("full", "markdown", {}),
    "report_full.xml": ("full", "junit", {}),
    "report_clean.sarif": ("clean", "sarif", {}),
    "report_clean.md": ("clean", "markdown", {}),
    "report_undecided.sarif": ("undecided", "sarif", {}),
    "report_undecided.md": ("undecided", "markdown", {}),
    "report_undecided.xml": ("undecided", "junit", {}),
    "report_clean.txt": ("clean", "text", {"width": 80}),
    "report_undecided.txt": ("undecided", "text", {"width": 80}),
    "report_empty.txt": ("empty", "text", {"width": 80}),
}
SCHEMA_FILE = Path(__file__).parents[2] / "dataguard" / "render" / "report.schema.json"
SCHEMA_DOCUMENT: Any = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA_DOCUMENT)
ESCAPE = re.compile("\x1b\\[[0-9;]*m")
_SOME = ("DG803", "DG406", "DG003", "DG101", "DG401")
TEXT = st.text(st.characters(), max_size=60) | st.sampled_from(("\n::error::x", "a ::error::b " * 9, "::\x1b\u2028::"))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def parse(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def report_of(*findings: Finding, **changes: Any) -> Report:
    return replace(empty(), results=(result("DG101", "train", Status.FAILED, *findings),), **changes)


def report_of_two(at: Location | None) -> Report:
    """The same check fails on two loaders, in other words."""
    one, two = (Finding(f"workers 0 and {n} draw the same values", at=at) for n in (1, 2))
    results = (result("DG101", "train", Status.FAILED, one), result("DG101", "val", Status.FAILED, two))
    return replace(empty(), results=results)


class TestGolden:
    @pytest.mark.parametrize("name", LOOKS)
    def test_output_is_the_golden_one(self, name: str) -> None:
        report, form, look = LOOKS[name]
        text = RENDER[form](REPORTS[report](), DOCS, **look).replace(str(Path.cwd()), "/project")
        path = GOLDEN / name
        if os.environ.get("DATAGUARD_REGOLD"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    def test_no_golden_file_is_left_over(self) -> None:
        assert {path.name for path in GOLDEN.glob("report_*")} == set(LOOKS)


class TestText:
    @pytest.mark.parametrize("width", [40, 41, 60, 80, 100, 120, 200])
    @pytest.mark.parametrize("verbosity", [-1, 0, 1])
    @pytest.mark.parametrize("report", REPORTS)
    def test_lines_fit_and_have_no_trailing_spaces(self, report: str, verbosity: int, width: int) -> None:
        text = RENDER["text"](REPORTS[report](), DOCS, width=width, verbosity=verbosity)
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        lines = text.splitlines()
        assert [line for line in lines if line != line.rstrip()] == []
        # What is there to be copied stays in one piece: code, commands, names of checks, places.
        copied = re.compile(r"^ +(repro|def |dataset)|^. (error|warning|note) DG|^. DG\d{3} |^  DG\d+-|^ +→ |broken")
        long = [line for line in lines if len(line) > width and not copied.search(line)]
        # A single word is not broken either.
        assert [line for line in long if re.search(r"\S \S*$", line[: width + 1].strip())] == []

    def test_colour_adds_escapes_and_nothing_else(self) -> None:
        plain = RENDER["text"](full(), DOCS, width=80)
        coloured = RENDER["text"](full(), DOCS, width=80, colour=True)
        assert "\x1b" not in plain
        assert coloured != plain
        assert ESCAPE.sub("", coloured) == plain

    def test_the_environment_does_not_colour(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "40")
        assert "\x1b" not in RENDER["text"](full(), DOCS, width=80)
        assert RENDER["text"](full(), DOCS, width=80) == RENDER["text"](full(), DOCS, width=80, colour=False)

    def test_every_severity_is_a_word(self) -> None:
        text = RENDER["text"](full(), DOCS)
        for line in ("✗ error DG101-", "! warning DG406-", "i note DG803-"):
            assert line in text

    def test_the_worst_comes_first(self) -> None:
        text = RENDER["text"](full(), DOCS)
        order = [
            text.index(word) for word in ("error DG401", "warning DG406", "note DG803", "expected (1)", "━━ broken")
        ]
        assert order == sorted(order)

    def test_a_loader_with_an_error_comes_before_one_with_a_note(self) -> None:
        note = result("DG803", "train", Status.FAILED, Finding("slow"))
        error = result("DG101", "val", Status.FAILED, Finding("cloned"))
        text = RENDER["text"](replace(empty(), results=(note, error)), DOCS)
        assert text.index("━━ val") < text.index("━━ train")

    def test_cause_and_fix_stand_once(self) -> None:
        text = RENDER["text"](full(), DOCS)
        assert text.count("Seed the generator") == 1
        assert text.count("fix    as above, for val") == 1

    def test_quiet_keeps_findings_broken_checks_and_the_summary(self) -> None:
        text = RENDER["text"](full(), DOCS, verbosity=-1)
        for kept in ("DG101", "DG502", "6 failed"):
            assert kept in text
        for left_out in ("expected (1)", "not applicable (7)", "inconclusive (1)", "note: ", "dataguard mypkg"):
            assert left_out not in text

    def test_verbose_lists_every_pass_with_what_it_looked_at(self) -> None:
        text = RENDER["text"](full(), DOCS, verbosity=1)
        assert re.search(r"DG102-frozen-epochs\[train\] +80 draws, 2 workers, 0\.4 s", text)
        assert "line 715" in text
        assert "more findings" not in text

    def test_the_summary_counts_every_status(self) -> None:
        line = RENDER["text"](full(), DOCS, width=200).splitlines()[-1]
        failed = "6 failed (4 errors, 1 warning, 1 note) · 1 broken · 3 passed · 1 expected · 1 inconclusive"
        assert line == f"{failed} · 1 not run · 6 not applicable (-v) · 38 s"

    def test_the_last_ten_lines_hold_the_worst_findings(self) -> None:
        many = [result(code, f"l{n}", Status.FAILED, Finding(f"{code} {n}")) for code in _SOME for n in range(4)]
        end = RENDER["text"](replace(empty(), results=tuple(many)), {}).splitlines()[-10:]
        assert [line[:7] for line in end[:8]] == ["✗ DG003"] * 4 + ["✗ DG101"] * 4
        assert end[8] == "… and 12 more above"
        assert end[9] == "20 failed (12 errors, 4 warnings, 4 notes) · 0.0 s"

    def test_loaders_that_share_a_defect_share_its_line(self) -> None:
        *_, line, _ = RENDER["text"](report_of_two(Location("mypkg/data.py", 43)), {}, width=80).splitlines()
        assert line == "✗ DG101 train, val  mypkg/data.py:43  workers 0 and 1 draw the same values"
        *_, train, val, _ = RENDER["text"](report_of_two(None), {}, width=80).splitlines()
        assert (train, val) == (
            "✗ DG101 train  workers 0 and 1 draw the same values",
            "✗ DG101 val    workers 0 and 2 draw the same values",
        )

    def test_a_place_is_quoted_once(self) -> None:
        quoted = SourceLines(7, ("def f():", "\treturn " + "x" * 90 + " ::error::y", ""))
        found = [Finding(words, at=Location("a.py", 8, words), source=quoted) for words in ("one", "two")]
        for form in ("text", "html"):
            assert RENDER[form](report_of(*found), {}, width=60).count("8      return xxx") == 1
        assert "return" not in RENDER["text"](report_of(*found), {}, verbosity=-1)

    def test_markdown_quotes_the_place(self) -> None:
        quoted = SourceLines(7, ("def f():", "    return 1"))
        text = RENDER["markdown"](report_of(Finding("one", at=Location("a.py", 8, "f"), source=quoted)), {})
        assert "```text\n  7  def f():\n> 8      return 1\n```" in text

    def test_a_long_message_ends_at_a_word(self) -> None:
        text = RENDER["text"](
            report_of(Finding("one two three four five six seven eight nine ten eleven", at=Location("a.py", 1))),
            {},
            width=50,
        )
        assert text.splitlines()[-2] == "✗ DG101 train  a.py:1  one two three four five …"

    def test_statistics_count_findings_by_check(self) -> None:
        text = RENDER["text"](full(), DOCS, width=80, statistics=True)
        assert "     7  ✗ DG401-ragged-collate  train\n" in text
        assert "     2  ✗ DG101-cloned-worker-rng  train, val\n" in text
        assert "cause" not in text

    def test_what_was_skipped_is_listed_only_if_verbose(self) -> None:
        for verbosity, listed in ((0, False), (1, True)):
            text = RENDER["text"](full(), DOCS, verbosity=verbosity)
            assert ("a map-style dataset has no shards" in text) == listed
            assert ("would break under spawn" in text) == listed
            assert "the budget of 60 s was used up" in text

    def test_an_expectation_to_remove_is_always_listed(self) -> None:
        stale = result(
            "DG301", "x", Status.PASSED, reason="expected to fail (why), but it passes: remove the expectation"
        )
        assert "remove the expectation" in RENDER["text"](replace(empty(), results=(stale,)), DOCS)

    def test_names_paths_and_code_are_never_broken(self) -> None:
        words = ["a/path/of/some/length/data.py", "`numpy.random.default_rng(torch.initial_seed())`", "`a b c d e f`"]
        text = RENDER["text"](report_of(Finding(" word ".join(words * 3))), {}, width=40)
        for word in words:
            assert text.count(word) >= 3

    def test_one_of_a_unit_is_singular(self) -> None:
        looked = {"workers": 1, "batches": 1, "leaves": 1, "padded leaves": 1, "draws": 1200}
        report = replace(empty(), results=(result("DG301", "x", Status.PASSED, exercised=looked),))
        assert "1 worker, 1 batch, 1 leaf, 1 padded leaf, 1,200 draws" in RENDER["text"](report, DOCS, verbosity=1)

    def test_a_broken_check_never_reads_as_nothing_found(self) -> None:
        report = replace(clean(), results=(*clean().results, result("DG502", "loader", Status.BROKEN, reason="x")))
        assert "no findings" not in RENDER["text"](report, DOCS)

    def test_paths_below_the_current_directory_are_relative(self) -> None:
        inside, outside = Path.cwd() / "pkg" / "data.py", Path.cwd().parent / "other.py"
        finding = Finding(f"{inside} is broken", {"file": [str(inside)], "far": str(outside)}, Location(str(inside), 3))
        text = RENDER["text"](report_of(finding), {}, width=200)
        assert "  pkg/data.py is broken\n" in text
        assert "→ pkg/data.py:3\n" in text
        assert re.search(r"file +pkg/data\.py\n", text)
        assert str(outside) in text

    def test_a_deleted_current_directory_is_survived(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        assert "4 workers" in RENDER["text"](report_of(Finding("4 workers")), {})

    def test_long_values_are_cut_and_verbose_shows_them(self) -> None:
        report = report_of(Finding("long", {"text": "word " * 200, "many": list(range(1000))}))
        short, long = (RENDER["text"](report, {}, verbosity=verbosity) for verbosity in (0, 1))
        assert "more characters" in short
        assert "… 990 more" in short
        assert "…" not in long
        assert " 999" in long

    def test_control_characters_are_shown_and_not_obeyed(self) -> None:
        finding = Finding("\x1b[2Jcleared\x07", {"bad\x1bkey": "a\rb\x00", "bidi": "\u202eevil"}, repro="x\x1b[1m")
        text = RENDER["text"](report_of(finding), {})
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
        assert "\\x1b[2Jcleared\\x07" in text

    def test_a_name_stays_on_its_line(self) -> None:
        failed = result("DG101", "a\n::error::b", Status.FAILED, Finding("one\n::error::two"))
        report = replace(empty(), results=(failed,), targets=("t\n::error::u",))
        lines = RENDER["text"](report, DOCS).splitlines()
        assert [line for line in lines if "error::" in line] == [
            "dataguard t\\n::error::u",
            "━━ a\\n::error::b " + "━" * 72 + " 1 error ━━",
            "✗ error DG101-cloned-worker-rng[a\\n::error::b]",
            "  \\::error::two",
            "✗ DG101 a\\n::error::b  one ::error::two",
        ]

    def test_ascii_is_ascii(self) -> None:
        finding = Finding("größe ≥ 3", {"ключ": "…"}, Location("/tmp/é.py", 1))
        text = RENDER["text"](report_of(finding), DOCS, unicode=False)
        assert text.isascii()
        assert "gr\\xf6\\xdfe >= 3" in text

    @pytest.mark.parametrize("verbosity", [-1, 0, 1])
    @given(message=TEXT, evidence=st.dictionaries(TEXT, JSON_VALUES, max_size=4), what=TEXT, reason=TEXT)
    @hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_whatever_users_say_is_printable(
        self, verbosity: int, message: str, evidence: Mapping[str, Any], what: str, reason: str
    ) -> None:
        failed = result("DG101", what, Status.FAILED, Finding(message, evidence, Location(what, 1, what), reason))
        skipped = result("DG301", what, Status.SKIPPED, reason=reason)
        report = replace(empty(), results=(failed, skipped), targets=(message,), notes=(reason,), settings=evidence)
        text = RENDER["text"](report, DOCS, width=60, verbosity=verbosity)
        assert text.encode("utf-8")
        assert "\x1b" not in text
        assert not re.search(r"[ \t]$", text, re.MULTILINE)
        assert not re.search(r"^\s*::", text, re.MULTILINE)
        assert RENDER["text"](report, DOCS, width=60, verbosity=verbosity, unicode=False).isascii()


class TestOneResult:
    def test_it_reads_as_in_the_report(self) -> None:
        failed = full().results[1]
        text = render_result(failed, DOCS["DG101"], width=80)
        assert text in RENDER["text"](report_of(*failed.findings), DOCS, width=80)

    def test_it_needs_no_documentation(self) -> None:
        text = render_result(result("DG101", "", Status.FAILED, Finding("x")), None)
        assert text == "✗ error DG101-cloned-worker-rng\n  x\n"


class TestJson:
    def test_the_schema_is_a_schema_and_names_the_one_of_the_model(self) -> None:
        Draft202012Validator.check_schema(SCHEMA_DOCUMENT)
        assert SCHEMA_DOCUMENT["$id"] == SCHEMA
        assert SCHEMA_DOCUMENT["properties"]["schema"]["const"] == SCHEMA
        assert SCHEMA_DOCUMENT["properties"]["version"]["const"] == SCHEMA_VERSION
        of_result = SCHEMA_DOCUMENT["$defs"]["result"]["properties"]
        assert of_result["status"]["enum"] == [status.value for status in Status]
        assert of_result["severity"]["enum"] == [severity.value for severity in Severity]

    @pytest.mark.parametrize("report", REPORTS)
    def test_reports_are_valid(self, report: str) -> None:
        VALIDATOR.validate(parse(RENDER["json"](REPORTS[report](), DOCS)))

    def test_one_target_is_a_string_and_several_are_a_list(self) -> None:
        assert parse(RENDER["json"](full(), {}))["target"] == "mypkg.data:make_loaders"
        assert parse(RENDER["json"](undecided(), {}))["target"] == ["a:x", "b=c:y"]

    def test_nothing_of_a_report_is_lost(self) -> None:
        document = parse(RENDER["json"](full(), {}))
        assert [(r["code"], r["loader"], r["status"]) for r in document["results"]] == [
            (r.code, r.loader, r.status.value) for r in full().results
        ]
        assert document["results"][1]["findings"][0]["at"] == {
            "file": str(Path.cwd() / "mypkg" / "data.py"),
            "line": 41,
            "what": "Crops.__getitem__",
        }
        assert document["seconds"] == 38.04
        assert document["notes"] == list(full().notes)

    def test_values_that_json_lacks_become_strings(self) -> None:
        odd = {"nan": math.nan, "inf": -math.inf, "path": Path("/x"), "kind": Severity.NOTE, "s": {2, 1}, "t": (1,)}
        evidence: Any = {**odd, 3: True}
        finding = Finding("odd", evidence, Location("/data/\udcff.py"))
        document = parse(RENDER["json"](report_of(finding), {}))
        VALIDATOR.validate(document)
        shown = document["results"][0]["findings"][0]
        expected = {"nan": "nan", "inf": "-inf", "path": "/x", "kind": "note", "s": [1, 2], "t": [1], "3": True}
        assert shown["evidence"] == expected
        assert shown["at"]["file"] == "/data/\\udcff.py"

    def test_numpy_scalars_stay_numbers(self) -> None:
        import numpy

        finding = Finding("x", {"i": numpy.int64(3), "f": numpy.float32(0.5), "n": numpy.float64("nan")})
        shown = parse(RENDER["json"](report_of(finding), {}))["results"][0]["findings"][0]["evidence"]
        assert shown == {"i": 3, "f": 0.5, "n": "nan"}

    def test_ascii_is_the_same_document(self) -> None:
        report = report_of(Finding("größe ≥ 3"))
        text = RENDER["json"](report, {}, unicode=False)
        assert text.isascii()
        assert parse(text) == parse(RENDER["json"](report, {}))

    @pytest.mark.parametrize(
        ("where", "change"),
        [
            ((), {"extra": 1}),
            (("results", 0), {"extra": 1}),
            (("results", 0), {"status": "FAILED"}),
            (("results", 0), {"code": "101"}),
            (("results", 0), {"findings": []}),
            (("results", 0, "findings", 0), {"extra": 1}),
            (("results", 0, "findings", 0), {"at": "file.py:3"}),
            (("results", 0, "exercised"), {"note": "text"}),
        ],
    )
    def test_the_schema_is_strict(self, where: tuple[str | int, ...], change: Mapping[str, Any]) -> None:
        document = parse(RENDER["json"](full(), {}))
        place = document
        for step in where:
            place = place[step]
        place.update(change)
        with pytest.raises(ValidationError):
            VALIDATOR.validate(document)

    @given(evidence=st.dictionaries(TEXT, JSON_VALUES, max_size=4), message=TEXT.filter(bool))
    @hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_whatever_checks_saw_is_valid(self, evidence: Mapping[str, Any], message: str) -> None:
        text = RENDER["json"](report_of(Finding(message, evidence)), {})
        assert text.encode("utf-8")
        VALIDATOR.validate(parse(text))


PIXELS = png(8, 8, lambda x, y: (x, y, 0))
LEAF = LeafView("sample[0]", "Tensor uint8", (3, 8, 8), "0 to 255", "1f2e")
COMMANDS = {
    "scan": (full(), DOCS),
    "bench": (Bench("a:b", {}, {}, (), 1.0),),
    "doctor": (Checkup("0.1.0", Machine.read(), {}),),
    "list": (CATALOGUE,),
    "show": (
        SampleViews("a:b", "train", (SampleView("sample 3", (LEAF,), (Picture(PIXELS, "sample"),), "KeyError: 3"),)),
    ),
}
"""What each command hands to a renderer."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_format_of_a_command_writes_what_it_reports(command: str) -> None:
    assert {name for renderers in FORMATS.values() for name in renderers} == set(COMMANDS)
    for form in formats_of(command):
        text = renderer(command, form)(*COMMANDS[command], width=80, colour=False, unicode=False)
        if form == "png":
            assert text.startswith(PIXELS[:8])
            continue
        assert text.isascii()
        assert text.endswith("\n")
        assert (form in ("json", "sarif")) == text.startswith("{\n")


def test_what_could_not_be_tested_is_not_called_not_applicable() -> None:
    reason = str(pickle.loads(pickle.dumps(NotTested("no model is named"))))
    assert reason == "not tested: no model is named"
    reasons = {"DG101": reason, "DG102": "num_workers=0", "DG201": "see DG003: it hangs"}
    results = tuple(result(code, "train", Status.SKIPPED, reason=words) for code, words in reasons.items())
    report = replace(empty(), results=results)
    assert [one.untested for one in results] == [True, False, False]
    text = RENDER["text"](report, DOCS, verbosity=1)
    for words in ("not run (1)", "not tested (1)", "not applicable (1)", "1 not run · 1 not tested · 1 not applicable"):
        assert words in text
    assert "<h2>Not tested</h2>" in RENDER["html"](report, DOCS)
    several = replace(report, results=tuple(replace(results[0], code=code) for code in ("DG901", "DG902", "DG903")))
    assert "3 checks not tested: no model is named" in RENDER["text"](several, DOCS)
    asked = replace(results[0], reason=f"not tested: all rows begin with 1 twice{TO_DECLARE}bos = 1")
    assert "DG101 not tested [train]: all rows begin with 1 twice; declare bos = 1" in RENDER["text"](
        replace(report, results=(asked,)), DOCS
    )
    idle = replace(several, results=(*several.results, results[2]))  # nothing to declare helps a loader that stops
    assert "checks not tested" not in RENDER["text"](idle, DOCS)


def test_checks_that_fail_for_one_cause_are_one_finding() -> None:
    at = Location("data.py", 8, "dataset.rng")
    clone, replay = (
        replace(
            result(code, "train", Status.FAILED, Finding(words, {"fix here": "seed it"}, at, f"scan {code}")),
            severity=Severity.ERROR,
        )
        for code, words in (("DG101", "workers draw the same"), ("DG102", "epochs draw the same"))
    )
    report = replace(empty(), results=(clone, replay))
    text = RENDER["text"](report, DOCS)
    assert "DG101-cloned-worker-rng[train], DG102-frozen-epochs[train]\n  workers draw the same\n  and epochs" in text
    assert text.count("seed it") == 1
    assert "✗ DG101, DG102 train  data.py:8  workers draw the same\n2 failed" in text
    lone = result("DG401", "val", Status.FAILED, Finding("shapes differ", at=Location("data.py", 9)))
    both = RENDER["text"](replace(empty(), results=(clone, replay, lone)), DOCS)
    assert "✗ DG401        val    data.py:9  shapes differ\n3 failed" in both
    twice = replace(lone, loader="the_other_validation_loader")
    assert "✗ DG401        val +1  data.py:9  shapes" in RENDER["text"](
        replace(empty(), results=(clone, replay, lone, twice)), DOCS, width=80
    )
    assert {"scan DG101", "scan DG102"} <= {line.split("repro  ")[-1] for line in text.splitlines()}
    assert RENDER["html"](report, DOCS).count('class="codes"') == 1
    elsewhere = replace(replay, findings=(replace(replay.findings[0], at=replace(at, line=9)),))
    assert RENDER["text"](replace(report, results=(clone, elsewhere)), DOCS).count("seed it") == 2
    assert len(json.loads(RENDER["json"](report, DOCS))["results"]) == 2


def test_a_format_of_one_command_is_refused_by_the_others_by_name() -> None:
    assert renderer("scan", "sarif")(empty(), DOCS)
    known = ", ".join(formats_of("doctor"))
    with pytest.raises(UsageError, match=f"--format sarif: not supported by `dataguard doctor`; known: {known}"):
        renderer("doctor", "sarif")
    with pytest.raises(UsageError, match="--format sariff: not supported by `dataguard scan`; did you mean 'sarif'"):
        renderer("scan", "sariff")


@pytest.mark.parametrize(
    ("prevented", "cut", "passed", "code"),
    [(2, 0, 1, 1), (2, 0, 2, 0), (0, 2, 1, 0), (1, 2, 1, 0), (3, 1, 1, 1), (1, 0, 0, 1)],
)
def test_a_scan_of_which_the_machine_prevented_most_is_no_pass(
    prevented: int, cut: int, passed: int, code: int
) -> None:
    lacks = [result("DG101", "train", Status.INCONCLUSIVE, reason=f"{PREVENTED}no space left")] * prevented
    over = [result("DG102", "train", Status.INCONCLUSIVE, reason="the budget ran out")] * cut
    others = [result("DG301", "val", Status.PASSED)] * 9  # another loader changes nothing
    report = replace(empty(), results=(*lacks, *over, *[result("DG301", "train", Status.PASSED)] * passed, *others))
    assert report.exit_code(Severity.WARNING) == code
    assert report.failed == (tuple(lacks) if code else ())
    assert report.hampered == (("train",) if code else ())
    for form, render in RENDER.items():
        says = "ost checks were prevented" in render(report, DOCS)
        assert says == (code == 1 and form in ("text", "github", "markdown", "html")), form
