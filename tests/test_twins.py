"""Every sample proves its check: a bad one trips exactly its own code, a good one nothing at all.

Samples are found by name in `sample_datasets/`, so that adding one adds its test. Those of DG601 need a small
/dev/shm and are judged in test_shm_headroom.py.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataguard.checks import CATALOGUE
from dataguard.engine import scan
from dataguard.model import Check, Status
from dataguard.settings import Settings

SAMPLES = Path(__file__).parent.parent / "sample_datasets"

ELSEWHERE = {"DG601"}
"""Checks whose samples need a machine of their own."""

NOT_UNDER_SPAWN = {
    "dg101_cloned_worker_rng:bad_torch_generator",  # does not survive the way into a spawned worker
    "dg104_unspawnable_loader:good_lambda_forked",  # is good because its workers are forked
    "dg105_spawn_divergence:good_fork",  # the same
}
"""Faces that cannot be spawned: DG104 says so, whatever their own check says of them."""

HOLDING = "DG106"
"""The check whose faces hold open files, which do not survive the way either; the plain good one holds none."""

FAMILY = "DG1"
"""The checks whose verdict hangs on how workers start. They cost most of a spawned scan, so that the twins of other
families are spawned without them."""

FORKSERVED = "DG101"
"""The check whose twins run under forkserver as well."""

EVERY_FACE = "DATAGUARD_EVERY_FACE" in os.environ
"""Runs every face under every start method: about half an hour, and so only when asked for."""


def samples(check: Check) -> Iterator[str]:
    """The faces of a check: the functions of its sample module that are called bad or good."""
    tree = ast.parse((SAMPLES / f"{check.stem}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.partition("_")[0] in ("bad", "good"):
            yield f"{check.stem}:{node.name}"


def trips(sample: str, **settings: object) -> list[str]:
    """The codes that fail, or are no verdict at all, when a sample is scanned."""
    report = scan(f"sample_datasets.{sample}", Settings(timeout=4, **settings))  # type: ignore[arg-type]
    assert not report.count(Status.BROKEN), report
    return [result.code for result in report.results if result.status is Status.FAILED]


def expected(check: Check, sample: str) -> list[str]:
    """What the sample's name promises."""
    return [check.code] if sample.partition(":")[2].startswith("bad") else []


FACES = [
    pytest.param(check, sample, id=sample)
    for check in CATALOGUE
    if check.code not in ELSEWHERE
    for sample in samples(check)
]


@pytest.mark.parametrize(("check", "sample"), FACES)
def test_a_sample_trips_what_its_name_says(check: Check, sample: str) -> None:
    assert trips(sample) == expected(check, sample)


def starts() -> Iterator[tuple[Check, str, str]]:
    """Faces to judge under start methods that are not the platform's own."""
    for check in CATALOGUE:
        for sample in () if check.code in ELSEWHERE else samples(check):
            twin = sample.partition(":")[2] in ("bad", "good")
            sent = sample not in NOT_UNDER_SPAWN and (check.code != HOLDING or sample.endswith(":good"))
            if sent and (twin or EVERY_FACE):
                yield check, sample, "spawn"
                if check.code == FORKSERVED or EVERY_FACE:
                    yield check, sample, "forkserver"


@pytest.mark.parametrize(
    ("check", "sample", "method"),
    [pytest.param(*case, id=f"{case[1]}-{case[2]}") for case in starts()],
)
def test_the_verdict_holds_under_every_start_method(check: Check, sample: str, method: str) -> None:
    ignore = () if check.code.startswith(FAMILY) or EVERY_FACE else (FAMILY,)
    assert trips(sample, start_method=method, ignore=ignore) == expected(check, sample)


@pytest.mark.parametrize("check", CATALOGUE, ids=lambda check: check.code)
def test_every_check_has_both_twins(check: Check) -> None:
    names = {sample.partition(":")[2] for sample in samples(check)}
    assert {"bad", "good"} <= names
