"""How a stretch of an epoch is timed, with and without workers."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

import pytest
from torch.utils.data import DataLoader, Dataset

from dataguard.core.incident import EmptyEpoch
from dataguard.core.model import Undecided
from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.throughput.timed_run import EndlessOrder, run_timed, run_training_loop
from tests.support.items import Counting, Slow, Streaming


class TestLaps:
    def test_the_order_has_no_end_but_for_a_first_epoch(self) -> None:
        laps = EndlessOrder([[0, 1], [2]], lead=3)
        assert list(laps) == [[0, 1], [2], [0, 1]]
        assert list(islice(laps, 5)) == [[0, 1], [2], [0, 1], [2], [0, 1]]
        assert len(laps) == 2
        assert list(EndlessOrder([])) == []

    @pytest.mark.parametrize("dataset", [Counting(40), Streaming(1), Streaming(2), Streaming(50)])
    def test_a_lap_of_any_length(self, dataset: Dataset[int], tmp_path: Path) -> None:
        loader: DataLoader[int] = DataLoader(dataset, batch_size=1)
        lap = run_timed(loader, FlightRecorder(tmp_path), 0.01)
        assert lap.start > 0
        assert lap.per_batch > 0

    @pytest.mark.parametrize("dataset", [Counting(40), Streaming(2), Streaming(50)])
    def test_a_training_loop(self, dataset: Dataset[int], tmp_path: Path) -> None:
        loader: DataLoader[int] = DataLoader(dataset, batch_size=1)
        feed = run_training_loop(loader, FlightRecorder(tmp_path), lambda _: time.sleep(0.001), 0.02)
        assert feed.batches > 0
        assert sum(feed.stepping) >= 0.001 * feed.batches

    def test_epochs_that_are_too_short_for_a_training_loop(self, tmp_path: Path) -> None:
        loader: DataLoader[int] = DataLoader(Streaming(1), batch_size=1)
        with pytest.raises(Undecided, match="too short"):
            run_training_loop(loader, FlightRecorder(tmp_path), lambda _: None, 0.02)

    @pytest.mark.scan
    def test_the_start_of_workers_that_persist_is_left_out(self, tmp_path: Path) -> None:
        order = EndlessOrder([[number] for number in range(40)], lead=1)
        loader: DataLoader[int] = DataLoader(
            Counting(40, Slow(0.001)),
            batch_sampler=order,
            num_workers=1,
            persistent_workers=True,
            worker_init_fn=lambda _: time.sleep(0.5),
        )
        lap = run_timed(loader, FlightRecorder(tmp_path), 0.01, warm_start=True)
        assert lap.start < 0.5
        assert order.passes == 2

    def test_an_epoch_of_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(EmptyEpoch):
            run_timed(DataLoader(Streaming(0)), FlightRecorder(tmp_path), 0.01)
