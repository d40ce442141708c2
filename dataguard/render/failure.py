"""One failed check as text: the findings with their evidence, the cause and the fix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from dataguard.check_doc import Doc
from dataguard.machine.units import counted
from dataguard.model import Finding, Location, Result, Severity
from dataguard.render.escapes import one_line
from dataguard.render.layout import Page, fold, middle_out

MARKS = {
    Severity.ERROR: ("✗", "bold red"),
    Severity.WARNING: ("!", "bold yellow"),
    Severity.NOTE: ("i", "bold blue"),
}
_STACK_LINES = 14
_FINDINGS = 5
_ROW = 60
"""A mapping of more characters than this gets one row for each key."""


def write_failure(
    page: Page,
    result: Result,
    doc: Doc | None,
    verbosity: int,
    *,
    effects: Sequence[Result] = (),
    explained_under: str | None = None,
) -> None:
    """Write a failed result, with the other `effects` of its cause.

    `explained_under` names the loader under which cause and fix were already written.
    """
    mark, style = MARKS[result.severity]
    names = Text(", ").join(identity(page, effect) for effect in (result, *effects))
    page.put(names, lead=page.text(f"{mark} {result.severity.value} ", style), fold=False)
    shown = result.findings if verbosity > 0 else result.findings[:_FINDINGS]
    for number, finding in enumerate(shown, start=1):
        others = [effect.findings[0].message for effect in effects]
        _finding(page, finding, f"  {number}. " if len(result.findings) > 1 else "  ", verbosity, others)
        page.put()
    if len(shown) < len(result.findings):
        page.put(f"  … and {counted(len(result.findings) - len(shown), 'more findings')} (-v shows them)")
        page.put()
    if result.reason:
        page.put(result.reason, lead=_label(page, "note"))
    if explained_under is not None:
        page.put(f"as above, for {one_line(explained_under)}", lead=_label(page, "fix"))
    elif doc:
        page.prose(doc.cause, lead=_label(page, "cause"))
        page.prose(doc.fix, lead=_label(page, "fix"))
        for effect in (result, *effects):
            page.put(page.text(effect.page, "cyan"), lead=_label(page, "docs"), fold=False)
    shown += tuple(effect.findings[0] for effect in effects)
    for repro in dict.fromkeys(finding.repro for finding in shown if finding.repro):
        page.put(page.text(repro, "cyan"), lead=_label(page, "repro"), fold=False)


def _finding(page: Page, finding: Finding, lead: str, verbosity: int, others: Sequence[str]) -> None:
    indent = " " * len(lead)
    for message in (finding.message, *others):
        page.put(page.text(page.short(message), "bold"), lead=lead)
        lead = f"{indent}and "
    if finding.at and str(finding.at):
        page.put(_place(page, finding.at), lead=page.text(f"{indent}→ ", "bold"), fold=False)
    write_table(page, finding.evidence, verbosity, indent)


def _place(page: Page, at: Location) -> Text:
    if not at.file:
        return page.text(at.what or "")
    location = page.text(page.short(at.file if at.line is None else f"{at.file}:{at.line}"), "cyan")
    return location + page.text(f" in {at.what}") if at.what else location


def write_table(page: Page, values: Mapping[str, object], verbosity: int, indent: str = "  ") -> None:
    """Write keys and values in two columns; the lines of a stack go below their key."""
    narrow = page.console.width < 60
    column = min(max((len(str(key)) for key in values), default=0), 12 if narrow else 26)
    for key, value in values.items():
        lead = page.text(f"{indent}  {str(key).replace('_', ' '):<{column}}  ", "dim")
        lines = page.short(fold(value, full=verbosity > 0)).strip("\n").split("\n")
        if isinstance(value, Mapping) and len(lines[0]) > _ROW:
            _rows(page, value, lead, verbosity)
            continue
        if len(lines) == 1:
            page.put(lines[0], lead=lead)
            continue
        page.put(lead)
        write_lines(page, lines, verbosity, f"{indent}    ")


def _rows(page: Page, values: Mapping[str, object], lead: Text, verbosity: int) -> None:
    """Write a nested mapping, one row for each key."""
    for key, value in values.items():
        page.put(page.short(f"{key}: {fold(value, full=verbosity > 0)}"), lead=lead)
        lead = Text(" " * len(lead))


def write_lines(page: Page, lines: list[str], verbosity: int, indent: str) -> None:
    """Write a stack or program output line by line, keeping its indentation."""
    for line in lines if verbosity > 0 else middle_out(lines, _STACK_LINES):
        code = line.lstrip()
        page.put(Text(page.clean(code)), lead=indent + " " * min(len(line) - len(code), 8), hang=4)


def identity(page: Page, result: Result) -> Text:
    """Return the stable, selectable name of a result."""
    loader = page.text(f"[{one_line(result.loader)}]" if result.loader else "", "dim")
    return page.text(f"{result.code}-{result.name}", "bold") + loader


def _label(page: Page, word: str) -> Text:
    return page.text(f"  {word:<5}  ", "bold")
