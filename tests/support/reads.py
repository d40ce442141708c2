"""How many samples a scan reads of a loader, by observation: `python -m tests.support.reads` records it."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from dataguard.engine import scan
from dataguard.settings.settings import Settings
from tests.loaders.counted import LOG

RECORD = Path(__file__).parents[1] / "observer" / "reads.json"
TARGETS = ("train", "validation", "stream", "splits")


def reads_of(name: str) -> dict[str, int]:
    """The reads of all loaders of a target of `tests.loaders.counted`, by the name of the observation."""
    found: Counter[str] = Counter()
    with tempfile.NamedTemporaryFile("r") as log, pytest.MonkeyPatch.context() as patch:
        patch.setenv(LOG, log.name)
        scan(f"tests.loaders.counted:{name}", Settings())
        for line in log:
            observation, count = json.loads(line)
            found[observation] += count
    return dict(sorted(found.items()))


if __name__ == "__main__":
    RECORD.write_text(json.dumps({name: reads_of(name) for name in TARGETS}, indent=2) + "\n")
