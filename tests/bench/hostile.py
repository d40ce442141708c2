"""Scan every hostile loader with all checks: `python -m tests.bench.hostile [PATTERN]`.

Each is a line on stderr; stdout has the counts, as a markdown table.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections import Counter
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
    counts: Counter[str] = Counter()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, arena(Path(folder)) as place:
        for hostile in (one for one in declared() if re.search(pattern, one.target)):
            outcome = place.scan_for(hostile, everything=True)
            wrong = problems(hostile, outcome)
            counts["wrong" if wrong else "named by a finding" if outcome.failed else "pass"] += 1
            named = "; ".join(wrong) or ", ".join(outcome.failed) or "passes"
            sys.stderr.write(f"{hostile.name}: {named}, {outcome.seconds:.1f} s\n")
    sys.stdout.write("| hostile loaders | all checks |\n|---|---|\n")
    for words, count in [*sorted(counts.items()), ("all", counts.total())]:
        sys.stdout.write(f"| {words} | {count} |\n")
    sys.stdout.write(f"\nThe scans took {time.monotonic() - started:.0f} s.\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
