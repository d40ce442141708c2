"""Markdown for the summary of a CI job or a comment: the verdict, a table of findings, and their details, folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dataguard.machine.checkup import Checkup
from dataguard.machine.units import counted
from dataguard.model import Check, Doc, Finding, Report, Result, Status
from dataguard.render import machine, timings
from dataguard.render.ci.project import Project, cut
from dataguard.render.escapes import without_commands
from dataguard.render.failure import MARKS
from dataguard.render.layout import fold
from dataguard.render.summary import WORDS, verdict
from dataguard.timings import Bench, Change

LARGEST = 1_000_000
"""GitHub shows no summary of more than 1 MiB."""
_SPECIAL = re.compile(r"[&<>\\`*_\[\]|~@#$]|:(?=//|[\w+-]+:)|(?<=www)\.")
_ROWS = 200
_OTHERS = (Status.BROKEN, Status.EXPECTED, Status.INCONCLUSIVE)


def render(report: Report, docs: Mapping[str, Doc], *, unicode: bool = True, **look: Any) -> str:
    """Return the report as GitHub-flavoured Markdown of at most 1 MB; `look` is ignored."""
    parts = [f"## dataguard: {_safe(verdict(report))}", "", f"Target: {_safe(', '.join(report.targets))}", ""]
    room = LARGEST - sum(map(_weight, parts))
    blocks = [_table(report), *_others(report), *(_details(one, docs.get(one.code)) for one in report.failed)]
    for number, block in enumerate(blocks):
        room -= _weight(block)
        if room < 200:
            parts.append(f"… {counted(len(blocks) - number, 'more sections')} left out: the report is too long\n")
            break
        parts.append(block)
    return _encoded(without_commands("\n".join(parts)), unicode=unicode)


def render_bench(bench: Bench, found: Iterable[Change] = (), *, unicode: bool = True, **look: Any) -> str:
    """Return the text of the measurements in a code block; `look` is ignored."""
    return f"## dataguard bench\n\n{_block(timings.render(bench, tuple(found), unicode=unicode))}"


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


def _table(report: Report) -> str:
    """A row for each failed check."""
    failed = report.failed
    if not failed:
        return ""
    project = Project.of(report)
    rows = ["| | check | loader | where | finding |\n|---|---|---|---|---|\n"]
    for result in failed[:_ROWS]:
        first, more = result.findings[0], len(result.findings) - 1
        file, line = project.place(result, first)
        cells = (
            f"{MARKS[result.severity][0]} {result.severity.value}",
            f"{result.code}-{result.name}",
            _safe(result.loader),
            _safe(f"{file}:{line}" if line else file),
            _safe(cut(first.message, 300)) + (f" (and {more} more)" if more else ""),
        )
        rows.append(f"| {' | '.join(cells)} |\n")
    if len(failed) > _ROWS:
        rows.append(f"\n… and {counted(len(failed) - _ROWS, 'more findings')}\n")
    return "".join(rows)


def _details(result: Result, doc: Doc | None) -> str:
    """Evidence, cause, fix and repro of a failed check, folded."""
    lines = [f"<details><summary>{_safe(result.id)}</summary>\n"]
    shown = result.findings[:20]
    for finding in shown:
        lines += [f"**{_safe(finding.message)}**\n", *_evidence(finding)]
    if len(result.findings) > len(shown):
        lines.append(f"… and {counted(len(result.findings) - len(shown), 'more findings')}\n")
    if result.reason:
        lines.append(f"Note: {_safe(result.reason)}\n")
    if doc:
        lines += [f"**Cause:** {doc.cause}\n", f"**Fix:** {doc.fix}\n"]
    repros = dict.fromkeys(finding.repro for finding in shown if finding.repro)
    lines += [_block("\n".join(cut(repro) for repro in repros))] if repros else []
    return "\n".join([*lines, "</details>\n"])


def _evidence(finding: Finding) -> Iterator[str]:
    at = finding.at
    if at and str(at):
        yield f"- at {_safe(str(at))}"
    for name, value in finding.evidence.items():
        yield f"- {_safe(str(name).replace('_', ' '))}: {_safe(cut(fold(value), 1_000))}"
    yield ""


def _others(report: Report) -> Iterator[str]:
    """What is no finding: bugs, known findings, what was not decided, expectations to remove, notes."""
    lists = {
        WORDS.get(status, status.value): [
            f"{result.id}: {result.reason or 'no reason given'}" for result in report.results if result.status is status
        ]
        for status in _OTHERS
    }
    lists["expected, but passed"] = [f"{result.id}: {result.reason}" for result in report.results if result.stale]
    lists["notes"] = list(report.notes)
    for title, entries in lists.items():
        if entries:
            items = "".join(f"- {_safe(cut(entry, 1_000))}\n" for entry in entries)
            yield f"<details><summary>{title} ({len(entries)})</summary>\n\n{items}\n</details>\n"


def _safe(words: str) -> str:
    """Words of the user as plain text on one line: no markup, no link, no mention."""
    line = cut(words).replace("\n", "\\n")
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", line).replace("&#64;", "&#64;\u200b")


def _block(text: str) -> str:
    """A code block whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}\n"
