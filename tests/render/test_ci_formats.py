"""SARIF, annotations, Markdown and JUnit: valid for who reads them, and whatever a loader says stays text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from junitparser import Error, Failure, JUnitXml, Skipped
from markdown_it import MarkdownIt

from dataguard.core.model import Finding, Location, Result, Severity, SourceLines, Status
from dataguard.render.ci.github import render as github
from dataguard.render.ci.junit import render as junit
from dataguard.render.ci.markdown import LARGEST
from dataguard.render.ci.markdown import render as markdown
from dataguard.render.ci.sarif import render as sarif
from dataguard.report import Report
from tests.support.sample_reports import DOCS, clean, empty, full, result, undecided

REPORTS = {"full": full, "clean": clean, "undecided": undecided, "empty": empty}
FORMATS = {"sarif": sarif, "github": github, "markdown": markdown, "junit": junit}
HOSTILE = (
    "::error file=x::y",
    "\n::error::x\r\n::warning::z",
    "a | b |\n|---|",
    "]]> </failure><failure>",
    "</details><script>alert(1)</script>",
    "[click](https://evil.example) ![x](https://evil.example/x.png)",
    "https://evil.example www.evil.example a@evil.example @everyone #1",
    "`code` ```\nfence\n``` ~~~ **bold** __x__ *y* ~~z~~ $x$ :tada:",
    "\x00\x1b[2J\x07\ufffe\uffff\udcff\u202e\u2028",
    "# title\n- item\n> quote\n1. one",
    "&lt;b&gt; \\",
    "x" * 5_000,
)
WORDS = st.text(st.characters(), min_size=1, max_size=60) | st.sampled_from(HOSTILE)

TEXT = {"type": "string", "minLength": 1}


def an_object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": required | optional,
    }


MESSAGE = an_object({"text": TEXT})
LEVEL = {"enum": ["none", "note", "warning", "error"]}
RULE = an_object(
    {
        "id": TEXT,
        "name": TEXT,
        "helpUri": {"pattern": "^https://"},
        "defaultConfiguration": an_object({"level": LEVEL}),
        "properties": {"type": "object"},
    },
    shortDescription=MESSAGE,
    fullDescription=MESSAGE,
    help=an_object({"text": TEXT, "markdown": TEXT}),
)
LINE = {"type": "integer", "minimum": 1}
PLACE = an_object(
    {"artifactLocation": an_object({"uri": {"pattern": "^[^/\\\\ ][^\\\\ ]*$"}, "uriBaseId": {"const": "%SRCROOT%"}})},
    region=an_object({"startLine": LINE}, snippet=MESSAGE),
    contextRegion=an_object({"startLine": LINE, "endLine": LINE, "snippet": MESSAGE}),
)
LOGICAL = an_object({"name": TEXT, "fullyQualifiedName": TEXT, "kind": {"enum": ["resource", "member"]}})
RESULT = an_object(
    {
        "ruleId": {"pattern": "^DG[0-9]{3}$"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": MESSAGE,
        "locations": {
            "type": "array",
            "minItems": 1,
            "items": an_object(
                {"physicalLocation": PLACE, "logicalLocations": {"type": "array", "minItems": 1, "items": LOGICAL}}
            ),
        },
        "partialFingerprints": an_object({"dataguard/v1": {"pattern": "^[0-9a-f]{32}$"}}),
        "properties": an_object({"evidence": {"type": "object"}}),
    },
    suppressions={"type": "array", "items": an_object({"kind": {"const": "external"}, "justification": TEXT})},
)
NOTIFICATION = an_object(
    {"level": LEVEL, "message": MESSAGE}, associatedRule=an_object({"id": TEXT, "index": {"type": "integer"}})
)
SARIF = an_object(
    {
        "$schema": {"pattern": "sarif-schema-2.1.0.json$"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": an_object(
                {
                    "tool": an_object(
                        {
                            "driver": an_object(
                                {"name": TEXT, "rules": {"type": "array", "items": RULE, "uniqueItems": True}},
                                semanticVersion=TEXT,
                            )
                        }
                    ),
                    "invocations": {
                        "type": "array",
                        "items": an_object(
                            {"executionSuccessful": {"type": "boolean"}, "exitCode": {"type": "integer"}},
                            toolExecutionNotifications={"type": "array", "items": NOTIFICATION},
                        ),
                    },
                    "columnKind": {"const": "unicodeCodePoints"},
                    "results": {"type": "array", "items": RESULT},
                }
            ),
        },
    }
)
"""The part of SARIF 2.1.0 that a report uses, with what GitHub code scanning requires beyond the standard."""
VALIDATOR = Draft202012Validator(SARIF)


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def report_of(*findings: Finding, loader: str = "train", status: Status = Status.FAILED, **changes: Any) -> Report:
    reason = "why" if status is Status.EXPECTED else None
    return replace(empty(), results=(result("DG101", loader, status, *findings, reason=reason),), **changes)


def hostile(words: str) -> Report:
    """A report in which every text that a user or a loader can set is the same."""
    finding = Finding(words or "x", {words: words, "many": [words]}, Location(words, 1, words), words)
    statuses = (Status.FAILED, Status.EXPECTED, Status.INCONCLUSIVE, Status.SKIPPED, Status.PASSED)
    results = [
        result("DG101", words, status, *([finding] if number < 2 else []), reason=words)
        for number, status in enumerate(statuses)
    ]
    return replace(empty(), results=tuple(results), targets=(words,), notes=(words,))


def run_of(report: Report) -> dict[str, Any]:
    run: dict[str, Any] = json.loads(sarif(report, DOCS))["runs"][0]
    return run


class TestSarif:
    @pytest.mark.parametrize("report", REPORTS)
    def test_reports_are_valid(self, report: str) -> None:
        VALIDATOR.validate(json.loads(sarif(REPORTS[report](), DOCS)))

    def test_rules_explain_and_results_refer_to_them(self) -> None:
        run = run_of(full())
        rules = run["tool"]["driver"]["rules"]
        assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in run["results"])
        (rule,) = [rule for rule in rules if rule["id"] == "DG101"]
        assert rule["shortDescription"]["text"] == DOCS["DG101"].summary
        assert "## Fix\n\nSeed the generator" in rule["help"]["markdown"]
        assert rule["helpUri"].endswith("/checks/dg101_cloned_worker_rng/")

    def test_a_passed_or_undecided_check_opens_no_alert(self) -> None:
        run = run_of(undecided())
        assert run["results"] == []
        (said,) = run["invocations"][0]["toolExecutionNotifications"]
        assert (said["level"], said["associatedRule"]["id"]) == ("warning", "DG302")

    def test_an_expected_finding_is_suppressed_with_its_reason(self) -> None:
        (found,) = run_of(report_of(Finding("x"), status=Status.EXPECTED))["results"]
        assert found["suppressions"] == [{"kind": "external", "justification": "why"}]

    def test_files_are_relative_to_the_current_directory_and_others_are_those_of_the_target(self) -> None:
        Path("mypkg").mkdir()
        Path("mypkg", "data.py").touch()
        found = [
            run_of(report_of(Finding("x", at=at)))["results"][0]["locations"][0]["physicalLocation"]
            for at in (
                Location(str(Path.cwd() / "my pkg" / "a.py"), 3),
                Location("rel/b.py", 0),
                Location("/usr/lib/c.py", 4),
                Location("rel/../e.py", 6),
                Location(str(Path.cwd() / ".venv/lib/site-packages/d.py"), 5),
                Location("../../../../etc/passwd", 7),
                Location("rel/../../passwd", 7),
                Location(str(Path.cwd() / ".." / "passwd"), 7),
                None,
            )
        ]
        own = ["my%20pkg/a.py", "rel/b.py"]
        assert [place["artifactLocation"]["uri"] for place in found] == [
            *own,
            "mypkg/data.py",
            "e.py",
            *["mypkg/data.py"] * 5,
        ]
        lines = [place.get("region", {}).get("startLine") for place in found]
        assert lines == [3, None, None, 6, *[None] * 5]

    @pytest.mark.parametrize(
        ("target", "files", "expected"),
        [
            ("pkg.mod:make", ["src/pkg/mod.py"], "src/pkg/mod.py"),
            ("pkg:make(a=1)", ["pkg/__init__.py"], "pkg/__init__.py"),
            ("pkg:make", ["lib/pkg.py", "pkg.py"], "lib/pkg.py"),
            ("pkg:make", [], "pyproject.toml"),
            ("run train.py --epochs 3", [], "train.py"),
            ("not a target", [], "pyproject.toml"),
        ],
    )
    def test_a_finding_without_a_place_is_shown_at_its_target(
        self, target: str, files: list[str], expected: str
    ) -> None:
        for file in files:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).touch()
        report = report_of(Finding("x"), settings={"pythonpath": ("lib",)}, targets=(target,))
        (found,) = run_of(report)["results"]
        assert unquote(found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]) == expected

    def test_fingerprints_outlive_lines_counts_and_order(self) -> None:
        one, two = (
            run_of(report_of(Finding(f"{n} workers draw alike", {"n": n}, Location("a.py", n, "dataset.rng"))))
            for n in (2, 30)
        )
        other = run_of(report_of(Finding("2 workers draw alike", at=Location("a.py", 2, "dataset.other"))))
        prints = [run["results"][0]["partialFingerprints"] for run in (one, two, other)]
        assert prints[0] == prints[1] != prints[2]

    def test_links_in_messages_are_text(self) -> None:
        (found,) = run_of(report_of(Finding("[x](https://evil.example)")))["results"]
        assert "](" not in found["message"]["text"]

    def test_the_exit_code_is_that_of_the_scan(self) -> None:
        codes = [run_of(report)["invocations"][0] for report in (clean(), report_of(Finding("x")), full())]
        assert [(one["exitCode"], one["executionSuccessful"]) for one in codes] == [(0, True), (1, True), (3, False)]

    def test_a_deleted_current_directory_is_survived(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        report, gone = full(), tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        VALIDATOR.validate(json.loads(sarif(report, DOCS)))


class TestGithub:
    COMMAND = re.compile(r"::(error|warning|notice|group|endgroup)( [^:]*)?::(.*)")

    def test_each_place_is_annotated_once_the_worst_first(self) -> None:
        lines = github(full(), DOCS).splitlines()
        levels = [match[1] for line in lines if (match := self.COMMAND.fullmatch(line)) and "file=" in line]
        assert levels == ["error"] * 4 + ["warning", "notice"]
        assert sum("DG401-ragged-collate[train]::" in line for line in lines) == 1
        assert any("(3, 224, 223) (and 6 more)%0Aat: " in line for line in lines)

    def test_the_report_is_above_in_a_group(self) -> None:
        text = github(full(), DOCS)
        assert text.startswith("::group::dataguard\ndataguard mypkg.data:make_loaders\n")
        assert text.index("::endgroup::") < text.index("::error ")

    def test_properties_and_messages_are_escaped(self) -> None:
        finding = Finding("50%\n::error::x", at=Location("a,b:c.py", 3))
        (line,) = [line for line in github(report_of(finding), {}).splitlines() if line.startswith("::error")]
        assert line == "::error file=a%2Cb%3Ac.py,line=3,title=DG101-cloned-worker-rng[train]::50%25%0A::error::x"

    @pytest.mark.parametrize("words", HOSTILE)
    def test_no_words_of_a_loader_are_a_command(self, words: str) -> None:
        text = github(hostile(words), DOCS)
        commands = [line for line in text.split("\n") if line.lstrip().startswith("::")]
        assert all(self.COMMAND.fullmatch(line) for line in commands)
        assert {line.split(" ")[0].strip(":") for line in commands} <= {
            *("group", "endgroup", "error", "warning", "notice"),
            *("group::dataguard",),
        }
        assert len(commands) == 5  # the group, its end, the finding, the note and the summary


class TestMarkdown:
    PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])

    def test_the_verdict_comes_first_and_details_are_folded(self) -> None:
        text = markdown(full(), DOCS)
        assert text.startswith("## dataguard: 6 failed (4 errors, 1 warning, 1 note)")
        assert text.count("<details>") == text.count("</details>") == 10
        assert "| ✗ error | DG101-cloned-worker-rng | train | mypkg/data.py:41 |" in text

    @pytest.mark.parametrize("words", HOSTILE)
    def test_no_words_of_a_loader_are_markup(self, words: str) -> None:
        harmless = "harmless\nharmless" if "\n" in words else "harmless"  # evidence of several lines is a code block
        plain, wild = (self.PARSER.parse(markdown(hostile(given), {})) for given in (harmless, words))
        assert self.shape(wild) == self.shape(plain)

    @staticmethod
    def shape(tokens: list[Any]) -> list[str]:
        """The structure of a document without its text; a code block may have any length."""
        inner = [child for token in tokens for child in (token.children or [])]
        html = [token.content for token in [*tokens, *inner] if token.type.startswith("html")]
        tags = re.findall(r"</?[a-z]+", "".join(html))
        kinds = [token.type for token in tokens if token.type not in ("fence",)]
        return [*kinds, *tags, *(child.type for child in inner if child.type not in ("text", "softbreak"))]

    @pytest.mark.parametrize("words", ["@everyone", "#12", "www.evil.example", "https://evil.example"])
    def test_nothing_is_mentioned_or_linked(self, words: str) -> None:
        text = markdown(hostile(f"see {words}"), DOCS)
        text = re.sub("(?s)```text.*?```", "", text)
        assert words not in (text if words[0] in "@#" else re.sub("<summary>.*</summary>", "", text))

    def test_it_is_small_enough_for_github(self) -> None:
        many = [
            result("DG101", f"loader{n}", Status.FAILED, Finding("y" * 5_000, {"a": "ü" * 5_000})) for n in range(400)
        ]
        text = markdown(replace(empty(), results=tuple(many)), DOCS)
        assert 0.9 * LARGEST < len(text.encode()) <= LARGEST
        assert "left out" in text


class TestJUnit:
    def test_cases_have_the_names_and_outcomes_of_pytest(self) -> None:
        found = JUnitXml.fromstring(junit(full(), DOCS).encode())
        outcomes = {case.name: case.result for suite in found for case in suite}
        assert len(outcomes) == len(full().results)
        (failure,) = outcomes["DG101-cloned-worker-rng[train]"]
        assert isinstance(failure, Failure)
        assert failure.message == "workers 0 and 1 gave item 17 the same 32 crops"
        assert "cause" in (failure.text or "")
        assert isinstance(outcomes["DG502-label-out-of-range[train]"][0], Error)
        assert outcomes["DG803-slow-worker-count[train]"] == []  # below --fail-on
        for name, kind in {"DG207-unshuffled-train": "xfail", "DG201-unsharded-workers": "skip"}.items():
            (skipped,) = outcomes[f"{name}[train]"]
            assert isinstance(skipped, Skipped)
            assert skipped.type == f"pytest.{kind}"
        assert outcomes["DG306-shifting-label[train]"][0].message.startswith("inconclusive: ")

    def test_each_loader_is_a_suite_and_the_counts_add_up(self) -> None:
        found = JUnitXml.fromstring(junit(full(), DOCS).encode())
        assert {suite.name for suite in found} == {f"mypkg.data:make_loaders:{loader}" for loader in ("train", "val")}
        totals = [found.tests, found.failures, found.errors, found.skipped]
        assert totals == [19, 5, 1, 9]
        assert totals == [
            sum(getattr(suite, name) for suite in found) for name in ("tests", "failures", "errors", "skipped")
        ]

    def test_the_threshold_is_that_of_the_scan(self) -> None:
        for settings, failures in (({"fail_on": "note"}, 6), ({"fail_on": "error", "fail_on_undecided": True}, 5)):
            text = junit(replace(full(), settings=settings), DOCS)
            assert JUnitXml.fromstring(text.encode()).failures == failures


@pytest.mark.parametrize("form", FORMATS)
@given(words=WORDS)
@hypothesis_settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_users_say_is_valid(form: str, words: str) -> None:
    text = FORMATS[form](hostile(words), DOCS)
    assert text.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert FORMATS[form](hostile(words), DOCS, unicode=False).isascii()
    if form == "sarif":
        VALIDATOR.validate(json.loads(text))
    if form == "junit":
        ElementTree.fromstring(text.encode())
        JUnitXml.fromstring(text.encode())


@pytest.mark.parametrize("form", FORMATS)
def test_a_message_of_ten_megabytes_is_cut(form: str) -> None:
    size = 10_000_000
    finding = Finding("m" * size, {"e": "e" * size}, Location("a.py", 1, "w" * size))
    report = report_of(finding, notes=("n" * size,))
    text = FORMATS[form](report, DOCS)
    assert "more characters" in text
    assert len(text) < 200_000


def test_severities_are_levels() -> None:
    for severity in Severity:
        report = replace(empty(), results=(replace(report_of(Finding("x")).results[0], severity=severity),))
        assert run_of(report)["results"][0]["level"] == severity.value


def test_what_to_write_is_there_whole_beside_its_line() -> None:
    line = f"for row in islice(rows[{'0 + ' * 60}1:], worker, None, workers):  # 100%"
    finding = Finding(
        "all workers read all", {"fix here": line}, Location("data.py", 8), source=SourceLines(7, ("", "b"))
    )
    failed = Result("DG201", "unsharded-workers", Severity.ERROR, "train", Status.FAILED, (finding,))
    report = replace(empty(), results=(failed,))
    (written,) = json.loads(sarif(report, {}))["runs"][0]["results"]
    assert written["message"]["text"] == f"all workers read all [train]\nfix: {line}"
    place = written["locations"][0]["physicalLocation"]
    assert (place["region"]["snippet"]["text"], place["contextRegion"]["startLine"]) == ("b", 7)
    assert f"fix: {line.replace('%', '%25')}" in github(report, {})
