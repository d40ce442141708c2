"""How often a scan reads samples: what each observation reads is recorded, so that a change shows."""

from __future__ import annotations

import json

import pytest

from tests.support.reads import RECORD, TARGETS, reads_of

MOST_CHANGED = 1.1
"""A tenth more reads than were recorded: how many some observations make depends on how fast they are."""


@pytest.mark.scan
@pytest.mark.parametrize("name", TARGETS)
def test_a_scan_reads_no_more_than_before(name: str) -> None:
    """After a change on purpose: `python -m tests.support.reads`."""
    recorded, found = json.loads(RECORD.read_text())[name], reads_of(name)
    more = {each: (recorded.get(each, 0), count) for each, count in found.items() if count > recorded.get(each, 0)}
    assert sum(found.values()) <= MOST_CHANGED * sum(recorded.values()), f"(recorded, found): {more}"
