"""Scans of hostile loaders: each is named by a finding or passes, the scan ends, and nothing is left behind."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from dataguard.core.model import PREVENTED
from tests.hostile.arena import ROOT, Arena, Outcome, arena
from tests.hostile.declared import REFUSED, Hostile, Refused, declared
from tests.hostile.loaders_surroundings import PREVENTING
from tests.support.faces import todays
from tests.support.namespace import NotPermittedError

pytestmark = pytest.mark.scan
LONGEST = 60.0
"""Seconds: a scan that takes longer does not end in time."""
_COMMANDS = re.compile("\x1b(?!\\[[0-9;?]*[A-IK-Za-z])|\x07|\x0e|^::", re.MULTILINE)
"""What a terminal or a log would act on; not the few commands that draw progress."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    try:
        with arena(tmp_path_factory.mktemp("hostile")) as made:
            yield made
    except NotPermittedError as reason:
        pytest.skip(f"the kernel grants no namespaces to contain hostile loaders: {reason}")


def test_there_are_many() -> None:
    assert len(list(declared())) >= 40


@pytest.mark.parametrize("hostile", todays([one for one in declared() if not one.expected.slow], turns=5), ids=str)
def test_a_scan_survives(place: Arena, hostile: Hostile) -> None:
    expected = hostile.expected
    outcome = place.scan_for(hostile)
    survives(outcome)
    assert outcome.code in (0, 1)
    assert outcome.statuses
    assert "broken" not in outcome.statuses
    assert list(outcome.failed) == ([expected.code] if expected.code else [])
    assert expected.words in "".join(outcome.failed.values())


@pytest.mark.parametrize(("factory", "reason"), PREVENTING.items(), ids=PREVENTING)
def test_what_prevents_observing_is_named(place: Arena, factory: str, reason: str) -> None:
    if os.geteuid() != 0 and factory == "other_user":
        pytest.skip("only root can become another user")
    outcome = place.scan(f"tests.hostile.loaders_surroundings:{factory}", "--select", "DG0", makes="root*")
    survives(outcome)
    assert outcome.code == 1
    assert {one["status"] for one in outcome.results} == {"inconclusive"}
    assert all(one["reason"].startswith(PREVENTED) and reason in one["reason"] for one in outcome.results)


@pytest.mark.parametrize("refused", REFUSED, ids=[one.name for one in REFUSED])
def test_a_module_that_cannot_be_imported_is_no_target(place: Arena, refused: Refused) -> None:
    with place.module(refused.source) as target:
        outcome = place.scan(target, "--import-timeout", str(refused.import_timeout))
    survives(outcome)
    assert outcome.code == 2
    assert refused.words in outcome.screen


def survives(outcome: Outcome) -> None:
    assert outcome.left == {}
    assert outcome.seconds < LONGEST
    assert f'File "{ROOT / "dataguard"}' not in outcome.screen
    assert not _COMMANDS.search(outcome.screen), outcome.screen
