"""JUnit XML with the names and outcomes that the tests of `pytest --dataguard` have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree as Xml

from dataguard.core.model import Doc, Report, Result, Severity, Status
from dataguard.render.ci.project import bounded, clean, thresholds
from dataguard.render.escapes import without_commands
from dataguard.render.text import render_result
from dataguard.settings.target_spelling import shown_target

_NOT_XML = re.compile("[^\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST_CHARACTERS = 50_000
"""Of one text: the stacks of all processes of a hanging loader fit, output without end does not."""


def render(report: Report, docs: Mapping[str, Doc], *, unicode: bool = True, **look: Any) -> str:
    """Return a test suite for each loader, with a test case for each check; `look` is ignored."""
    report = bounded(report)
    fail_on, undecided_fails = thresholds(report)
    root = Xml.Element("testsuites", name="dataguard")
    suites: dict[str, Xml.Element] = {}
    for result in report.results:
        name = ":".join(filter(None, (shown_target(result.target) or ", ".join(report.targets), result.loader)))
        if name not in suites:
            suites[name] = Xml.SubElement(root, "testsuite", name=_clean(name))
        suites[name].append(_case(result, docs.get(result.code), fail_on, undecided_fails=undecided_fails))
    for suite in suites.values():
        _count(suite)
    for suite in root[:1]:
        if report.notes:
            Xml.SubElement(suite, "system-out").text = _clean("\n".join(report.notes))
    _count(root, report.seconds)
    Xml.indent(root)
    encoding = "utf-8" if unicode else "us-ascii"
    text: bytes = Xml.tostring(root, encoding=encoding, xml_declaration=True)
    return f"{without_commands(text.decode())}\n"


def _case(result: Result, doc: Doc | None, fail_on: Severity, *, undecided_fails: bool) -> Xml.Element:
    """A test case with the outcome that pytest gives it."""
    case = Xml.Element("testcase", classname="dataguard", name=_clean(result.id), time=f"{result.seconds:.3f}")
    facts = dict(_properties(result, fail_on))
    if facts:
        properties = Xml.SubElement(case, "properties")
        for name, value in facts.items():
            Xml.SubElement(properties, "property", name=_clean(name), value=_clean(str(value)))
    reason = _clean(result.reason or "")
    message = _clean("; ".join(finding.message for finding in result.findings[:20]))
    if result.status is Status.FAILED and result.severity.rank <= fail_on.rank:
        Xml.SubElement(case, "failure", message=message).text = _clean(render_result(result, doc))
    elif result.status is Status.BROKEN:
        Xml.SubElement(case, "error", message="a bug in dataguard, not in the loader").text = reason
    elif result.status is Status.INCONCLUSIVE and undecided_fails:
        Xml.SubElement(case, "failure", message=f"inconclusive: {reason}")
    elif result.status is Status.INCONCLUSIVE:
        Xml.SubElement(case, "skipped", type="pytest.skip", message=f"inconclusive: {reason}")
    elif result.status is Status.SKIPPED:
        Xml.SubElement(case, "skipped", type="pytest.skip", message=reason)
    elif result.status is Status.EXPECTED:
        Xml.SubElement(case, "skipped", type="pytest.xfail", message=reason).text = message
    return case


def _properties(result: Result, fail_on: Severity) -> Iterator[tuple[str, object]]:
    yield from ((f"exercised {unit}", count) for unit, count in result.exercised.items())
    if result.status is Status.PASSED and result.reason:
        yield "dataguard note", f"passed: {result.reason}"
    elif result.status is Status.FAILED and result.severity.rank > fail_on.rank:
        messages = "; ".join(finding.message for finding in result.findings[:20])
        yield "dataguard note", f"{result.severity.value}: {messages}"


def _count(element: Xml.Element, seconds: float | None = None) -> None:
    """Set the number of tests, failures, errors and skipped tests below an element, and the time they took."""
    cases = list(element.iter("testcase"))
    counts = {"tests": len(cases)}
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        counts[name] = sum(case.find(tag) is not None for case in cases)
    element.attrib |= {name: str(count) for name, count in counts.items()}
    total = sum(float(case.attrib["time"]) for case in cases) if seconds is None else seconds
    element.set("time", f"{total:.3f}")


def _clean(words: str) -> str:
    return _NOT_XML.sub("\ufffd", clean(words, _MOST_CHARACTERS))
