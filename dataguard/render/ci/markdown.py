"""Markdown for the summary of a CI job or a comment: the verdict, a table of findings, and their details, folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from html import escape
from typing import Any

from dataguard.core.model import Check, Doc, Finding, Report, Result, Status
from dataguard.machine.checkup import Checkup
from dataguard.machine.units import counted
from dataguard.measured import Bench
from dataguard.render import machine, timings
from dataguard.render.ci.project import Project, bounded, clean
from dataguard.render.escapes import one_line, without_commands
from dataguard.render.layout import fold
from dataguard.render.summary import MARKS, counts

LARGEST = 1_000_000
"""GitHub shows no summary of more than 1 MiB."""
_SPECIAL = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)|_(?=_)|(?<=_)_|:(?=//|[\w+-]+:)|(?<=www)\.")
"""What is markup where it stands: `_` inside a word is not."""
_BLOCK = re.compile(r"[#+=-]|\d+[.)]")
"""What begins a heading, a list or a rule."""
_MENTION = re.compile(r"[@#](?=\w)")
_INVISIBLE = "\u200b"
_MOST_FINDINGS = 5
"""Of one check: more make the comment long, and the JSON report has all."""
_MOST_ROWS = 200
"""Of one table: more would be read by nobody there; the JSON report has all."""
_MOST_CHARACTERS = 2_000
"""Of one value of the evidence."""
_OTHERS = (Status.BROKEN, Status.EXPECTED, Status.INCONCLUSIVE)


def render(report: Report, docs: Mapping[str, Doc], *, unicode: bool = True, **look: Any) -> str:
    """Return the report as GitHub-flavoured Markdown of at most 1 MB; `look` is ignored."""
    report = bounded(report)
    parts = [f"## dataguard: {_safe(counts(report))}", "", f"Target: {_safe(', '.join(report.targets))}", ""]
    room = LARGEST - sum(map(_weight, parts))
    project = Project.of(report)
    details = (_details(project, result, docs.get(result.code)) for result in report.defects)
    blocks = [_table(project, report), *_others(report), *details]
    for number, block in enumerate(blocks):
        room -= _weight(block)
        if room < 200:
            parts.append(f"… {counted(len(blocks) - number, 'more sections')} left out: the report is too long\n")
            break
        parts.append(block)
    return _encoded(without_commands("\n".join(parts)), unicode=unicode)


def render_bench(bench: Bench, *, unicode: bool = True, **look: Any) -> str:
    """Return the text of the measurements in a code block; `look` is ignored."""
    return f"## dataguard bench\n\n{_block(timings.render(bench, unicode=unicode))}"


def render_checkup(seen: Checkup, *, unicode: bool = True, **look: Any) -> str:
    """Return the text of `dataguard doctor` in a code block; `look` is ignored."""
    return _encoded(f"## dataguard doctor\n\n{_block(machine.render(seen))}", unicode=unicode)


def render_checks(checks: Iterable[Check], *, unicode: bool = True, **look: Any) -> str:
    """Return a table of checks; `look` is ignored."""
    rows = [f"| {check.id} | {check.severity.value} | {_safe(check.doc.summary)} |\n" for check in checks]
    return _encoded("| check | severity | what it reports |\n|---|---|---|\n" + "".join(rows), unicode=unicode)


def _weight(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace")) + 1


def _encoded(text: str, *, unicode: bool) -> str:
    return text if unicode else text.encode("ascii", "xmlcharrefreplace").decode()


def _table(project: Project, report: Report) -> str:
    """A row for each failed check."""
    failed = report.defects
    if not failed:
        return ""
    rows = ["| | check | loader | where | finding |\n|---|---|---|---|---|\n"]
    for result in failed[:_MOST_ROWS]:
        first, more = result.findings[0], len(result.findings) - 1
        file, line = project.place(result, first)
        cells = (
            f"{MARKS[result.severity][0]} {result.severity.value}",
            f"{result.code}-{result.name}",
            _safe(result.loader),
            _safe(f"{file}:{line}" if line else file),
            _safe(clean(first.message, 300)) + (f" (and {more} more)" if more else ""),
        )
        rows.append(f"| {' | '.join(cells)} |\n")
    if len(failed) > _MOST_ROWS:
        rows.append(f"\n… and {counted(len(failed) - _MOST_ROWS, 'more findings')}\n")
    return "".join(rows)


def _details(project: Project, result: Result, doc: Doc | None) -> str:
    """Evidence, cause, fix and repro of a failed check, folded."""
    parts = [f"<details><summary>{_html(result.id)}</summary>"]
    shown = result.findings[:_MOST_FINDINGS]
    for finding in shown:
        parts += [f"**{_safe(finding.message)}**", *_evidence(project, finding)]
    if len(result.findings) > len(shown):
        parts.append(f"… and {counted(len(result.findings) - len(shown), 'more findings')}")
    if result.reason:
        parts.append(f"Note: {_safe(result.reason)}")
    if doc:
        parts += ["**Cause**", doc.cause, "**Fix**", doc.fix, f"<{result.page}>"]
    repros = dict.fromkeys(finding.repro for finding in shown if finding.repro)
    parts += [_block("\n".join(clean(repro) for repro in repros))] if repros else []
    return "\n\n".join([*parts, "</details>\n"])


def _evidence(project: Project, finding: Finding) -> Iterator[str]:
    """A list of what fits on a line each, and a code block for each text of several lines."""
    at = finding.at
    if at and at.file:
        at = replace(at, file=project.relative(at.file) or at.file)
    location = [f"- at {_safe(str(at))}"] if at and str(at) else []
    values = {_safe(str(name)): fold(value) for name, value in finding.evidence.items()}
    lines = [
        f"- {name}: {_safe(clean(value, _MOST_CHARACTERS))}" for name, value in values.items() if "\n" not in value
    ]
    if location or lines:
        yield "\n".join([*location, *lines])
    if at and finding.source:
        yield _block(clean(finding.source.marked(at.line)))
    for name, value in values.items():
        if "\n" in value:
            yield f"{name}:\n\n{_block(clean(value, _MOST_CHARACTERS))}"


def _others(report: Report) -> Iterator[str]:
    """What is no finding: bugs, known findings, what was not decided, expectations to remove, notes."""
    lists = {
        status.value: [
            ": ".join(
                [result.id, result.reason or "no reason given", *(finding.message for finding in result.findings[:1])]
            )
            for result in report.results
            if result.status is status
        ]
        for status in _OTHERS
    }
    lists["expected, but passed"] = [f"{result.id}: {result.reason}" for result in report.results if result.stale]
    lists["notes"] = list(report.notes)
    for title, entries in lists.items():
        if entries:
            items = "".join(f"- {_safe(clean(entry, 1_000))}\n" for entry in entries)
            yield f"<details><summary>{title} ({len(entries)})</summary>\n\n{items}\n</details>\n"


def _safe(words: str) -> str:
    """Words of the user as plain text on one line of Markdown: no markup, no link, no mention."""
    line = _line(words).strip()
    return _INVISIBLE * bool(_BLOCK.match(line)) + _text(_SPECIAL.sub(r"\\\g<0>", line))


def _html(words: str) -> str:
    """Words of the user as plain text in HTML."""
    return _text(_line(words))


def _text(words: str) -> str:
    return escape(_MENTION.sub(rf"\g<0>{_INVISIBLE}", words), quote=False)


def _line(words: str) -> str:
    return one_line(clean(words))


def _block(text: str) -> str:
    """A code block whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}\n"
