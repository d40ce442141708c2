"""The human-readable report: findings first, with evidence, cause and fix; then what was not decided; a summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from dataguard.model import Doc, Report, Result, Severity, Status
from dataguard.render.failure import MARKS, identity, write_failure, write_lines, write_table
from dataguard.render.layout import Page

_ORDER = (Status.BROKEN, Status.PASSED, Status.EXPECTED, Status.INCONCLUSIVE, Status.SKIPPED)
_COLOURS = {
    Status.EXPECTED: "blue",
    Status.INCONCLUSIVE: "yellow",
    Status.BROKEN: "bold magenta",
    Status.PASSED: "green",
}
_VERSIONS = ("dataguard", "python", "torch")
_UNSET: tuple[object, ...] = (None, (), [], {})
_SINGULAR = {"batches": "batch", "indices": "index", "leaves": "leaf", "processes": "process"}
_NOTABLE = 0.05
"""The time of a check is shown from this many seconds on."""
_NAMED = 3
"""Up to this many checks are listed by code and name, more by code only."""


def render(
    report: Report,
    docs: Mapping[str, Doc],
    *,
    width: int = 100,
    colour: bool = False,
    verbosity: int = 0,
    unicode: bool = True,
) -> str:
    """Return the report as text of `width` columns.

    `docs` gives cause and fix by code. `verbosity` is -1 for findings and summary only, 0 by default, and 1 to list
    passed checks and abbreviate nothing. Without `unicode` the text is pure ASCII.
    """
    page = Page.blank(width, colour=colour, unicode=unicode)
    if verbosity >= 0:
        _header(page, report, verbosity)
    _failures(page, report, docs, verbosity)
    if verbosity >= 0:
        _expected(page, report)
        _caveats(page, report)
        _reasons(page, report, Status.INCONCLUSIVE, verbosity)
        _reasons(page, report, Status.SKIPPED, verbosity)
    if verbosity > 0:
        _passes(page, report)
    _broken(page, report, verbosity)
    if verbosity >= 0:
        _notes(page, report)
    _summary(page, report, verbosity)
    return page.finish()


def render_result(
    result: Result,
    doc: Doc | None,
    *,
    width: int = 100,
    colour: bool = False,
    verbosity: int = 0,
    unicode: bool = True,
) -> str:
    """Return one failed result as it appears in the report."""
    page = Page.blank(width, colour=colour, unicode=unicode)
    write_failure(page, result, doc, verbosity)
    return page.finish()


def _header(page: Page, report: Report, verbosity: int) -> None:
    page.put(page.text("dataguard ", "bold") + page.text(", ".join(report.targets)))
    if verbosity > 0:
        for title, values in (("environment", report.environment), ("settings", report.settings)):
            page.put(f"  {title}")
            write_table(page, {key: value for key, value in values.items() if value not in _UNSET}, verbosity)
    else:
        packages = report.environment.get("packages")
        versions = {**report.environment, **(packages if isinstance(packages, Mapping) else {})}
        known = [f"{name} {versions[name]}" for name in _VERSIONS if name in versions]
        page.put(page.text(" · ".join(known), "dim"))
    page.put()


def _failures(page: Page, report: Report, docs: Mapping[str, Doc], verbosity: int) -> None:
    failed = [result for result in report.results if result.status is Status.FAILED]
    failed.sort(key=lambda result: result.severity.rank)
    loaders = dict.fromkeys(result.loader for result in report.results)
    groups = [(loader, own) for loader in loaders if (own := [result for result in failed if result.loader == loader])]
    explained: dict[str, str] = {}
    for loader, own in sorted(groups, key=lambda group: group[1][0].severity.rank):
        page.rule(loader or "target", _severities(own), style=MARKS[own[0].severity][1])
        for result in own:
            page.put()
            write_failure(page, result, docs.get(result.code), verbosity, explained_under=explained.get(result.code))
            explained.setdefault(result.code, loader or "the target")
        page.put()


def _expected(page: Page, report: Report) -> None:
    found = [result for result in report.results if result.status is Status.EXPECTED]
    _title(page, Status.EXPECTED, len(found))
    for result in found:
        page.put(identity(page, result) + page.text(f" ({result.severity.value}): {result.reason}"), lead="  ")
        for finding in result.findings[:1]:
            more = f" (and {len(result.findings) - 1} more)" if len(result.findings) > 1 else ""
            page.put(page.text(page.short(finding.message) + more, "dim"), lead="    ")
    page.put()


def _caveats(page: Page, report: Report) -> None:
    noted = [result for result in report.results if result.status is Status.PASSED and result.reason]
    if noted:
        page.put(page.text(f"passed, with a note ({len(noted)})", "bold"))
    _groups(page, noted, report, verbosity=0)


def _reasons(page: Page, report: Report, status: Status, verbosity: int) -> None:
    results = [result for result in report.results if result.status is status]
    _title(page, status, len(results))
    _groups(page, results, report, verbosity)


def _groups(page: Page, results: Sequence[Result], report: Report, verbosity: int) -> None:
    """Write each reason once, and below it the checks it applies to, with loaders unless it applies to all."""
    every = tuple(dict.fromkeys(result.loader for result in report.results))
    for reason in dict.fromkeys(result.reason for result in results):
        stopped = [result for result in results if result.reason == reason]
        loaders_of: dict[str, tuple[str, ...]] = {}
        for result in stopped:
            loaders_of[result.code] = (*loaders_of.get(result.code, ()), result.loader)
        names = {result.code: f"{result.code}-{result.name}" for result in stopped}
        full = verbosity > 0 or len(names) <= _NAMED
        parts = [
            page.text(
                ", ".join(names[code] if full else code for code, its in loaders_of.items() if its == loaders)
                + ("" if loaders == every or not any(loaders) else f" [{', '.join(loaders)}]"),
                "dim",
            )
            for loaders in dict.fromkeys(loaders_of.values())
        ]
        headline, *rest = page.short(reason or "no reason given").split("\n")
        page.put("\n".join([headline, *rest]) if verbosity > 0 else headline + " …" * bool(rest), lead="  ")
        page.flow(parts, lead="    ", between="; ")
        for result in stopped:
            for finding in result.findings:
                page.put(page.short(finding.message), lead=f"    {result.code} found: ")
    if results:
        page.put()


def _passes(page: Page, report: Report) -> None:
    passed = [result for result in report.results if result.status is Status.PASSED]
    _title(page, Status.PASSED, len(passed))
    column = max((len(result.id) for result in passed), default=0)
    for result in passed:
        looked = [page.text(count) for count in _counts(result.exercised)]
        if result.seconds >= _NOTABLE:
            looked.append(page.text(_duration(result.seconds), "dim"))
        name = identity(page, result)
        if column + 2 + 30 <= page.console.width:
            name.pad_right(column - name.cell_len)
            page.flow(looked, lead=Text("  ") + name + "  ")
        else:
            page.put(name, lead="  ")
            page.flow(looked, lead="    ")
    if passed:
        page.put()


def _broken(page: Page, report: Report, verbosity: int) -> None:
    broken = [result for result in report.results if result.status is Status.BROKEN]
    if not broken:
        return
    page.rule("broken", "a bug in dataguard, not in your code", style=_COLOURS[Status.BROKEN])
    page.put()
    for result in broken:
        page.put(identity(page, result), lead="  ")
        for finding in result.findings:
            page.put(page.short(finding.message), lead="    found before it broke: ")
        write_lines(page, (result.reason or "no reason given").strip("\n").split("\n"), verbosity, "    ")
        page.put()
    page.put("Please report it with the lines above, the output of `dataguard --version` and, if you can, the loader.")
    page.put()


def _notes(page: Page, report: Report) -> None:
    for note in report.notes:
        page.put(page.short(note), lead=page.text("note: ", "bold"))
    if report.notes:
        page.put()


def _summary(page: Page, report: Report, verbosity: int) -> None:
    failed = [result for result in report.results if result.status is Status.FAILED]
    passed = [result for result in report.results if result.status is Status.PASSED]
    failed.sort(key=lambda result: result.severity.rank)
    broken = report.count(Status.BROKEN)
    style = _COLOURS[Status.BROKEN] if broken else _COLOURS[Status.PASSED] if passed else "bold yellow"
    style = MARKS[failed[0].severity][1] if failed else style
    page.rule(style=style)
    parts = [page.text(f"✗ {len(failed)} failed", style) + f" ({_severities(failed)})"] if failed else []
    if not report.results:
        parts = [page.text("no check ran: none was selected, or the target has no loader", style)]
    elif not failed and not broken:
        parts = [page.text("✓ no findings" if passed else "no check reached a verdict", style)]
    counted = ((status, report.count(status)) for status in _ORDER)
    parts += [page.text(f"{count} {status.value}", _COLOURS.get(status, "")) for status, count in counted if count]
    page.flow([*parts, page.text(_duration(report.seconds), "dim")])
    if passed and verbosity <= 0:
        first, *others = _counts(_most(passed))
        page.flow(map(page.text, (f"passes are based on up to {first}", *others)))
    if failed:
        codes = list(dict.fromkeys(result.code for result in failed))
        page.put(f"learn more: `dataguard explain {' '.join(codes[:_NAMED])}`", fold=False)
    elif passed and verbosity <= 0:
        page.put("learn more: `-v` lists the passed checks")


def _title(page: Page, status: Status, count: int) -> None:
    if count:
        page.put(page.text(f"{status.value} ({count})", f"bold {_COLOURS.get(status, '')}".strip()))


def _severities(results: Iterable[Result]) -> str:
    ranks = [result.severity for result in results]
    counted = ((severity.value, ranks.count(severity)) for severity in Severity)
    return ", ".join(f"{count} {word}{'s' if count > 1 else ''}" for word, count in counted if count)


def _most(results: Iterable[Result]) -> Mapping[str, int]:
    most: dict[str, int] = {}
    for result in results:
        for unit, count in result.exercised.items():
            most[unit] = max(count, most.get(unit, 0))
    return {unit: count for unit, count in most.items() if count}


def _counts(exercised: Mapping[str, int]) -> list[str]:
    return [f"{count:,} {_unit(unit, count)}" for unit, count in exercised.items()] or ["nothing counted"]


def _unit(unit: str, count: int) -> str:
    if count != 1:
        return unit
    *before, last = unit.split()
    return " ".join([*before, _SINGULAR.get(last, last.removesuffix("s"))])


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
