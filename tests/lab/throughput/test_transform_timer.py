"""Every transform is timed by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset

from dataguard.lab.process.incidents import FlightRecorder
from dataguard.lab.throughput.batch_stages import TransformTimer, run_profile
from tests.support.items import Counting, Slow


class Compose:
    """As libraries write it."""

    def __init__(self, transforms: Sequence[Callable[[int], int]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, value: int) -> int:
        for transform in self.transforms:
            value = transform(value)
        return value


class Module(torch.nn.Module):
    def forward(self, value: int) -> int:
        time.sleep(0.002)
        return value


def plain(value: int) -> int:
    time.sleep(0.003)
    return value


class Reading(Counting):
    """Reads files."""

    def __init__(self, count: int, transform: Callable[[int], int], file: Path) -> None:
        super().__init__(count, transform)
        self.file = file

    def __getitem__(self, index: int) -> int:
        assert np.load(self.file).shape == (200_000,)
        with self.file.with_suffix(".txt").open(encoding="utf-8") as text:
            assert (text.mode, next(text)) == ("r", "größe\n")
        return super().__getitem__(index)


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
        file = tmp_path / "pixels.npy"
        np.save(file, np.zeros(200_000))
        file.with_suffix(".txt").write_text("größe\n", encoding="utf-8")
        loader: DataLoader[int] = DataLoader(Reading(64, Compose([Slow(0.001), plain]), file), batch_size=4)
        profile = run_profile(loader, FlightRecorder(tmp_path), 0.2)
        stages = {stage.name: stage for stage in profile.stages}
        fetch = stages["fetch"]
        assert fetch.seconds is not None
        assert fetch.seconds >= 0.016
        assert sum(part.seconds or 0 for part in fetch.parts) == pytest.approx(fetch.seconds)
        files = {part.name: part.seconds or 0 for part in fetch.parts[:3]}
        assert list(files) == ["opening", "reading", "decoding"]
        assert all(seconds > 0 for seconds in files.values())
        assert stages["transfer"].skipped == "num_workers=0"
        assert profile.batch_bytes >= 4096
