"""Samples of many leaves take time in proportion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dataguard.checks.common.labels import candidates
from dataguard.core.model import Status
from dataguard.engine import scan
from dataguard.lab.core.leaves import leaves_of
from dataguard.lab.dataset.index_semantics import hints_of
from dataguard.lab.reading.sample_reader import Answer
from dataguard.settings.settings import Settings
from tests.loaders.large import ManyLeaves
from tests.support.epochs import lab

LEAVES, SAMPLES = 240, 4


class Counted(tuple[Any, ...]):
    """Leaves that count how often they are gone through."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        Counted.times += 1
        return super().__iter__()


def test_judges_go_through_the_leaves_of_a_sample_a_few_times() -> None:
    dataset = ManyLeaves(LEAVES)
    many = lab([dataset[index] for index in range(SAMPLES)])
    many.epoch.samples = [replace(one, leaves=Counted(one.leaves)) for one in many.epoch.samples]
    Counted.times = 0
    hints_of(many.epoch.samples)
    assert Counted.times <= 2 * SAMPLES
    # A number may be the length of another leaf: the first sample nearly always rules that out.
    candidates(many)
    assert Counted.times <= LEAVES + 6 * SAMPLES


def test_the_digests_of_an_answer_are_collected_once() -> None:
    answer = Answer(0, leaves_of(ManyLeaves(LEAVES)[0]))
    assert len(answer.digests) == LEAVES
    assert answer.digests is answer.digests


@pytest.mark.scan
def test_a_sample_of_many_leaves_leaves_nothing_undecided() -> None:
    report = scan("tests.loaders.large:leaves(count=800, workers=0)", Settings(select=("DG30", "DG50")))
    undecided = [result.id for result in report.results if result.status in (Status.INCONCLUSIVE, Status.BROKEN)]
    assert len(report.results) > 10
    assert not undecided
