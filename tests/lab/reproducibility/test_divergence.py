"""The first difference between two runs, on runs that are written down."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dataguard.lab.reproducibility.runs import BATCH, ORDER, SAMPLE, first_difference
from dataguard.lab.reproducibility.seeded_run import FollowedSample, Run, RunBatch, Stage, difference_of, first_stage

ROWS = ({"[0]": b"a", "['time']": b"1"}, {"[0]": b"b", "['time']": b"2"})
BATCHES = tuple(RunBatch(epoch, number, ROWS, (4, 7), {"[0]": b"ab"}) for epoch in (0, 1) for number in (0, 1))
RUN = Run(2, (((4, 7), (1, 2)), ((1, 4),)), BATCHES)


def changed(place: int, **changes: Any) -> Run:
    batches = list(RUN.batches)
    batches[place] = replace(batches[place], **changes)
    return replace(RUN, batches=tuple(batches))


def test_equal_runs_do_not_differ() -> None:
    assert first_difference(RUN, RUN) is None


def test_times_and_keys_are_no_data() -> None:
    assert first_difference(RUN, changed(0, samples=({**ROWS[0], "['time']": b"9"}, ROWS[1]))) is None


def test_the_order_comes_first() -> None:
    other = replace(changed(0, leaves={"[0]": b"x"}), orders=(RUN.orders[0], ((4, 1),)))
    found = first_difference(RUN, other)
    assert found is not None
    assert (found.stage, found.epoch, found.batch) == (ORDER, 1, 0)


def test_a_run_that_ends_early_differs_where_it_ends() -> None:
    found = first_difference(RUN, replace(RUN, orders=(RUN.orders[0][:1], RUN.orders[1])))
    assert found is not None
    assert (found.stage, found.epoch, found.batch) == (ORDER, 0, 1)


def test_a_sample_comes_before_its_batch() -> None:
    found = first_difference(RUN, changed(1, samples=(ROWS[0], {"[0]": b"x"}), leaves={"[0]": b"x"}))
    assert found is not None
    assert (found.stage, found.batch, found.position, found.index) == (SAMPLE, 1, 1, 7)
    assert found.leaves == ("[0]",)


def test_a_batch_may_differ_by_itself() -> None:
    found = first_difference(RUN, changed(2, leaves={"[0]": b"x"}))
    assert found is not None
    assert (found.stage, found.epoch, found.where) == (BATCH, 1, "batch 0 of epoch 1")


def stage(path: str, value: object, *, given: bool) -> Stage:
    return Stage(path, path.title(), None, given, {"[0]": value})


def test_the_first_stage_that_differs_is_a_step_or_what_it_is_given() -> None:
    zeros, ones = np.zeros(4), np.array([0.0, 1.0, -3.0, np.nan])
    one = [stage("scale", zeros, given=True), stage("scale", ones, given=False), stage("crop", ones, given=True)]
    assert first_stage(one, one) is None
    found = first_stage(one, [one[0], stage("scale", zeros, given=False), one[2]])
    assert found is not None
    assert (found.path, found.before, found.changed, found.of, found.by) == ("scale", False, 3, 4, 3.0)
    found = first_stage(one, [*one[:2], stage("crop", zeros, given=True)])
    assert found is not None
    assert (found.path, found.before) == ("crop", True)
    found = first_stage(one, [one[0], stage("flip", ones, given=False)])
    assert found is not None
    assert (found.path, found.before) == ("scale", True)


def test_a_sample_may_be_the_same_beside_others_that_differ() -> None:
    one, other = (
        FollowedSample((stage("sample", np.ones(2), given=False), stage("batch", np.full(4, number), given=False)))
        for number in range(2)
    )
    assert difference_of(one, other) is not None
    assert difference_of(one.alone, other.alone) is None
