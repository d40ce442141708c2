"""Scan every hostile loader with all checks, and print a table: `python -m tests.bench.hostile [PATTERN]`."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tests.hostile.arena import Outcome, arena
from tests.hostile.declared import Hostile, declared


def problems(hostile: Hostile, outcome: Outcome) -> list[str]:
    """What is wrong with the outcome of a scan with all checks: nothing, if all is well."""
    broken = [result["code"] for result in outcome.results if result["status"] == "broken"]
    code = hostile.expected.code
    found = {
        f"exit code {outcome.code}": outcome.code not in (0, 1),
        f"broken: {', '.join(broken)}": broken,
        f"no {code}": code and code not in outcome.failed,
        f"left: {outcome.left}": outcome.left,
    }
    return [words for words, wrong in found.items() if wrong]


def main(pattern: str = "") -> None:
    """Print the table."""
    rows, good = [], 0
    with tempfile.TemporaryDirectory() as folder, arena(Path(folder)) as place:
        for hostile in (one for one in declared() if re.search(pattern, one.target)):
            outcome = place.scan_for(hostile, everything=True)
            wrong = problems(hostile, outcome)
            good += not wrong
            named = ", ".join(outcome.failed) or "passes"
            rows.append(f"| {hostile.name} | {'; '.join(wrong) or named} | {outcome.seconds:.1f} s |")
            print(rows[-1], flush=True)  # noqa: T201 - the product
    print(f"\n{good} of {len(rows)}")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:2])
