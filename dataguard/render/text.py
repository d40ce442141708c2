"""The human-readable report: findings with evidence, cause and fix, what was not decided, and a summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.text import Text

from dataguard.core.model import ISSUES, Doc, Location, Report, Result, Status
from dataguard.machine.units import counted
from dataguard.render.escapes import one_line
from dataguard.render.layout import Page
from dataguard.render.summary import (
    COLOURS,
    MARKS,
    by_cause,
    duration,
    identity,
    not_judged,
    severities,
    write_failure,
    write_lines,
    write_summary,
    write_table,
    write_untested,
)

_VERSIONS = ("dataguard", "python", "torch")
UNSET: tuple[object, ...] = (None, (), [], {})
NOTABLE_SECONDS = 0.05
"""The time of a check is shown from this many seconds on."""
BUG = "a bug in dataguard, not in your code"
REQUEST = (
    f"Please report it at {ISSUES} "
    "with the lines above, the output of `dataguard --version` and, if you can, the loader."
)
_MOST_NAMED = 3
"""Up to this many checks are listed by code and name, more by code only."""


def render(
    report: Report,
    docs: Mapping[str, Doc],
    *,
    width: int = 100,
    colour: bool = False,
    verbosity: int = 0,
    unicode: bool = True,
    statistics: bool = False,
) -> str:
    """Return the report as text of `width` columns; the findings stand at its end, one line each, worst first.

    `docs` gives cause and fix by code. `verbosity` is -1 for findings only, 0 by default, and 1 to list passed and
    skipped checks too and abbreviate nothing. With `statistics` findings are only counted, by check. Without `unicode`
    the text is pure ASCII.
    """
    page = Page.blank(width, colour=colour, unicode=unicode)
    if verbosity >= 0:
        _header(page, report, verbosity)
    if not statistics:
        _failures(page, report, docs, verbosity)
    if verbosity >= 0:
        _expected(page, report)
        _caveats(page, report, verbosity)
        undecided = [result for result in report.results if result.status is Status.INCONCLUSIVE]
        _reasons(page, report, Status.INCONCLUSIVE.value, undecided, verbosity)
    if verbosity > 0:
        for words, results in not_judged(report).items():
            _reasons(page, report, words, results, verbosity)
        _passes(page, report)
    _broken(page, report, verbosity)
    if verbosity >= 0:
        _notes(page, report)
    if verbosity == 0:
        write_untested(page, report)
    write_summary(page, report, verbosity, statistics=statistics)
    return page.finish()


def render_result(
    result: Result,
    doc: Doc | None,
    *,
    width: int = 100,
    colour: bool = False,
) -> str:
    """Return one failed result as it appears in the report."""
    page = Page.blank(width, colour=colour, unicode=True)
    write_failure(page, result, doc, verbosity=0)
    return page.finish()


def _header(page: Page, report: Report, verbosity: int) -> None:
    page.put(page.text("dataguard ", "bold") + page.text(one_line(", ".join(report.targets))))
    if verbosity > 0:
        for title, values in (("environment", report.environment), ("settings", report.settings)):
            page.put(f"  {title}")
            write_table(page, {key: value for key, value in values.items() if value not in UNSET}, verbosity)
    else:
        page.put(page.text(" · ".join(versions(report)), "dim"))
    page.put()


def versions(report: Report) -> list[str]:
    """The versions that the report was made with: `torch 2.15.0`."""
    packages = report.environment.get("packages")
    facts = {**report.environment, **(packages if isinstance(packages, Mapping) else {})}
    return [f"{name} {facts[name]}" for name in _VERSIONS if name in facts]


def _failures(page: Page, report: Report, docs: Mapping[str, Doc], verbosity: int) -> None:
    failed = report.defects
    loaders = dict.fromkeys(result.loader for result in report.results)
    groups = [
        (loader, members) for loader in loaders if (members := [result for result in failed if result.loader == loader])
    ]
    explained: dict[str, str] = {}
    quoted: set[Location] = set()
    for loader, members in sorted(groups, key=lambda group: group[1][0].severity.rank):
        page.rule(loader or "target", severities(members), style=MARKS[members[0].severity][1])
        for result, *effects in by_cause(members):
            page.put()
            above = explained.get(result.code)
            doc = docs.get(result.code)
            write_failure(page, result, doc, verbosity, effects=effects, explained_under=above, quoted=quoted)
            explained.setdefault(result.code, loader or "the target")
        page.put()


def _expected(page: Page, report: Report) -> None:
    expected = [result for result in report.results if result.status is Status.EXPECTED]
    _title(page, Status.EXPECTED.value, len(expected))
    for result in expected:
        page.put(identity(page, result) + page.text(f" ({result.severity.value}): {result.reason}"), lead="  ")
        for finding in result.findings[:1]:
            more = f" (and {len(result.findings) - 1} more)" if len(result.findings) > 1 else ""
            page.put(page.text(page.short(finding.message) + more, "dim"), lead="    ")
    page.put()


def _caveats(page: Page, report: Report, verbosity: int) -> None:
    """Passed checks with a note: all of them if verbose, else those whose expectation the user should remove."""
    passed = [result for result in report.results if result.status is Status.PASSED and result.reason]
    noted = [result for result in passed if result.stale or verbosity > 0]
    if noted:
        page.put(page.text(f"passed, with a note ({len(noted)})", "bold"))
    _groups(page, noted, report, verbosity=0)


def _reasons(page: Page, report: Report, words: str, results: Sequence[Result], verbosity: int) -> None:
    _title(page, words, len(results))
    _groups(page, results, report, verbosity)


def _groups(page: Page, results: Sequence[Result], report: Report, verbosity: int) -> None:
    """Write each reason once, and below it the checks it applies to, with loaders unless it applies to all."""
    every = tuple(dict.fromkeys(result.loader for result in report.results))
    for reason, stopped in by_reason(results):
        full = verbosity > 0 or len({result.code for result in stopped}) <= _MOST_NAMED
        parts = [page.text(words, "dim") for words in checks_and_loaders(stopped, every, named=full)]
        headline, *rest = page.short(reason or "no reason given").split("\n")
        page.put("\n".join([headline, *rest]) if verbosity > 0 else headline + " …" * bool(rest), lead="  ")
        page.flow(parts, lead="    ", between="; ")
        for result in stopped:
            for finding in result.findings:
                page.put(page.short(finding.message), lead=f"    {result.code} found: ")
    if results:
        page.put()


def by_reason(results: Iterable[Result]) -> Iterator[tuple[str | None, list[Result]]]:
    """The results of each reason, in the order of the reasons' first results."""
    groups: dict[str | None, list[Result]] = {}
    for result in results:
        groups.setdefault(result.reason, []).append(result)
    yield from groups.items()


def checks_and_loaders(results: Sequence[Result], every: tuple[str, ...], *, named: bool) -> list[str]:
    """`DG204, DG205 [train]`: checks that share their loaders, which are left out if they are `every` loader."""
    loaders_of: dict[str, tuple[str, ...]] = {}
    for result in results:
        loaders_of[result.code] = (*loaders_of.get(result.code, ()), result.loader)
    names = {result.code: f"{result.code}-{result.name}" if named else result.code for result in results}
    return [
        ", ".join(names[code] for code, its in loaders_of.items() if its == loaders)
        + ("" if loaders == every or not any(loaders) else f" [{one_line(', '.join(loaders))}]")
        for loaders in dict.fromkeys(loaders_of.values())
    ]


def _passes(page: Page, report: Report) -> None:
    passed = [result for result in report.results if result.status is Status.PASSED]
    _title(page, Status.PASSED.value, len(passed))
    column = max((len(result.id) for result in passed), default=0)
    for result in passed:
        counts = [page.text(count) for count in exercised(result)]
        if result.seconds >= NOTABLE_SECONDS:
            counts.append(page.text(duration(result.seconds), "dim"))
        name = identity(page, result)
        if column + 2 + 30 <= page.console.width:
            name.pad_right(column - name.cell_len)
            page.flow(counts, lead=Text("  ") + name + "  ")
        else:
            page.put(name, lead="  ")
            page.flow(counts, lead="    ")
    if passed:
        page.put()


def exercised(result: Result) -> list[str]:
    """What a result is based on: `80 draws`."""
    return [counted(count, units) for units, count in result.exercised.items()] or ["nothing counted"]


def _broken(page: Page, report: Report, verbosity: int) -> None:
    broken = [result for result in report.results if result.status is Status.BROKEN]
    if not broken:
        return
    page.rule("broken", BUG, style=COLOURS[Status.BROKEN])
    page.put()
    for result in broken:
        page.put(identity(page, result), lead="  ")
        for finding in result.findings:
            page.put(page.short(finding.message), lead="    found before it broke: ")
        write_lines(page, (result.reason or "no reason given").strip("\n").split("\n"), verbosity, "    ")
        page.put()
    page.put(REQUEST)
    page.put()


def _notes(page: Page, report: Report) -> None:
    for note in report.notes:
        page.put(page.short(note), lead=page.text("note: ", "bold"))
    if report.notes:
        page.put()


def _title(page: Page, words: str, count: int) -> None:
    if count:
        colour = next((colour for status, colour in COLOURS.items() if status.value == words), "")
        page.put(page.text(f"{words} ({count})", f"bold {colour}".strip()))
