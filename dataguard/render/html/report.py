"""The HTML page of a scan: the verdict, the findings worst first, and what else there is to know.

Evidence and settings are rows of tables: short values in one line, long ones folded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from dataguard.core.model import Doc, Finding, Location, Report, Result, Severity, Status
from dataguard.machine.units import counted
from dataguard.render.html.figures import FigureRenderer, View, sentence
from dataguard.render.html.templating import cut, line, page
from dataguard.render.layout import current_folder, fold, shortened
from dataguard.render.summary import MARKS, duration, lines, not_judged, once, severities, tally, verdict
from dataguard.render.text import (
    BUG,
    NOTABLE_SECONDS,
    REQUEST,
    UNSET,
    by_reason,
    checks_and_loaders,
    exercised,
    versions,
)

_MOST_CHARACTERS = 4_000
"""The most characters of a value, folded ones included; the JSON report has them all."""
_UNFOLDED_LINES = 14
"""The most lines of a stack or of output that are shown unfolded."""
_ONE_ROW = 60
"""A mapping of more characters than this gets one row for each key."""
_ROWS = 40
"""The most rows of a mapping that are shown."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Turns values into rows; paths below the folder `home` are relative."""

    home: re.Pattern[str] | None
    quoted: set[Location] = field(default_factory=set)
    """The places whose source is already on the page."""

    @classmethod
    def here(cls) -> Evidence:
        """Return the one for the current directory."""
        return cls(current_folder())

    def short(self, words: str) -> str:
        """The words with short paths, and without what is too long to read."""
        return shortened(cut(words, _MOST_CHARACTERS), self.home)

    def place(self, finding: Finding) -> str:
        """The file and line of a finding, or nothing."""
        at = finding.at
        return self.short(at.file if at.line is None else f"{at.file}:{at.line}") if at and at.file else ""

    def rows(self, values: Mapping[str, object]) -> list[View]:
        """A row for each key and its value."""
        shown = [self._row(str(key), value) for key, value in list(values.items())[:_ROWS]]
        if len(values) > _ROWS:
            shown.append(self._row("…", counted(len(values) - _ROWS, "more rows")))
        return shown

    def _row(self, key: str, value: object) -> View:
        text = fold(value)
        row: View = {"key": key, "text": self.short(text).strip("\n"), "full": "", "rows": [], "folds": 0}
        if isinstance(value, Mapping) and len(text) > _ONE_ROW:
            return row | {"rows": self.rows(value)}
        if "\n" in text:
            lines = row["text"].count("\n") + 1
            return row | {"full": row["text"], "folds": lines if lines > _UNFOLDED_LINES else 0}
        return row


_UNFOLDED_FINDINGS = 5
"""The findings of one result that are shown unfolded."""
_MOST_FINDINGS = 50
"""The most findings of one result; the JSON report holds all."""


def render(report: Report, docs: Mapping[str, Doc], *, document: bool = True, unicode: bool = True, **look: Any) -> str:
    """Return the report as one HTML document, or what a notebook shows as the output of a cell.

    Without `unicode` it is pure ASCII. The rest of `look` is ignored.
    """
    layout = "page.html.j2" if document else "notebook.html.j2"
    return page("report.html.j2", layout=layout, unicode=unicode, **_context(report, docs))


def _context(report: Report, docs: Mapping[str, Doc]) -> View:
    of = {status: [result for result in report.results if result.status is status] for status in Status}
    failed = report.defects
    shown = [*failed, *of[Status.EXPECTED], *of[Status.INCONCLUSIVE], *of[Status.PASSED]]
    studio = FigureRenderer(figure for result in shown for figure in result.figures)
    evidence = Evidence.here()
    every = tuple(dict.fromkeys(result.loader for result in report.results))
    noted = [result for result in of[Status.PASSED] if result.reason]
    return {
        "title": f"{verdict(report)}: {line(', '.join(report.targets))}",
        "target": ", ".join(report.targets),
        "verdict": _verdict(report, failed),
        "counts": list(_counts(report)),
        "versions": versions(report),
        "duration": duration(report.seconds),
        "lines": [_line(line, evidence) for line in lines(failed)],
        "cards": [_card(list(group), docs, studio, evidence) for _, group in groupby(failed, key=_check)],
        "broken": [_broken(result, evidence) for result in of[Status.BROKEN]],
        "request": f"{BUG[:1].upper()}{BUG[1:]}. {REQUEST}",
        "expected": [_aside(result, studio, evidence) for result in of[Status.EXPECTED]],
        "inconclusive": list(_reasons(of[Status.INCONCLUSIVE], every, evidence)),
        "stale": list(_reasons([result for result in noted if result.stale], every, evidence)),
        "noted": list(_reasons([result for result in noted if not result.stale], every, evidence)),
        "skipped": [
            (words.capitalize(), list(_reasons(results, every, evidence)))
            for words, results in not_judged(report).items()
        ],
        "passed": [_passed(result) for result in of[Status.PASSED]],
        "more_figures": [
            (result.id, [studio.draw(figure) for figure in result.figures])
            for result in of[Status.INCONCLUSIVE] + of[Status.PASSED]
            if result.figures
        ],
        "notes": [evidence.short(note) for note in report.notes],
        "tables": [
            (name, evidence.rows({key: value for key, value in values.items() if value not in UNSET}))
            for name, values in (("Environment", report.environment), ("Settings", report.settings))
        ],
        "images": sentence(studio),
    }


def _check(result: Result) -> tuple[int, str]:
    return result.severity.rank, result.code


def _verdict(report: Report, failed: Sequence[Result]) -> View:
    words = verdict(report)
    if failed:
        worst = failed[0].severity
        kind, mark, detail = worst.value, MARKS[worst][0], severities(failed)
    elif report.count(Status.BROKEN):
        kind, mark, detail = "broken", "✗", BUG
    else:
        kind, mark = ("passed", "✓") if report.count(Status.PASSED) and not report.hampered else ("warning", "?")
        detail = ""
    return {"kind": kind, "mark": mark, "words": words[:1].upper() + words[1:], "detail": detail}


def _counts(report: Report) -> Iterator[tuple[int, str]]:
    for status, count in tally(report).items():
        yield count, status.value
    for words, results in not_judged(report).items():
        yield len(results), words


def _line(line: Any, evidence: Evidence) -> View:
    result, first = line.result, line.first
    return {
        "severity": result.severity.value,
        "mark": MARKS[result.severity][0],
        "codes": [effect.code for effect in line.effects],
        "loaders": line.loaders,
        "place": evidence.place(first),
        "message": evidence.short(first.message),
        "more": len(result.findings) - 1,
        "anchor": _anchor(result.severity, result.code),
    }


def _card(results: Sequence[Result], docs: Mapping[str, Doc], studio: FigureRenderer, evidence: Evidence) -> View:
    first = results[0]
    groups: list[tuple[Result, list[str]]] = []
    for result in results:
        same = next((names for other, names in groups if _alike(result, other)), None)
        if same is None:
            groups.append((result, [result.loader]))
        else:
            same.append(result.loader)
    repros = dict.fromkeys(
        finding.repro for result in results for finding in result.findings[:_MOST_FINDINGS] if finding.repro
    )
    return {
        "code": first.code,
        "name": first.name,
        "severity": first.severity.value,
        "mark": MARKS[first.severity][0],
        "anchor": _anchor(first.severity, first.code),
        "doc": docs.get(first.code),
        "page": first.page,
        "groups": [_failure(result, names, studio, evidence) for result, names in groups],
        "repros": list(repros),
    }


def _anchor(severity: Severity, code: str) -> str:
    return f"{code}-{severity.value}"


def _alike(first: Result, second: Result) -> bool:
    """Whether two loaders failed in the same way, so that one text serves both."""
    return (first.findings, first.reason, first.figures) == (second.findings, second.reason, second.figures)


def _failure(result: Result, loaders: Iterable[str], studio: FigureRenderer, evidence: Evidence) -> View:
    findings = [_finding(finding, evidence) for finding in result.findings[:_MOST_FINDINGS]]
    beyond = len(result.findings) - len(findings)
    return {
        "loaders": [loader for loader in loaders if loader],
        "reason": result.reason and evidence.short(result.reason),
        "findings": findings[:_UNFOLDED_FINDINGS],
        "folded": findings[_UNFOLDED_FINDINGS:],
        "beyond": beyond and f"{counted(beyond, 'more findings')}: the JSON report has all",
        "figures": [studio.draw(figure) for figure in result.figures],
    }


def _finding(finding: Finding, evidence: Evidence) -> View:
    return {
        "message": evidence.short(finding.message),
        "place": evidence.place(finding),
        "what": finding.at.what if finding.at and finding.at.what else "",
        "source": once(finding, evidence.quoted),
        "evidence": evidence.rows(finding.evidence),
    }


def _aside(result: Result, studio: FigureRenderer, evidence: Evidence) -> View:
    """A result that is known: its reason, and in a line what was found."""
    return {
        "id": result.id,
        "severity": result.severity.value,
        "reason": evidence.short(result.reason or ""),
        "messages": [evidence.short(finding.message) for finding in result.findings[:_UNFOLDED_FINDINGS]],
        "beyond": max(len(result.findings) - _UNFOLDED_FINDINGS, 0),
        "figures": [studio.draw(figure) for figure in result.figures],
    }


def _broken(result: Result, evidence: Evidence) -> View:
    messages = [evidence.short(finding.message) for finding in result.findings]
    return {
        "id": result.id,
        "messages": messages,
        "trace": evidence.short(result.reason or "no reason given").strip("\n"),
    }


def _reasons(results: Sequence[Result], every: tuple[str, ...], evidence: Evidence) -> Iterator[View]:
    for reason, members in by_reason(results):
        yield {
            "reason": evidence.short(reason or "no reason given"),
            "checks": checks_and_loaders(members, every, named=True),
            "found": [
                (result.code, evidence.short(finding.message)) for result in members for finding in result.findings
            ],
        }


def _passed(result: Result) -> View:
    return {
        "code": f"{result.code}-{result.name}",
        "loader": result.loader,
        "exercised": ", ".join(exercised(result)),
        "seconds": duration(result.seconds) if result.seconds >= NOTABLE_SECONDS else "",
    }
