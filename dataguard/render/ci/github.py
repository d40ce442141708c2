"""The log of a GitHub Actions job: the report in a group that unfolds, then an annotation for each place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dataguard.core.model import Doc, Finding, Report, Severity, Status
from dataguard.render.ci.project import Project, bounded, clean
from dataguard.render.summary import counts
from dataguard.render.text import render as render_text

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report, docs: Mapping[str, Doc], *, unicode: bool = True, **look: Any) -> str:
    """Return the text report and workflow commands; `look` is that of text."""
    report = bounded(report)
    report_text = render_text(report, docs, unicode=unicode, **look).rstrip("\n")
    text = "\n".join(["::group::dataguard", report_text, "::endgroup::", *_annotations(report, docs), ""])
    return text if unicode else text.encode("ascii", "backslashreplace").decode()


def _annotations(report: Report, docs: Mapping[str, Doc]) -> Iterator[str]:
    """The commands, the worst finding first, because GitHub shows the first ten of each level."""
    project = Project.of(report)
    for result in report.defects:
        places: dict[tuple[str, int | None], list[Finding]] = {}
        for finding in result.findings:
            places.setdefault(project.place(result, finding), []).append(finding)
        for (file, line), (first, *others) in places.items():
            words = first.message + (f" (and {len(others)} more)" if others else "")
            where = f"at: {first.at.what}" if first.at and first.at.what else ""
            fix = first.evidence.get("fix here") or (docs[result.code].fix if result.code in docs else "")
            yield _command(
                *(
                    _LEVELS[result.severity],
                    "\n".join(filter(None, (words, where, f"fix: {fix}" if fix else "", first.repro))),
                ),
                file=file,
                line=line,
                title=result.id,
            )
    for result in report.results:
        if result.status is Status.BROKEN:
            yield _command("error", result.reason or "", title=f"a bug in dataguard: {result.id}")
        elif result.stale:
            yield _command("notice", result.reason or "", title=result.id)
    for note in report.notes:
        yield _command("notice", note, title="dataguard")
    yield _command("notice", counts(report), title="dataguard")


def _command(level: str, words: str, **properties: str | int | None) -> str:
    given = ",".join(f"{key}={_property(clean(str(value)))}" for key, value in properties.items() if value is not None)
    return f"::{level} {given}::{_data(clean(words))}"


def _data(words: str) -> str:
    return words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(words: str) -> str:
    return _data(words).replace(":", "%3A").replace(",", "%2C")
