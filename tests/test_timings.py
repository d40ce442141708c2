"""What a bench measures: how stretches are counted, what becomes of them in a file, and what is said of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from dataguard.incident import EmptyEpoch
from dataguard.lab.process.flight_recorder import FlightRecorder
from dataguard.lab.throughput.batch_stages import run_profile
from dataguard.lab.throughput.timed_run import EndlessOrder, run_timed
from dataguard.lab.throughput.training_loop import run_training_loop
from dataguard.lab.throughput.transform_timer import TransformTimer
from dataguard.model import Undecided, UsageError
from dataguard.render.timings import render
from dataguard.timings import Bench, LoaderTimes, Setting, Stage, Timed, Waits, changes, from_file

OWN = Setting(2, 2, persistent=False, pin=False)
FOUR = replace(OWN, workers=4)
NONE = Setting(0, None, persistent=False, pin=False)


def bench(*workers: Timed, batches: int | None = 100, **more: Any) -> Bench:
    loader = LoaderTimes("train", 8, batches, OWN, workers, **more)
    return Bench("pkg:make", {"name": "here", "cores": 2}, {"python": "3.11"}, (loader,), 12.0)


def timed(setting: Setting, *seconds: float) -> Timed:
    return Timed(setting, seconds, tuple(0.1 for _ in seconds))


class TestNouns:
    @pytest.mark.parametrize(
        ("setting", "words"),
        [
            (NONE, "0 workers"),
            (replace(OWN, workers=1), "1 worker"),
            (replace(OWN, prefetch=4, persistent=True, pin=True), "2 workers, prefetch 4, persistent, pinned"),
        ],
    )
    def test_a_setting_is_named_by_what_is_not_usual(self, setting: Setting, words: str) -> None:
        assert str(setting) == words

    def test_an_epoch_is_its_start_and_what_follows_the_first_row(self) -> None:
        assert timed(OWN, 0.01).costs(102) == pytest.approx((1.1,))
        assert timed(NONE, 0.01).costs(101) == pytest.approx((1.1,))
        assert timed(FOUR, 0.01).costs(3) == (0.1,)
        assert timed(OWN, 0.01).costs(None) == (0.01,)
        assert Timed(NONE, (0.01, 0.02), (0.9, 0.1)).costs(101) == pytest.approx((1.1, 2.1))

    @pytest.mark.parametrize(
        ("waiting", "starved"),
        [((1.0, 2.0, 1.0), True), ((0.0, 9.0, 9.0), None), ((0.1, 0.0, 0.2), False), ((5.0,), None), ((0.0,), None)],
    )
    def test_a_step_is_starved_when_every_stretch_says_so(
        self, waiting: tuple[float, ...], starved: bool | None
    ) -> None:
        waits = Waits(OWN, 30, waiting, tuple(5.0 for _ in waiting))
        assert waits.starved is starved


class TestFiles:
    def test_what_is_written_is_read(self, tmp_path: Path) -> None:
        made = bench(
            timed(OWN, 0.1, 0.2),
            Timed(FOUR, failed="it raised"),
            others=(timed(OWN, 1.0),),
            stages=(Stage("fetch", 0.1, (Stage("Crop", 0.05),)), Stage("pinning", skipped="no CUDA device")),
            waits=(Waits(OWN, 3, (1.0,), (2.0,)),),
            ideal=0.5,
            step="20 ms",
        )
        path = tmp_path / "bench.json"
        path.write_text(made.to_json(), encoding="utf-8")
        assert from_file(path) == made

    def test_two_runs_are_compared_cautiously(self) -> None:
        then = bench(timed(OWN, *[0.1, 0.101, 0.1, 0.102] * 2), timed(FOUR, *[0.1] * 4), timed(NONE, 0.1))
        now = bench(timed(OWN, *[0.15, 0.151, 0.15, 0.149] * 2), timed(FOUR, *[0.105] * 4), timed(NONE, 0.2))
        found = {change.setting: change for change in changes(now, then)}
        assert (found[OWN].words, found[OWN].own) == ("slower", True)
        assert found[FOUR].words == "cannot tell"
        assert found[NONE].words == "too few rounds to tell"
        assert {change.setting: change.words for change in changes(then, now)}[OWN] == "faster"

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            (replace(bench(timed(OWN, 0.1)), machine={"name": "here", "cores": 4}), "another machine: cores was 4"),
            (replace(bench(timed(OWN, 0.1)), machine={"name": "here", "cores": 2, "gpu": "x"}), "another machine"),
            (replace(bench(timed(OWN, 0.1)), target="pkg:other"), "the earlier run measured pkg:other"),
            (bench(timed(FOUR, 0.1)), "no loader was measured with the same setting"),
        ],
    )
    def test_what_was_not_made_alike_is_refused(self, other: Bench, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            changes(bench(timed(OWN, 0.1)), other)

    def test_a_machine_may_have_another_name(self) -> None:
        then = replace(bench(timed(OWN, 0.1)), machine={"name": "another start of a container", "cores": 2})
        assert len(changes(bench(timed(OWN, 0.1)), then)) == 1


class TestText:
    def test_a_ranking_is_said_with_its_interval(self) -> None:
        text = render(bench(timed(OWN, *[0.1, 0.11] * 4), timed(FOUR, *[0.05, 0.051] * 4)))
        assert "`4 workers` is fastest: 2.1" in " ".join(text.split())
        assert "2 workers (yours)" in text

    def test_cannot_tell_is_said(self) -> None:
        text = render(bench(timed(OWN, *[0.1, 0.2] * 4), timed(FOUR, *[0.2, 0.1] * 4)))
        assert "cannot tell" in text
        assert "a larger --budget gives more rounds" in text

    def test_what_failed_is_said_in_its_place(self) -> None:
        made = bench(timed(OWN, 0.1), Timed(FOUR, failed="RuntimeError: no\x1b[31m space"), batches=None)
        text = render(made, width=60, unicode=False)
        assert text.isascii()
        assert "4 workers: not measured: RuntimeError: no\\x1b[31m space" in text

    def test_nothing_measured_is_said(self) -> None:
        assert "nothing could be measured" in render(bench(Timed(OWN, failed="x")))

    def test_changes_are_said(self) -> None:
        then, now = bench(timed(OWN, *[0.1] * 8)), bench(timed(OWN, *[0.2] * 8))
        assert "slower: 2.00 x the time" in render(now, changes(now, then))


class Counting(Dataset[int]):
    def __init__(self, count: int, transform: Callable[[int], int] | None = None) -> None:
        self.count = count
        self.transform = transform

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return self.transform(index) if self.transform else index


class Streaming(IterableDataset[int]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Any:
        return iter(range(self.count))


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


class Compose:
    """As libraries write it."""

    def __init__(self, transforms: Sequence[Callable[[int], int]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, value: int) -> int:
        for transform in self.transforms:
            value = transform(value)
        return value


class Slow:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, value: int) -> int:
        time.sleep(self.seconds)
        return value


class Module(torch.nn.Module):
    def forward(self, value: int) -> int:
        time.sleep(0.002)
        return value


def plain(value: int) -> int:
    time.sleep(0.003)
    return value


class TestStopwatch:
    def test_every_transform_is_timed_by_itself(self) -> None:
        inner = Compose([Slow(0.001), Slow(0.004)])
        pipeline = Compose([inner, plain, torch.nn.Sequential(Module()), Slow(0.0)])
        dataset = Subset(Counting(8, pipeline), range(4))
        watch = TransformTimer()
        watch.watch(dataset)
        assert [dataset[index] for index in range(4)] == [0, 1, 2, 3]
        assert set(watch.seconds) == {"Slow", "Slow (2)", "Slow (3)", "plain", "Module"}
        assert watch.seconds["Slow"] >= 0.004
        assert watch.seconds["Slow (2)"] >= 0.016
        assert watch.seconds["plain"] >= 0.012
        assert watch.seconds["Module"] >= 0.008

    def test_other_objects_of_a_timed_class_are_left_alone(self) -> None:
        watch = TransformTimer()
        watch.watch(Counting(2, Slow(0.0)))
        assert Slow(0.0)(7) == 7
        assert dict(watch.seconds) == {}

    def test_a_profile_adds_up(self, tmp_path: Path) -> None:
        loader: DataLoader[int] = DataLoader(Counting(64, Compose([Slow(0.001), plain])), batch_size=4)
        profile = run_profile(loader, FlightRecorder(tmp_path), 0.2)
        stages = {stage.name: stage for stage in profile.stages}
        fetch = stages["fetch"]
        assert fetch.seconds is not None
        assert fetch.seconds >= 0.016
        assert sum(part.seconds or 0 for part in fetch.parts) == pytest.approx(fetch.seconds)
        assert stages["transfer"].skipped == "num_workers=0"
        assert profile.batch_bytes >= 4096
