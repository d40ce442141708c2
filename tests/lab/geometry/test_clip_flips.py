"""Frames that are decoded from a video: whether each draws its own flip."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from dataguard.checks.geometry.alignment import are_drawn_apart
from dataguard.lab.geometry.clip_flips import Flips, run_clips
from dataguard.lab.images.clips import clips_of, frames_of, may_be_clip
from dataguard.lab.process.isolation import isolated

Augment = Callable[[list[np.ndarray]], list[np.ndarray]]
FRAMES = 8


class Clips(Dataset[Any]):
    """Eight frames of a video, (frames, 3, height, width) or with channels first or last."""

    def __init__(self, path: Path, augment: Augment, axes: tuple[int, ...] = (0, 3, 1, 2)) -> None:
        self.path, self.augment, self.axes = str(path), augment, axes

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        video = cv2.VideoCapture(self.path)
        frames = [cv2.cvtColor(video.read()[1], cv2.COLOR_BGR2RGB) for _ in range(FRAMES)]
        stack = np.stack(self.augment(frames)).transpose(self.axes)
        return torch.from_numpy(stack.astype(np.float32) / 255), index


def flipped(frame: np.ndarray, flip: bool) -> np.ndarray:
    return frame[:, ::-1] if flip else frame


def one_by_one(frames: list[np.ndarray]) -> list[np.ndarray]:
    return [flipped(frame, random.random() < 0.5) for frame in frames]


def together(frames: list[np.ndarray]) -> list[np.ndarray]:
    flip, top = random.random() < 0.5, random.randrange(8)
    return [flipped(frame[top : top + 40], flip) for frame in frames]


def crops_for_a_test(frames: list[np.ndarray]) -> list[np.ndarray]:
    return [flipped(frame, flip) for frame in frames[:4] for flip in (False, True)]


def two_clips(frames: list[np.ndarray]) -> list[np.ndarray]:
    flips = [random.random() < 0.5 for _ in range(2)]
    return [flipped(frame, flip) for flip in flips for frame in frames[:4]]


@pytest.mark.scan
def test_only_frames_with_flips_of_their_own_are_drawn_apart(tmp_path: Path) -> None:
    path = tmp_path / "video.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 48))
    for number in range(FRAMES):
        writer.write(np.full((48, 64, 3), 20 * number, np.uint8))
    writer.release()
    datasets = {
        "one by one": Clips(path, one_by_one),
        "channels last": Clips(path, one_by_one, (0, 1, 2, 3)),
        "together": Clips(path, together),
        "crops for a test": Clips(path, crops_for_a_test),
        "two clips": Clips(path, two_clips),
    }

    def run() -> dict[str, tuple[Flips, ...]]:
        found = {}
        for name, dataset in datasets.items():
            loader: DataLoader[Any] = DataLoader(dataset, batch_size=2)
            (clip,) = run_clips(lambda loader=loader: loader, tmp_path, (0, 1), batched=True)
            found[name] = clip.draws
        return found

    found = isolated(run, tmp_path, timeout=60, allowed=120)
    apart = [name for name, draws in found.items() if are_drawn_apart(draws)]
    assert apart == ["one by one", "channels last"], found


@pytest.mark.parametrize(
    ("shape", "may_be"),
    [
        ((8, 3, 48, 64), True),
        ((3, 8, 48, 64), True),
        ((8, 48, 64, 3), True),
        ((1, 16, 32, 32), True),
        ((2, 3, 48, 64), False),
        ((8, 48, 64), False),
        ((8, 3, 4, 4), False),
        ((4, 5, 48, 64), False),
    ],
)
def test_leaves_that_may_be_clips(shape: tuple[int, ...], may_be: bool) -> None:
    assert may_be_clip(shape) is may_be


@pytest.mark.parametrize(
    ("axes", "name"),
    [((0, 1, 2, 3), "frames first"), ((1, 0, 2, 3), "channels first"), ((0, 2, 3, 1), "channels last")],
)
def test_the_frames_of_each_layout(axes: tuple[int, ...], name: str) -> None:
    clip = np.random.default_rng(0).random((8, 3, 48, 64))
    assert np.array_equal(frames_of(clip.transpose(axes)), clip), name
    assert np.array_equal(frames_of(clip.transpose(axes)[None]), clip), name


def test_frames_are_an_axis_channels_or_a_list() -> None:
    frames = [np.full((3, 48, 64), number, np.float32) for number in range(6)]
    sample = (np.stack(frames), np.concatenate(frames), frames, np.zeros((5, 48, 64), np.float32))
    found = clips_of(sample, 6)
    assert list(found) == ["[0]", "[1]", "[2]"]
    assert all(clip[:, 0, 0].tolist() == [0, 1, 2, 3, 4, 5] for clip in found.values())
    assert list(clips_of(sample, 6, lists=False)) == ["[0]", "[1]"]
