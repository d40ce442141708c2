"""Two slow loaders of one class: what is about the class is seen on the first, unless they hold unlike objects."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks import CATALOGUE
from dataguard.core.model import Coverage, Judgement, Result, Status, Undecided
from dataguard.engine import scan
from dataguard.lab.core.object_graph import structure_of
from dataguard.lab.core.observation_cache import ObservationCache
from dataguard.lab.process.side_by_side import ConcurrencySlots
from dataguard.observer.judge import AS_IN_TRAINING, OF_THE_CLASS
from dataguard.observer.judge import judged as judge_all
from dataguard.settings.settings import Settings
from tests.loaders.twins import Volumes

BUDGET = 15
"""Seconds of which sixteen reads are more than a small share."""


@functools.cache
def judged(target: str, budget: float = BUDGET) -> dict[tuple[str, str], Result]:
    settings = Settings(budget=budget, select=OF_THE_CLASS)
    results = scan(f"tests.loaders.twins:{target}", settings).results
    return {(result.code, result.loader): result for result in results}


@pytest.mark.scan
def test_a_twin_is_not_read_for_what_is_about_its_class() -> None:
    results = judged("same")
    assert {result.status for result in results.values()} == {Status.PASSED}
    for (_, loader), result in results.items():
        assert ("seen on train" in (result.reason or "")) == (loader == "val")


@pytest.mark.scan
def test_an_object_that_only_one_holds_is_found() -> None:
    results = judged("locked")
    assert results["DG104", "train"].status is Status.PASSED
    assert results["DG104", "val"].status is Status.FAILED
    assert not any("seen on" in (result.reason or "") for result in results.values())


@pytest.mark.scan
def test_a_bug_of_the_class_is_found_in_both() -> None:
    results = judged("broken")
    assert {key for key, result in results.items() if result.status is Status.FAILED} == {
        ("DG311", "train"),
        ("DG311", "val"),
    }


@pytest.mark.scan
def test_quick_loaders_are_read_each() -> None:
    assert not any("seen on" in (result.reason or "") for result in judged("same", 60).values())


def structure(held: Any, count: int = 4) -> object:
    return structure_of({"dataset": Volumes(count, train=count > 4, held=held)})


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (None, None, True),
        (3, "text", True),  # plain values do not count
        ([threading.Lock()], [threading.Lock(), threading.Lock()], True),
        (None, threading.Lock(), False),
        ([object()], [threading.Lock()], False),
        (len, structure, False),
        (Volumes, threading.Thread, False),
    ],
)
def test_structures_are_types_and_who_holds_them(one: Any, other: Any, equal: bool) -> None:
    assert (structure(one, 4) == structure(other, 8)) is equal


def judged_by(
    code: str, affords: Callable[[Any], None], folder: Path, loaders: Sequence[str] = ("train", "val")
) -> dict[str, Result]:
    """What a check says of two twins that `affords` gives time, or raises Undecided."""
    turns = ConcurrencySlots()
    labs: dict[str, Any] = {
        name: SimpleNamespace(
            facts=SimpleNamespace(name=name, role=name),
            twins=tuple(other for other in loaders if other != name),
            settings=Settings(),
            cache=ObservationCache(Settings(budget=BUDGET), folder, turns),
            repro=SimpleNamespace(scan=lambda *_: ""),
            epoch=None,
        )
        for name in loaders
    }

    def judge(lab: Any) -> Judgement:
        yield from ()
        affords(lab)
        return Coverage({"samples": 1})

    for lab in labs.values():
        lab.siblings = labs
    check = replace(next(check for check in CATALOGUE if check.code == code), judge=judge)
    return {result.loader: result for _, result in judge_all([(check, name) for name in loaders], labs)}


def only(undecided: str) -> Callable[[Any], None]:
    """A check that one loader leaves undecided."""

    def judge(lab: Any) -> None:
        if lab.facts.name == undecided:
            raise Undecided("not decided")

    return judge


@pytest.mark.parametrize("undecided", ["train", "val"])
@pytest.mark.parametrize("code", OF_THE_CLASS)
def test_what_is_about_the_class_is_decided_by_either_loader(code: str, undecided: str, tmp_path: Path) -> None:
    results = judged_by(code, only(undecided), tmp_path)
    (other,) = results.keys() - {undecided}
    assert {result.status for result in results.values()} == {Status.PASSED}
    assert results[undecided].reason == f"seen on {other}, which has the same class and settings"
    assert results[undecided].exercised == {"samples": 1}


@pytest.mark.parametrize("loaders", [("train", "val"), ("val", "train")])
@pytest.mark.parametrize("code", AS_IN_TRAINING)
def test_evaluation_does_not_decide_what_training_uses(code: str, loaders: Sequence[str], tmp_path: Path) -> None:
    assert judged_by(code, only("val"), tmp_path, loaders)["val"].status is Status.PASSED
    results = judged_by(code, only("train"), tmp_path, loaders)
    assert (results["train"].status, results["val"].status) == (Status.INCONCLUSIVE, Status.PASSED)


@pytest.mark.parametrize(("seconds", "status"), [(1.5 * BUDGET, Status.PASSED), (3 * BUDGET, Status.INCONCLUSIVE)])
def test_what_a_loader_leaves_of_its_budget_serves_another(seconds: float, status: Status, tmp_path: Path) -> None:
    def afford(lab: Any) -> None:
        lab.cache.afford("reads", seconds if lab.facts.name == "train" else 0.1)

    results = judged_by("DG701", afford, tmp_path)
    assert (results["train"].status, results["val"].status) == (status, Status.PASSED)


@pytest.mark.scan
def test_slow_evaluation_is_drawn_in_workers_only_if_it_varies() -> None:
    results = scan("tests.loaders.twins:evaluation", Settings(budget=30, select=("DG101",))).results
    found = {result.loader: result for result in results}
    assert found["val"].status is Status.FAILED
    assert found["test"].status is Status.PASSED
    assert found["test"].exercised == {"samples": 2, "reads": 8}
