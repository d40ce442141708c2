"""The JSON output of each command; `report.schema.json` next to this file describes that of a scan."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from enum import Enum
from numbers import Integral, Real
from typing import Any

from dataguard.core.model import Check, Doc, Finding, Report, Result
from dataguard.machine.checkup import Checkup
from dataguard.measured import Bench
from dataguard.render.escapes import json_without_commands

CHECKUP_SCHEMA, CHECKS_SCHEMA = "urn:dataguard:doctor:1", "urn:dataguard:checks:1"


def render(report: Report, docs: Mapping[str, Doc] | None = None, *, unicode: bool = True, **look: Any) -> str:
    """Return the report as indented JSON that ends in a newline; without `unicode`, as pure ASCII.

    `docs` and `look` are for human-readable formats and ignored here.
    """
    document = {
        "schema": report.schema,
        "version": report.version,
        "target": report.targets[0] if len(report.targets) == 1 else report.targets,
        "seconds": report.seconds,
        "environment": report.environment,
        "settings": report.settings,
        "notes": report.notes,
        "results": [_result(result) for result in report.results],
    }
    return written(document, unicode=unicode)


def render_bench(bench: Bench, **look: Any) -> str:
    """Return the measurements as a JSON object; `look` is ignored."""
    return json_without_commands(bench.to_json())


def render_checkup(seen: Checkup, *, unicode: bool = True, **look: Any) -> str:
    """Return the output of `dataguard doctor` as a JSON object; `look` is ignored."""
    problems, notes = (
        [{"what": remark.what, "advice": remark.advice} for remark in seen.remarks if remark.wrong == wrong]
        for wrong in (True, False)
    )
    machine = {field.name: getattr(seen.machine, field.name) for field in fields(seen.machine)}
    document = {
        "schema": CHECKUP_SCHEMA,
        "dataguard": seen.version,
        "problems": problems,
        "notes": notes,
        "machine": {**machine, "usable_cores": seen.machine.usable_cores, "thread_settings": seen.threads or {}},
        "libraries": seen.libraries,
    }
    return written(document, unicode=unicode)


def render_checks(checks: Iterable[Check], *, unicode: bool = True, **look: Any) -> str:
    """Return the output of `dataguard list` as a JSON object; `look` is ignored."""
    listed = [
        {"code": check.code, "name": check.name, "severity": check.severity, "summary": check.doc.summary}
        for check in checks
    ]
    return written({"schema": CHECKS_SCHEMA, "checks": listed}, unicode=unicode)


def written(document: Mapping[str, Any], *, unicode: bool) -> str:
    """A document of any values as indented JSON that ends in a newline; without `unicode`, as pure ASCII."""
    text = json.dumps(_plain(document), indent=2, ensure_ascii=not unicode, allow_nan=False)
    return json_without_commands(text) + "\n"


def _result(result: Result) -> dict[str, Any]:
    return {
        "code": result.code,
        "name": result.name,
        "severity": result.severity,
        "loader": result.loader,
        "status": result.status,
        "reason": result.reason,
        "exercised": result.exercised,
        "seconds": result.seconds,
        "findings": [_finding(finding) for finding in result.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "message": finding.message,
        "evidence": finding.evidence,
        "at": finding.at and asdict(finding.at),
        "source": finding.source and asdict(finding.source),
        "repro": finding.repro,
    }


def _plain(value: Any) -> Any:
    """Convert any value to portable JSON: no NaN, no lone surrogates, only strings as keys."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    if isinstance(value, Mapping):
        return {_words(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=str)
    return _words(value)


def _words(value: object) -> str:
    # A path that is not UTF-8 contains surrogates, which are invalid in JSON.
    return str(value).encode("utf-8", "backslashreplace").decode()
