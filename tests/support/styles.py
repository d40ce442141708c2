"""The loaders of `tests/loaders/styles`: whether the one bug of each is reported, and at a marked line.

`python -m tests.support.styles [WORD]...` prints where the findings of all loaders are, or of those whose names hold a
word, and a table by code.
"""

from __future__ import annotations

import ast
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from dataguard.checks import CATALOGUE
from dataguard.core.model import Finding, Result, Status
from dataguard.process.start_methods import examine
from dataguard.settings.settings import Settings, chosen

ROOT = Path(__file__).parents[2]
STYLES = ROOT / "tests" / "loaders" / "styles"
MARK = "# culprit"
MARKED, NOT_FOUND = "at a marked line", "not found"
MOST = 40
"""Loaders in one scan."""


def loaders() -> list[str]:
    """All loaders, as `module:function`."""
    files = sorted(file for file in STYLES.glob("*.py") if not file.stem.startswith("_"))
    return [
        f"{file.stem}:{node.name}"
        for file in files
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("dg")
    ]


def code_of(loader: str) -> str:
    """The check that is to report a loader."""
    return loader.partition(":")[2].partition("_")[0].upper()


def found(names: Sequence[str]) -> dict[str, str]:
    """For each loader, `MARKED`, `NOT_FOUND`, or the place of its first finding: the places of all count in pairs."""
    results = results_of(names)
    return {name: place_of(results[name].findings) if name in results else NOT_FOUND for name in names}


def results_of(names: Sequence[str]) -> dict[str, Result]:
    """The failed result of each loader whose bug is found."""
    results: dict[str, Result] = {}
    for start in range(0, len(names), MOST):
        results |= _scanned(names[start : start + MOST])
    return results


def _scanned(names: Sequence[str]) -> dict[str, Result]:
    by_loader = {name.replace(":", "."): name for name in names}
    os.environ["FACES"] = " ".join(f"tests.loaders.styles.{name}" for name in names)
    with examine("tests.loaders.faces:named", Settings(timeout=60)) as session:
        pairs = [
            (check, loader)
            for loader in session.loaders()
            for check in chosen(CATALOGUE, Settings(select=(code_of(by_loader[_of(loader)]),)))
        ]
        results = [result for _, result in session.judge_all(pairs)]
    return {by_loader[_of(result.loader)]: result for result in results if result.status is Status.FAILED}


def _of(loader: str) -> str:
    """The name of a factory's loader, which may be one of a pair."""
    return ".".join(loader.split(".")[:2])


def place_of(findings: Iterable[Finding]) -> str:
    """`MARKED` if the first finding is at such a line, else where it is."""
    at = next(iter(findings)).at
    if at is None or not at.file or not at.line:
        return str(at)
    file = Path(at.file)
    if MARK in file.read_text(encoding="utf-8").splitlines()[at.line - 1]:
        return MARKED
    return f"{file.relative_to(ROOT) if file.is_relative_to(ROOT) else file}:{at.line}"


def main(words: Sequence[str]) -> None:
    """Print the places, and a table by code."""
    places = found([name for name in loaders() if not words or any(word in name for word in words)])
    counts: dict[str, Counter[str]] = {}
    for name, place in places.items():
        print(f"{name}  {place}")  # noqa: T201
        kind = place if place in (MARKED, NOT_FOUND) else "elsewhere"
        counts.setdefault(code_of(name), Counter())[kind] += 1
    print(f"\n{'code':6} loaders found marked elsewhere")  # noqa: T201
    for code, count in [*sorted(counts.items()), ("all", sum(counts.values(), Counter()))]:
        total, missing = sum(count.values()), count[NOT_FOUND]
        print(f"{code:6} {total:7} {total - missing:5} {count[MARKED]:6} {count['elsewhere']:9}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
