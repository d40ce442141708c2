"""The text of docs/detection.md, from what was measured; `python -m tests.pages` writes it.

`python -m tests.support.record` judges the samples, `python -m tests.bench.mutation` tries the mutants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dataguard.checks import CATALOGUE
from tests.bench.mutation import FOUND
from tests.support.faces import samples
from tests.support.record import VERDICTS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "detection.md"
BENCHMARKS = ROOT / "docs" / "benchmarks.md"

INTRODUCTION = """\
# Detection

What the checks find, what they leave alone, and how closely their tests watch them. `python -m tests.pages` writes this
page from recorded measurements.
"""

SAMPLES = """\
## Samples

Each check has loaders that break its contract and healthy ones that look suspicious, in `sample_datasets/`. "Found"
counts loaders of the first kind that fail the check, "silent" those of the second that do not, of those that were
judged by it; "all" is how many there are. The machine was busy with other work. `DATAGUARD_EVERY_FACE=1 pytest
tests/checks` judges all samples, by every check.

| check | found | silent | all | measured |
|---|---|---|---|---|
"""

GENERATED = """\
## Generated loaders

Of loaders that are generated from descriptions, each with known verdicts, [the
benchmarks](benchmarks.md#generated-loaders) have the details.

| check | verdicts | right | wrong | undecided |
|---|---|---|---|---|
"""

MUTANTS = """\
## Mutants

A mutant is one change of the code that decides: a comparison, `and` or `or`, `not`, a number, an operator, a returned
value, or a finding or exception left out. `python -m tests.bench.mutation` tries a sample, the same each time, in every
module of `dataguard/checks` but those that draw figures, and in modules below them that decide; it runs the quick tests
that call the changed function. `--minutes` ends it early, with a random part of the sample. Judges are tested on
recorded observations of the samples (`tests/recordings`), and by hand. A mutant that reads what was not recorded counts
as noticed. A survivor is "explained" if `tests/bench/equivalent_mutants.json` has a reason for it: it changes nothing
that anyone could observe, or only a tolerance or a number of shown examples, for which a value nearby would do as well.
The score is the share of all mutants that a test notices, explained ones included.

"""


NOTES = {
    "DG601": "its bad loaders need a small /dev/shm: `tests/checks/machine`",
    "DG803": "it compares times, and decides nothing on a busy machine",
}
"""Why loaders of a check were not found, which are in tests of their own."""


def by_samples() -> Iterator[str]:
    verdicts = json.loads(VERDICTS.read_text(encoding="utf-8"))
    for check in CATALOGUE:
        row = verdicts.get(check.code)
        faces = samples(check)
        cells = [f"{row[kind][0]} of {row[kind][1]}" for kind in ("bad", "good")] if row else ["", ""]
        when = f"{row['date']}, torch {row['torch']}" if row else "not without a GPU"
        when += f"; {NOTES[check.code]}" if check.code in NOTES else ""
        yield f"| {check.id} | {cells[0]} | {cells[1]} | {len(faces)} | {when} |"


def by_generated() -> Iterator[str]:
    """The sums of each check's rows in the benchmarks."""
    rows: dict[str, list[int]] = {}
    for code, *numbers in re.findall(
        r"^\| (DG10\d) \| [a-z ]+ \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", BENCHMARKS.read_text(encoding="utf-8"), re.M
    ):
        before = rows.setdefault(code, [0, 0, 0, 0])
        rows[code] = [one + int(two) for one, two in zip(before, numbers, strict=True)]
    yield from (f"| {code} | {' | '.join(map(str, row))} |" for code, row in rows.items())


def by_mutants() -> Iterator[str]:
    found: dict[str, Any] = json.loads(FOUND.read_text(encoding="utf-8"))
    families: dict[str, dict[str, int]] = found["families"]
    total = {kind: sum(row.get(kind, 0) for row in families.values()) for kind in ("mutants", "noticed", "explained")}
    yield f"Measured {found['date']}, torch {found['torch']}, Python {found['python']}: {total['mutants']:,} mutants of"
    yield f"{found['all']:,}."
    yield ""
    yield "| room | mutants | noticed | explained | open | score |"
    yield "|---|---|---|---|---|---|"
    for name, row in [*families.items(), ("all", total)]:
        mutants, noticed, explained = row["mutants"], row.get("noticed", 0), row.get("explained", 0)
        score = f"{noticed / mutants:.0%}"
        yield f"| {name} | {mutants} | {noticed} | {explained} | {mutants - noticed - explained} | {score} |"


def page() -> str:
    """The page."""
    parts = [
        INTRODUCTION,
        SAMPLES + "\n".join(by_samples()) + "\n",
        GENERATED + "\n".join(by_generated()) + "\n",
        MUTANTS + "\n".join(by_mutants()) + "\n",
    ]
    return "\n".join(parts)
