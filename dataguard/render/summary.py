"""Failed checks as text: each with evidence, cause and fix, and the end of a report with a line for each.

`write_failure` writes one failed check. `write_summary` writes the last lines of a report: a line for each finding,
worst first, and a line of counts. Results with one cause, such as a generator that repeats its numbers in workers and
in epochs, are one failure and one line (`by_cause`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from dataguard.core.model import TO_DECLARE, UNTESTED, Doc, Finding, Location, Report, Result, Severity, Status
from dataguard.machine.units import counted
from dataguard.render.escapes import one_line
from dataguard.render.layout import Page, fold, middle_out
from dataguard.settings.target_spelling import ROLE_UNKNOWN

MARKS = {
    Severity.ERROR: ("✗", "bold red"),
    Severity.WARNING: ("!", "bold yellow"),
    Severity.NOTE: ("i", "bold blue"),
}


def write_failure(
    page: Page,
    result: Result,
    doc: Doc | None,
    verbosity: int,
    *,
    effects: Sequence[Result] = (),
    explained_under: str | None = None,
    quoted: set[Location] | None = None,
) -> None:
    """Write a failed result, with the other `effects` of its cause.

    `explained_under` names the loader under which cause and fix were already written; `quoted`, the places of which the
    source was already written.
    """
    quoted = set() if quoted is None else quoted
    mark, style = MARKS[result.severity]
    names = Text(", ").join(identity(page, effect) for effect in (result, *effects))
    page.put(names, lead=page.text(f"{mark} {result.severity.value} ", style), fold=False)
    shown = result.findings if verbosity > 0 else result.findings[:_MOST_FINDINGS]
    for number, finding in enumerate(shown, start=1):
        others = [effect.findings[0].message for effect in effects]
        lead = f"  {number}. " if len(result.findings) > 1 else "  "
        _finding(page, finding, lead, verbosity, others, quoted)
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


_MOST_FINDINGS = 5
"""Findings of one check that are written without -v."""


def identity(page: Page, result: Result) -> Text:
    """Return the stable, selectable name of a result."""
    loader = page.text(f"[{one_line(result.loader)}]" if result.loader else "", "dim")
    return page.text(f"{result.code}-{result.name}", "bold") + loader


def _label(page: Page, word: str) -> Text:
    return page.text(f"  {word:<5}  ", "bold")


def _finding(
    page: Page, finding: Finding, lead: str, verbosity: int, others: Sequence[str], quoted: set[Location]
) -> None:
    indent = " " * len(lead)
    for message in (finding.message, *others):
        page.put(page.text(page.short(message), "bold"), lead=lead)
        lead = f"{indent}and "
    if finding.at and str(finding.at):
        page.put(_place_of(page, finding.at), lead=page.text(f"{indent}→ ", "bold"), fold=False)
        if verbosity >= 0:
            _write_source(page, once(finding, quoted), indent)
    unsaid = {key: value for key, value in finding.evidence.items() if not _is_said(value, finding.message)}
    write_table(page, unsaid, verbosity, indent)


def _is_said(value: object, message: str) -> bool:
    """Whether a message has the words of a row of evidence: programs read both, a reader needs them once."""
    return isinstance(value, str) and len(value) >= _FEWEST_SAID and value in message


_FEWEST_SAID = 20
"""Characters from which on words in a message are not there by chance."""


def once(finding: Finding, quoted: set[Location]) -> list[tuple[int, bool, str]]:
    """The lines of source of a finding, each with its number and whether it is the place; none the second time."""
    at, source = finding.at, finding.source
    if at is None or source is None or (key := Location(at.file, at.line)) in quoted:
        return []
    quoted.add(key)
    return [(number, number == at.line, line) for number, line in source.numbered]


def _write_source(page: Page, lines: list[tuple[int, bool, str]], indent: str) -> None:
    """Write each line with its number, cropped to the width, and mark the place."""
    column = max((len(str(number)) for number, _, _ in lines), default=0)
    for number, marked, line in lines:
        lead = page.text(f"{indent}  {'>' if marked else ' '} {number:>{column}}  ", "bold" if marked else "dim")
        text = Text(page.clean(line), "" if marked else "dim")
        room = max(page.console.width - lead.cell_len, _LEAST_SOURCE)
        if text.cell_len > room:
            more = page.clean(" …")
            text.truncate(room - len(more))
            text.append(more)
        page.put(text, lead=lead, fold=False)


_LEAST_SOURCE = 12
"""The fewest columns of a line of source."""


def _place_of(page: Page, at: Location) -> Text:
    if not at.file:
        return page.text(at.what or "")
    location = page.text(page.short(at.file if at.line is None else f"{at.file}:{at.line}"), "cyan")
    return location + page.text(f" in {at.what}") if at.what else location


def write_table(page: Page, values: Mapping[str, object], verbosity: int, indent: str = "  ") -> None:
    """Write keys and values in two columns; the lines of a stack go below their key."""
    narrow = page.console.width < 60
    column = min(max((len(str(key)) for key in values), default=0), 12 if narrow else 26)
    for key, value in values.items():
        lead = page.text(f"{indent}  {key!s:<{column}}  ", "dim")
        lines = page.short(fold(value, full=verbosity > 0)).strip("\n").split("\n")
        if isinstance(value, Mapping) and len(lines[0]) > _ONE_ROW:
            _rows(page, value, lead, verbosity)
            continue
        if len(lines) == 1:
            page.put(lines[0], lead=lead)
            continue
        page.put(lead)
        write_lines(page, lines, verbosity, f"{indent}    ")


_ONE_ROW = 60
"""A mapping of more characters than this gets one row for each key."""


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


_STACK_LINES = 14
"""Lines of a stack or of output that are written without -v: the first and the last ones, which say most."""


def write_summary(page: Page, report: Report, verbosity: int, *, statistics: bool) -> None:
    """Write the findings, or with `statistics` their number for each check, and the counts of all results."""
    failed = report.defects
    page.rule(style=_style(report, failed))
    if statistics:
        _write_statistics(page, failed)
    else:
        _write_lines(page, list(lines(failed)))
    _write_counts(page, report, failed, verbosity)


COLOURS = {
    Status.EXPECTED: "blue",
    Status.INCONCLUSIVE: "yellow",
    Status.BROKEN: "bold magenta",
    Status.PASSED: "green",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line: the checks that failed at one place for one cause, on one loader or more."""

    effects: tuple[Result, ...]
    loaders: tuple[str, ...]

    @property
    def result(self) -> Result:
        """The first of these checks."""
        return self.effects[0]

    @property
    def first(self) -> Finding:
        """The finding that the line shows."""
        return self.result.findings[0]


def lines(failed: Iterable[Result]) -> Iterator[Line]:
    """One line for each check and place: loaders that share a class share its defects."""
    groups: dict[tuple[object, ...], list[tuple[Result, ...]]] = {}
    for effects in by_cause(failed):
        first = effects[0].findings[0]
        location = (first.at.file, first.at.line) if first.at and first.at.line else first.message
        codes = tuple(result.code for result in effects)
        groups.setdefault((effects[0].severity, codes, location), []).append(effects)
    for causes in groups.values():
        yield Line(causes[0], tuple(effects[0].loader or "target" for effects in causes))


def by_cause(results: Iterable[Result]) -> list[tuple[Result, ...]]:
    """Failed results in groups, each with one cause: the finding of a loader at one place that one line fixes."""
    groups: dict[object, list[Result]] = {}
    for result in results:
        first, *others = result.findings
        ungrouped = others or not first.at or not first.at.line or "fix here" not in first.evidence
        key = (
            result.id
            if ungrouped
            else (result.target, result.loader, result.severity, first.at, str(first.evidence["fix here"]))
        )
        groups.setdefault(key, []).append(result)
    return [tuple(group) for group in groups.values()]


def _write_lines(page: Page, lines: list[Line]) -> None:
    shown = lines[:_MOST_LINES]
    codes = [", ".join(result.code for result in line.effects) for line in shown]
    names = [_names(line.loaders, min(_WIDEST_COLUMN, page.console.width // 4)) for line in shown]
    places = [_place(page, line.first) for line in shown]
    columns = [
        max((len(word) for word in words if len(word) <= _WIDEST_COLUMN), default=0) if page.console.width >= 60 else 0
        for words in (codes, names, places)
    ]
    for line, code, name, location in zip(shown, codes, names, places, strict=True):
        mark, style = MARKS[line.result.severity]
        head = page.text(f"{mark} {code:<{columns[0]}}", style) + page.text(f" {name:<{columns[1]}}  ")
        if location:
            head = head + page.text(f"{location:<{columns[2]}}  ", "cyan")
        _write_line(page, head, line.first.message, len(line.result.findings) - 1)
    if len(lines) > len(shown):
        page.put(f"… and {len(lines) - len(shown)} more above")


def _names(loaders: Sequence[str], widest: int) -> str:
    """The loaders of a line, or the first one and how many others."""
    every = one_line(", ".join(loaders))
    return every if len(every) <= widest or len(loaders) == 1 else f"{one_line(loaders[0])} +{len(loaders) - 1}"


_MOST_LINES = 8
"""The most findings in one line each, so that the last ten lines of any report hold the worst."""
_WIDEST_COLUMN = 32
"""The widest column of codes, loaders or locations; a longer entry shifts the rest of its line."""


def _write_line(page: Page, head: Text, message: str, others: int) -> None:
    """Write a message in one line, cut at a word to what the width leaves."""
    more = f" (and {others} more)" if others else ""
    kept, *words = page.clean(page.short(message)).split() or [""]
    room = max(page.console.width - head.cell_len - len(more), _LEAST_MESSAGE)
    while words and cell_len(f"{kept} {words[0]}") <= room - (2 if words[1:] else 0):
        kept += f" {words.pop(0)}"
    page.put(page.text(kept + " …" * bool(words) + more), lead=head, fold=False)


_LEAST_MESSAGE = 24
"""The fewest columns of a message; a line exceeds the width rather than say less."""


def _place(page: Page, finding: Finding) -> str:
    at = finding.at
    if at is None or not at.file:
        return ""
    return page.clean(page.short(at.file if at.line is None else f"{at.file}:{at.line}"))


def _write_statistics(page: Page, failed: Sequence[Result]) -> None:
    """Write how many findings each check has, and on which loaders."""
    for code in dict.fromkeys(result.code for result in failed):
        results_of_code = [result for result in failed if result.code == code]
        mark, style = MARKS[results_of_code[0].severity]
        count = sum(len(result.findings) for result in results_of_code)
        loaders = one_line(", ".join(result.loader or "target" for result in results_of_code))
        head = page.text(f"{count:>6,}  ") + page.text(f"{mark} {code}-{results_of_code[0].name}", style)
        page.put(head + page.text(f"  {loaders}", "dim"), fold=False)


def _write_counts(page: Page, report: Report, failed: Sequence[Result], verbosity: int) -> None:
    parts = []
    if failed or not report.count(Status.BROKEN):
        mark = "✓ " if not failed and report.count(Status.PASSED) and not report.hampered else ""
        some_mild = any(result.severity is not Severity.ERROR for result in failed)
        parts.append(page.text(mark + verdict(report), _style(report, failed)))
        parts[0].append(f" ({severities(failed)})" if some_mild else "")
    counts = tally(report)
    if _adds_undecided(report):
        del counts[Status.INCONCLUSIVE]
    parts += [page.text(f"{count} {status.value}", COLOURS[status]) for status, count in counts.items()]
    kinds = [f"{len(results)} {words}" for words, results in not_judged(report).items()]
    hint = "" if verbosity > 0 or not kinds else " (-v)"
    parts += [page.text(words + hint * (words is kinds[-1]), "dim") for words in kinds]
    page.flow([*parts, page.text(duration(report.seconds), "dim")], between=" · " if page.unicode else " - ")


def write_untested(page: Page, report: Report) -> None:
    """Why most of the checks that were not tested were not, and so what to declare; roles have notes of their own.

    Nothing that could be declared helps a loader that did not run.
    """
    idle = {(result.target, result.loader) for result in report.results if result.stopped}
    untested = [one for one in report.results if one.untested and (one.target, one.loader) not in idle]
    suspicious = [one for one in untested if TO_DECLARE in (one.reason or "")]
    for code in dict.fromkeys(one.code for one in suspicious):
        own = [one for one in suspicious if one.code == code]
        loaders = ", ".join(dict.fromkeys(one.loader for one in own if one.loader))
        reason = one_line((own[0].reason or "").removeprefix(UNTESTED))
        page.put(page.text(f"{code} not tested{f' [{loaders}]' if loaders else ''}: {reason}"))
    untested = [one for one in untested if TO_DECLARE not in (one.reason or "")]
    reasons = Counter(result.reason or "" for result in untested)
    rest = Counter({reason: count for reason, count in reasons.items() if ROLE_UNKNOWN not in reason})
    named = [(reason, count) for reason, count in rest.most_common(_MOST_REASONS) if count > 1]
    for reason, count in named:
        page.put(page.text(f"{count} checks not tested: {one_line(reason.removeprefix(UNTESTED))}", "dim"))
    others = rest.total() - sum(count for _, count in named)
    if named and others:
        page.put(page.text(f"{counted(others, 'more checks')} not tested, for other reasons (-v)", "dim"))


_MOST_REASONS = 3
"""Reasons that are named: few declarations decide most of what was not tested."""


def severities(results: Iterable[Result]) -> str:
    """`2 errors, 1 warning`."""
    counts = Counter(result.severity for result in results)
    return ", ".join(counted(counts[severity], f"{severity.value}s") for severity in Severity if severity in counts)


def counts(report: Report) -> str:
    """The counts of all results in one line, as the text report ends."""
    page = Page.blank(10_000, colour=False, unicode=True)
    _write_counts(page, report, report.defects, verbosity=1)
    return page.finish().strip()


def duration(seconds: float) -> str:
    """`7.2 s`, `38 s`, `2 min 5 s`."""
    if seconds < 100:
        return f"{seconds:.{0 if seconds >= 10 else 1}f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def _style(report: Report, failed: Sequence[Result]) -> str:
    if failed:
        return MARKS[failed[0].severity][1]
    if report.count(Status.BROKEN):
        return COLOURS[Status.BROKEN]
    return COLOURS[Status.PASSED] if report.count(Status.PASSED) and not report.hampered else "bold yellow"


def verdict(report: Report) -> str:
    """What a report comes to, in a few words."""
    failed = report.defects
    if failed:
        return f"{len(failed)} failed"
    if not report.results:
        return "no check ran: none was selected, or the target has no loader"
    if report.count(Status.BROKEN):
        return f"{report.count(Status.BROKEN)} broken"
    if not report.count(Status.PASSED):
        return "no check reached a verdict"
    if report.hampered:
        return "most checks were prevented"
    return f"no findings, {report.count(Status.INCONCLUSIVE)} undecided" if _adds_undecided(report) else "no findings"


def _adds_undecided(report: Report) -> bool:
    """Whether the verdict says how many checks are undecided: there is nothing else to say."""
    unclean = report.defects or report.count(Status.BROKEN) or not report.count(Status.PASSED) or report.hampered
    return not unclean and report.count(Status.INCONCLUSIVE) > 0


def tally(report: Report) -> dict[Status, int]:
    """How many results have each status except failed and skipped, without the zeros, in the order of a report."""
    return {status: report.count(status) for status in _ORDER if report.count(status)}


_ORDER = (Status.BROKEN, Status.PASSED, Status.EXPECTED, Status.INCONCLUSIVE)


def not_judged(report: Report) -> dict[str, list[Result]]:
    """The skipped results by why: the loader did not run, nothing here could test it, or the check does not apply."""
    skipped = [result for result in report.results if result.status is Status.SKIPPED]
    kinds = {
        "not run": [result for result in skipped if result.stopped],
        "not tested": [result for result in skipped if result.untested],
        "not applicable": [result for result in skipped if not (result.stopped or result.untested)],
    }
    return {words: results for words, results in kinds.items() if results}
