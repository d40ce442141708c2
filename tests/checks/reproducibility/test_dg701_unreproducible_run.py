"""DG701: what differs between two runs is a defect where something asks for the same batches."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.reproducibility.dg701_unreproducible_run import dg701_unreproducible_run
from dataguard.core.model import NotApplicable
from dataguard.lab.reproducibility.runs import Cause
from tests.support.recordings import Verdict, recordings, verdict_of

CLOCK = recordings("dg701_unreproducible_run")["bad_clock"]
TIME = CLOCK.read(".reproducibility.cause")
UNSEEDED = recordings("dg701_unreproducible_run")["bad"].read(".reproducibility.cause")


def judged(
    cause: Cause | None, *, drawn: bool = False, alone: bool = True, seed: bool = False, **contract: Any
) -> Verdict:
    """The verdict on runs that nothing seeds, unless the factory takes a seed, or the contract says so."""
    one, two = CLOCK.read(".reproducibility.pair")
    unseeded = replace(one, runs=replace(one.runs, seeded_by=()))
    changes = {
        ".reproducibility.pair": (unseeded, two),
        ".reproducibility.cause": cause,
        ".reproducibility.is_drawn": drawn,
        ".reproducibility.differs_alone": alone,
        ".settings": replace(CLOCK.read(".settings"), contract=contract),
        '.target.takes([["seed"], {}])': seed,
        ".dataset": SimpleNamespace(location=None),
    }
    return verdict_of(dg701_unreproducible_run.judge, CLOCK.but(changes).lab)


@pytest.mark.parametrize(
    ("cause", "changes", "why"),
    [
        (UNSEEDED, {}, "no seed is set anywhere, and numpy.random.default_rng gets none"),
        (TIME, {"drawn": True}, "no seed is set anywhere, and generators get other seeds in each run"),
        (None, {"alone": False}, "no seed is set anywhere, and only what several workers share differs"),
    ],
)
def test_without_a_seed_some_differences_are_meant(cause: Cause | None, changes: Any, why: str) -> None:
    verdict = judged(cause, **changes)
    assert verdict.findings == ()
    assert isinstance(verdict.outcome, NotApplicable)
    assert str(verdict.outcome).startswith(why)
    assert not judged(cause, **changes, deterministic=True).findings[0].ambiguous


@pytest.mark.parametrize(("cause", "alone"), [(TIME, True), (TIME, False), (None, True)])
def test_others_are_a_warning(cause: Cause | None, alone: bool) -> None:
    (finding,) = judged(cause, alone=alone).findings
    assert finding.ambiguous
    assert ("because of time.time" in finding.message) == (cause is TIME)


def test_what_asks_for_the_same_batches_is_named() -> None:
    (finding,) = judged(TIME, seed=True, deterministic=True).findings
    assert list(finding.evidence["expected by"]) == ["contract.deterministic", "the factory's argument seed"]
    assert not finding.ambiguous
