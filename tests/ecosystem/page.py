"""The page docs/ecosystem.md: tables whose rows begin with the factory that they are about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module, metadata
from pathlib import Path

from dataguard.core.model import Status
from dataguard.report import Report
from tests.ecosystem.entries import BUGS, ENTRIES, VERDICTS, Entry

SCANS = "## What was scanned"
FINDINGS = "## Findings"
UNDECIDED = "## Undecided"
HEADS = {
    SCANS: "| factory | library | what | loaders | seconds | passed | skipped | undecided | findings |",
    FINDINGS: "| factory | check | loader | finding | verdict |",
    UNDECIDED: "| factory | check | loader | reason |",
}
NO_VERDICT = "no verdict yet"
RESEARCH = Path(__file__).with_name("research.md")
"""The last part of the page: repositories that were scanned and judged by hand."""

Tables = dict[str, dict[str, list[str]]]
"""The rows of each table, by factory."""

INTRODUCTION = """\
# Public libraries

The loaders of public libraries, written as their documentation says, on small data made on the spot. Nothing is
downloaded. `python -m tests.ecosystem` scans them with the default settings and writes this page (tokens that
have other names than `input_ids` are named in the contract); the factories are in
`tests/ecosystem`, and `pip install -e ".[ecosystem]"` installs the libraries. Each finding has our
verdict: a *real defect*, *intended by the library*, or a *false alarm* of dataguard.
"""


def rows_of(text: str) -> Tables:
    """The tables of a page, without what is no longer on the list."""
    tables: Tables = {title: {} for title in HEADS}
    listed = {entry.factory for entry in ENTRIES}
    title = ""
    for line in text.splitlines():
        title = line if line.startswith("## ") else title
        key = re.match(r"\| `([\w:]+)` \|", line)
        if key and title in tables and key[1] in listed:
            tables[title].setdefault(key[1], []).append(line)
    return tables


def add(tables: Tables, entry: Entry, report: Report | str) -> None:
    """Replace the rows of an entry by those of its report, or of the error that refused its loaders."""
    for table in tables.values():
        table.pop(entry.factory, None)
    library = f"{entry.library} {metadata.version(entry.library)}"
    module, _, function = entry.spelling.partition(":")
    what = (getattr(import_module(module), function).__doc__ or "").partition("\n")[0]
    if isinstance(report, str):
        tables[SCANS][entry.factory] = [_row(f"`{entry.factory}`", library, what, 0, 0, 0, 0, 0, f"refused: {report}")]
        return
    loaders = len({result.loader for result in report.results})
    counts = [report.count(status) for status in (Status.PASSED, Status.SKIPPED, Status.INCONCLUSIVE, Status.FAILED)]
    tables[SCANS][entry.factory] = [
        _row(f"`{entry.factory}`", library, what, loaders, f"{report.seconds:.0f}", *counts)
    ]
    for result in report.results:
        place = (f"`{entry.factory}`", result.code, result.loader)
        if result.status in (Status.FAILED, Status.BROKEN):
            said = "; ".join(finding.message for finding in result.findings) or f"broken: {result.reason}"
            rows = tables[FINDINGS].setdefault(entry.factory, [])
            rows.append(_row(*place, said, verdict_on(entry.factory, result.code)))
        if result.status is Status.INCONCLUSIVE:
            tables[UNDECIDED].setdefault(entry.factory, []).append(_row(*place, result.reason or ""))


def verdict_on(factory: str, code: str) -> str:
    """Our verdict, and why."""
    found = [one for one in VERDICTS if (one.factory, one.code) == (factory, code)]
    return f"*{found[0].verdict}*: {found[0].why}" if found else NO_VERDICT


def page(tables: Mapping[str, Mapping[str, list[str]]], made: str) -> str:
    """The page with these tables."""
    order = [entry.factory for entry in ENTRIES]
    parts = [INTRODUCTION, made, summary(tables), ""]
    for title, head in HEADS.items():
        rows = [row for factory in order for row in tables[title].get(factory, [])]
        parts += (
            [title, "", head, "|---" * (head.count("|") - 1) + "|", *rows, ""] if rows else [title, "", "None.", ""]
        )
    parts += ["## Defects of public releases", ""]
    parts += [f"- **{bug.library} {bug.version}**, `{bug.place}`: {bug.what}.\n\n{bug.reproduction}" for bug in BUGS]
    return "\n".join([*parts, RESEARCH.read_text(encoding="utf-8")]).rstrip() + "\n"


def summary(tables: Mapping[str, Mapping[str, list[str]]]) -> str:
    """How many libraries and loaders, how many results were undecided, and the verdicts."""
    cells = [row.split(" | ") for rows in tables[SCANS].values() for row in rows]
    libraries = {cell[1].rpartition(" ")[0] for cell in cells}
    loaders, passed, undecided, failed = (sum(_number(cell[place]) for cell in cells) for place in (3, 5, 7, 8))
    verdicts = [row.rpartition(" | ")[2] for rows in tables[FINDINGS].values() for row in rows]
    kinds = [f"{sum(kind in verdict for verdict in verdicts)} {kind}" for kind in ("real", "intended", "false")]
    share = undecided / max(passed + undecided + failed, 1)
    return (
        f"{len(libraries)} libraries, {loaders} loaders; {passed + undecided + failed:,} results of checks that apply, "
        f"{undecided} of them ({share:.1%}) undecided. Findings: {', '.join(kinds)}."
    )


def _row(*cells: object) -> str:
    escaped = (str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _number(cell: str) -> int:
    digits = re.match(r"\d+", cell)
    return int(digits[0]) if digits else 0
