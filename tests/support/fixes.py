"""How many findings about code say what to write: `python -m tests.support.fixes [CODE | WORD]...`.

It counts the recorded faces of all checks, or those of some; with words that are no codes, it scans the loaders of
`tests/loaders/styles` whose names hold one of them (`all` holds for each), which takes minutes.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from dataguard.checks import CATALOGUE
from dataguard.core.model import Finding
from dataguard.core.statements import statement_at
from tests.support.plain_json import decoded
from tests.support.recordings import recordings
from tests.support.styles import code_of, loaders, results_of

LINE, NAMES, SENTENCE, NONE = "line", "names", "sentence", "none"
"""Python to write; a sentence with Python in it; another sentence; nothing."""
_CODE = re.compile(r"\w\(|\w\[|\w\.\w|\w=\w|\w_\w")


def kind_of(fix: object) -> str:
    """What a `fix here` is."""
    if not fix:
        return NONE
    text = str(fix).partition("  # with ")[0]
    try:
        tree = ast.parse(f"{text} pass" if text.endswith(":") else text)
    except SyntaxError:
        return NAMES if _CODE.search(text) else SENTENCE
    return LINE if tree.body else SENTENCE


def applied(finding: Finding) -> str | None:
    """The file of a finding with its `fix here` in place of the line; None if that is no line to write."""
    at, fix = finding.at, str(finding.evidence.get("fix here") or "")
    statement = statement_at(at.file, at.line) if at and at.file and at.line else None
    if at is None or statement is None or kind_of(fix) != LINE:
        return None
    text, _, before = fix.partition("  # with ")
    source = Path(at.file or "").read_text(encoding="utf-8")
    lines = source.split("\n")
    first, last = statement.lines
    indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
    lines[first - 1 : last] = [f"{indent}{one}" for one in (before, text) if one]
    future = "from __future__ import annotations"
    used = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    imports = [f"import {name}" for name in _MODULES if f"{name}." in fix and name not in used]
    return "\n".join(lines).replace(future, "\n".join([future, *imports]), 1)


_MODULES = ("cv2", "itertools", "os", "re", "torch", "torch.utils.data", "torch.distributed", "torchvision.transforms")


def recorded(codes: Sequence[str]) -> Iterator[tuple[str, str, Finding]]:
    """The code, the face and the first finding of each recorded face whose finding has a line."""
    for check in CATALOGUE:
        if codes and check.code not in codes:
            continue
        for name, recording in recordings(check.stem).items():
            findings = recording.verdict[0] if name.startswith("bad") else ()
            first: Finding | None = decoded(findings[0]) if findings else None
            if first and first.at and first.at.line:
                yield check.code, name, first


def scanned(words: Sequence[str]) -> Iterator[tuple[str, str, Finding]]:
    """The same for the loaders of styles whose names hold a word."""
    names = [name for name in loaders() if "all" in words or any(word in name for word in words)]
    for name, result in results_of(names).items():
        first = result.findings[0]
        if first.at and first.at.line:
            yield code_of(name), name, first


def main(words: Sequence[str]) -> None:
    """Print each face with its `fix here`, and a table by code."""
    codes = [word for word in words if word.startswith("DG")]
    counts: dict[str, Counter[str]] = {}
    for code, name, finding in scanned(words) if words and not codes else recorded(codes):
        fix = finding.evidence.get("fix here")
        print(f"{code} {name}: {kind_of(fix)}: {fix}")  # noqa: T201
        counts.setdefault(code, Counter())[kind_of(fix)] += 1
    kinds = (LINE, NAMES, SENTENCE, NONE)
    print(f"\n{'code':6} faces {' '.join(f'{kind:>8}' for kind in kinds)}")  # noqa: T201
    for code, count in [*sorted(counts.items()), ("all", sum(counts.values(), Counter()))]:
        print(f"{code:6} {sum(count.values()):5} {' '.join(f'{count[kind]:8}' for kind in kinds)}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
