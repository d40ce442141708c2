"""Whether the frames of a clip, which a sample decodes from a video, are flipped one by one.

All frames that are decoded show the same chart, so that the frames of a leaf show how each was moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dataguard.lab.core.leaves import array_of, iter_leaves
from dataguard.lab.core.records import Index
from dataguard.lab.decoding.decoders import Gives, giving
from dataguard.lab.geometry.charted_reader import ChartedReader, ChartedSample
from dataguard.lab.geometry.charts import CHARTS, located, pose_of, sampled
from dataguard.lab.images.painter import SMALLEST_SIDE, is_image, planes_last
from dataguard.lab.reading.sample_reader import Rooted
from dataguard.targets.variants import Loader

FEWEST_FRAMES, MOST_FRAMES = 4, 64
"""Frames of a clip, and how many of them are looked at."""
CLIP_DRAWS = 3
"""Random states in which a sample is read: two in which frames differ tell a random flip from a fixed one."""
CLIP_READS = CLIP_DRAWS * CHARTS + 1
_CHANNELS = (1, 3)

Flips = tuple[bool, ...]
"""Whether each frame of a clip is flipped horizontally."""


@dataclass(frozen=True, slots=True)
class ClipFlips(Rooted):
    """A leaf of frames that are decoded from a video, and which of them are flipped in each random state."""

    path: str
    index: Index
    source: str
    collated: bool
    draws: tuple[Flips, ...]


def may_be_clip(shape: Sequence[int]) -> bool:
    """Whether a leaf of this shape may hold the frames of a clip, with channels before, after or last."""
    if len(shape) != 4 or shape[-1] < 1:
        return False
    frames, sides = (shape[0], shape[1:3]) if planes_last(tuple(shape)) else _in_front(shape)
    return frames >= FEWEST_FRAMES and min(sides) >= SMALLEST_SIDE


def _in_front(shape: Sequence[int]) -> tuple[int, Sequence[int]]:
    """The number of frames where channels stand before the sides of an image, or before the frames; 0 for others."""
    frames = shape[0] if shape[1] in _CHANNELS else shape[1] if shape[0] in _CHANNELS else 0
    return frames, shape[2:]


def _original(
    build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool
) -> tuple[ChartedReader, ChartedSample, int]:
    """A reader that replaces the frames of videos, a sample without charts, and how many frames it decodes."""
    videos = giving(Gives.FRAME)
    names = {decoder.spelling for decoder in videos}
    reader = ChartedReader(build, folder, indices, CLIP_DRAWS, batched=batched, decoders=videos)
    next(reader.sources())
    original = reader.read(0, 0)
    return reader, original, sum(image.source in names for image in original.inputs)


def count_frames(build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool) -> int:
    """How many frames of videos are decoded while a sample is read."""
    return _original(build, folder, indices, batched=batched)[2]


def run_clips(
    build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool
) -> tuple[ClipFlips, ...]:
    """Read a sample whose video frames are replaced by charts, in several random states."""
    reader, original, _ = _original(build, folder, indices, batched=batched)
    found: dict[str, list[Flips]] = {}
    for draw in range(CLIP_DRAWS):
        views = [_clips(reader.read(0, draw, chart)) for chart in range(CHARTS)]
        for path in views[0]:
            stacks = [view[path] for view in views if path in view]
            flips = _flips(stacks) if len(stacks) == CHARTS and len({stack.shape for stack in stacks}) == 1 else None
            if flips is not None:
                found.setdefault(path, []).append(flips)
    source = next((image.source for image in original.inputs), "")
    return tuple(
        ClipFlips(path, original.index, source, reader.collated, tuple(draws)) for path, draws in found.items()
    )


def _clips(sample: ChartedSample) -> dict[str, np.ndarray]:
    """The first channel of each frame of leaves that may be clips, (frames, height, width); of a batch, the first."""
    clips: dict[str, np.ndarray] = {}
    for path, leaf in iter_leaves(sample.value):
        if is_image(leaf):
            frames = _frames(leaf)
            clips |= {} if frames is None else {path: frames[:MOST_FRAMES]}
    return clips


def _frames(leaf: Any) -> np.ndarray | None:
    array = array_of(leaf)
    array = array[0] if array.ndim == 5 and len(array) == 1 else array
    if not may_be_clip(array.shape):
        return None
    if planes_last(array.shape):
        return np.asarray(array[..., 0])
    return np.asarray(array[:, 0] if array.shape[1] in _CHANNELS else array[0])


def _flips(stacks: Sequence[np.ndarray]) -> Flips | None:
    """Whether each frame is flipped, by its views of all charts; None unless each shows enough of them."""
    views = [sampled(stack.astype(np.float64)) for stack in stacks]
    fields = [located([view[frame] for view in views]) for frame in range(len(stacks[0]))]
    poses = [None if field is None else pose_of(field) for field in fields]
    flipped = tuple(pose.across[0] < 0 for pose in poses if pose is not None)
    return flipped if len(flipped) == len(poses) else None
