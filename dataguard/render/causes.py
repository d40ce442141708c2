"""Findings that have one cause: one generator repeats its numbers in workers, and in epochs."""

from __future__ import annotations

from collections.abc import Iterable

from dataguard.model import Result


def by_cause(results: Iterable[Result]) -> list[tuple[Result, ...]]:
    """Failed results in groups, each with one cause: the finding of a loader at one place that one line fixes."""
    groups: dict[object, list[Result]] = {}
    for result in results:
        first, *others = result.findings
        alone = others or not first.at or not first.at.line or "fix here" not in first.evidence
        key = result.id if alone else (result.target, result.loader, result.severity, first.at)
        groups.setdefault(key, []).append(result)
    return [tuple(group) for group in groups.values()]
