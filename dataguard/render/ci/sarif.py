"""SARIF 2.1.0, for GitHub code scanning and editors.

Only defects are results. What was not decided, notes, and bugs of dataguard are notifications, because code scanning
opens an alert for each result, whatever its kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from dataguard.baseline import identity
from dataguard.core.model import Doc, Finding, Report, Result, Severity, SourceLines, Status
from dataguard.render.ci.project import Project, bounded, clean, thresholds
from dataguard.render.json import written

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "dataguard/v1"
_REPORTED = (Status.FAILED, Status.EXPECTED)
_MOST_RESULTS = 25_000
"""Code scanning refuses a file with more results."""


def render(report: Report, docs: Mapping[str, Doc], *, unicode: bool = True, **look: Any) -> str:
    """Return the report as a SARIF log; `look` is ignored."""
    report = bounded(report)
    project = Project.of(report)
    codes = sorted({result.code for result in report.results if result.status in (*_REPORTED, Status.INCONCLUSIVE)})
    index = {code: number for number, code in enumerate(codes)}
    reported = sorted(
        (result for result in report.results if result.status in _REPORTED),
        key=lambda result: (result.status is Status.EXPECTED, result.severity.rank, result.code),
    )
    results = [
        _result(project, result, finding, index[result.code]) for result in reported for finding in result.findings
    ]
    rules = [_rule([result for result in report.results if result.code == code], docs.get(code)) for code in codes]
    run = {
        "tool": {"driver": {"name": "dataguard", **_version(report), "rules": rules}},
        "invocations": [_invocation(report, index)],
        "columnKind": "unicodeCodePoints",
        "results": results[:_MOST_RESULTS],
    }
    return written({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, unicode=unicode)


def _version(report: Report) -> dict[str, str]:
    packages = report.environment.get("packages")
    versions = {**report.environment, **(packages if isinstance(packages, Mapping) else {})}
    return {"semanticVersion": str(versions["dataguard"])} if "dataguard" in versions else {}


def _rule(results: list[Result], doc: Doc | None) -> dict[str, Any]:
    first = min(results, key=lambda result: result.severity.rank)
    rule: dict[str, Any] = {
        "id": first.code,
        "name": "".join(word.capitalize() for word in first.name.split("-")),
        "helpUri": first.page,
        "defaultConfiguration": {"level": first.severity},
        "properties": {
            "tags": ["data-loading", "pytorch"],
            "precision": "high",
            "problem.severity": {Severity.NOTE: "recommendation"}.get(first.severity, first.severity.value),
        },
    }
    if doc is None:
        return rule
    parts = {
        "Symptom": doc.symptom,
        "Cause": doc.cause,
        "Fix": doc.fix,
        "Links": "\n".join(f"<{link}>" for link in doc.links),
    }
    shown = {title: text for title, text in parts.items() if text}
    return {
        **rule,
        "shortDescription": {"text": doc.summary},
        "fullDescription": {"text": f"{doc.summary} {' '.join(doc.cause.split())}"[:1000]},
        "help": {
            "text": "\n\n".join(f"{title}: {text}" for title, text in shown.items()),
            "markdown": "\n\n".join(f"## {title}\n\n{text[:1].upper() + text[1:]}" for title, text in shown.items()),
        },
    }


def _result(project: Project, result: Result, finding: Finding, rule: int) -> dict[str, Any]:
    at = finding.at
    path = at.what if at and at.what else None
    names = [(result.loader or "loader", "resource"), *([(path, "member")] if path else [])]
    file, line = project.place(result, finding)
    location: dict[str, Any] = {"artifactLocation": {"uri": quote(clean(file)), "uriBaseId": "%SRCROOT%"}}
    if line:
        location |= _regions(line, finding.source)
    logical = [{"name": clean(name), "fullyQualifiedName": clean(name), "kind": kind} for name, kind in names]
    written = {
        "ruleId": result.code,
        "ruleIndex": rule,
        "level": result.severity,
        "message": {"text": _message(result, finding)},
        "locations": [{"physicalLocation": location, "logicalLocations": logical}],
        "partialFingerprints": {FINGERPRINT: identity(result, finding).digest},
        "properties": {"evidence": {clean(str(name)): _short(value) for name, value in finding.evidence.items()}},
    }
    if result.status is Status.EXPECTED:
        written["suppressions"] = [{"kind": "external", "justification": clean(result.reason or "expected")}]
    return written


def _regions(line: int, source: SourceLines | None) -> dict[str, Any]:
    """The line that is marked, and the lines around it, with their text."""
    if source is None:
        return {"region": {"startLine": line}}
    last = source.first + len(source.lines) - 1
    around = {"startLine": source.first, "endLine": last, "snippet": {"text": clean("\n".join(source.lines))}}
    return {
        "region": {"startLine": line, "snippet": {"text": clean(source.lines[line - source.first])}},
        "contextRegion": around,
    }


def _short(value: Any) -> Any:
    """A number as it is, any other value as text."""
    return value if value is None or isinstance(value, bool | int | float) else clean(str(value), 1_000)


def _message(result: Result, finding: Finding) -> str:
    """What is wrong, and what to write in its place: code scanning shows no properties."""
    words = f"{finding.message} [{result.loader}]" if result.loader else finding.message
    fix = finding.evidence.get("fix here")
    return _plain(f"{words}\nfix: {fix}" if fix else words)


def _plain(words: str) -> str:
    """A message without the two characters that begin the target of a link."""
    return clean(words).replace("](", "] (")


def _invocation(report: Report, index: Mapping[str, int]) -> dict[str, Any]:
    fail_on, undecided_fails = thresholds(report)
    code = report.exit_code(fail_on, fail_on_undecided=undecided_fails)
    invocation: dict[str, Any] = {"executionSuccessful": code < 3, "exitCode": code}
    said = [*_notifications(report, index)]
    return {**invocation, "toolExecutionNotifications": said} if said else invocation


def _notifications(report: Report, index: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    for result in report.results:
        about = f"{result.id}: {result.reason or 'no reason given'}"
        if result.status is Status.BROKEN:
            yield {"level": "error", "message": {"text": _plain(f"a bug in dataguard: {about}")}}
        elif result.status is Status.INCONCLUSIVE:
            rule = {"id": result.code, "index": index[result.code]}
            yield {"level": "warning", "message": {"text": _plain(f"not decided: {about}")}, "associatedRule": rule}
        elif result.stale:
            yield {"level": "note", "message": {"text": _plain(about)}}
    yield from ({"level": "note", "message": {"text": _plain(note)}} for note in report.notes)
