"""Experiments: the batches that a script requests, and what is made of the records that workers leave."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dataguard.core.model import Undecided
from dataguard.lab.core.records import LeafRecord, SampleRecord
from dataguard.lab.process.incidents import Spool
from dataguard.lab.reading.experiment import FORKED, Experiment, Readings, Script, readings_of
from dataguard.lab.rng.frozen_rng import FrozenRngs

TWICE = Script((((0, 1),) * 2,) * 2)
"""Two workers that read the same two items in two epochs."""


def read(folder: Path, shown: dict[tuple[int, int], str], epochs: int = 2) -> Readings:
    """What `TWICE` gives if workers read other indices than these in some epochs and fetches."""
    for worker in range(2):
        spool = Spool(folder, worker)
        for epoch in range(epochs):
            for batch in range(2):
                digest = bytes([worker, epoch, batch])
                leaf = LeafRecord(".x", "Tensor", "int64", (), digest)
                index = shown.get((epoch, batch), str(batch))
                spool.write(SampleRecord(worker, epoch, batch, 0, None, index, 0.0, (leaf,)), f"note {worker}")
    return readings_of(Experiment(TWICE), folder, True)


def test_a_script_is_followed_from_epoch_to_epoch() -> None:
    order = Script((((0, 2), (1, 1)), ((2, 2), (0, 0))), 2).schedule([[7, 8], [7, 9]], True)
    iter(order)  # torch makes an iterator that it never uses
    assert list(order) == [[7, 7], [8, 8], [9, 9], [8, 8]]
    assert list(order) == list(order) == [[9, 9], [7, 7], [9, 9], [7, 7]]
    assert list(Script((((0, 1, 2),),)).schedule([3, 3], False)) == [3, 3, 3], "over again where there are fewer"


@pytest.mark.parametrize(
    ("script", "own", "batches"),
    [
        (Script((((0, 1, 2),),), 2, mixed=True), [4, 5, 6], [[4, 5], [5, 6], [6, 4]]),
        (Script((((0, 1),),), spread=True), list(range(10)), [[0], [5]]),
        (Script((((0, 1, 2),),), share=True), [1, 3, 5], [[0], [1], [2]]),
        (Script((((0, 1),),), share=True), ["b", "d"], [["b"], ["d"]]),
    ],
)
def test_a_batch_holds_items_of_the_kind_that_a_script_names(
    script: Script, own: list[object], batches: list[list[object]]
) -> None:
    assert list(script.schedule([own], True)) == batches


def test_equal_experiments_are_one() -> None:
    experiment = Experiment(TWICE, (FrozenRngs(((1, 2),)),), FORKED)
    again = Experiment(replace(TWICE), (FrozenRngs(((1, 2),)),), FORKED)
    assert len({experiment, again, replace(experiment, repeat=1), replace(experiment, script=None)}) == 3


def test_readings_are_sorted_by_worker_and_epoch(tmp_path: Path) -> None:
    readings = read(tmp_path, {}, epochs=3)  # a loader that never ends its epochs has fetched ahead
    digests = {(worker, epoch) for worker in range(2) for epoch in range(2)}
    assert readings.leaves["sample.x"] == {where: (bytes([*where, 0]), bytes([*where, 1])) for where in digests}
    assert readings.noted(str) == ["note 0"] * 6 + ["note 1"] * 6
    assert readings.single == {"sample.x"}


@pytest.mark.parametrize(("shown", "epochs"), [({(1, 0): "7"}, 2), ({}, 1)])
def test_a_loader_with_an_order_of_its_own_is_noticed(
    shown: dict[tuple[int, int], str], epochs: int, tmp_path: Path
) -> None:
    with pytest.raises(Undecided, match="uses its own order"):
        read(tmp_path, shown, epochs)
