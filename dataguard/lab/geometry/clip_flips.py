"""Whether the frames of a clip, which a sample decodes from a video or from image files, are flipped one by one.

All frames that are decoded show the same chart, so that the frames of a leaf show how each was moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dataguard.core.model import Location
from dataguard.lab.core.records import Index
from dataguard.lab.decoding.decoders import Gives, giving
from dataguard.lab.geometry.alignment_lines import first_flip, followed
from dataguard.lab.geometry.charted_reader import IMAGES_AND_ARRAYS, ChartedReader, ChartedSample
from dataguard.lab.geometry.charts import CHARTS, InputImage, located, pose_of, sampled
from dataguard.lab.images.clips import FEWEST_FRAMES, clips_of, list_of, may_be_clip
from dataguard.lab.reading.sample_reader import Rooted
from dataguard.targets.variants import Loader

MOST_FRAMES = 64
"""Frames of a clip that are looked at."""
CLIP_DRAWS = 3
"""Random states in which a sample is read: two in which frames differ tell a random flip from a fixed one."""
CLIP_READS = CLIP_DRAWS * CHARTS + 1

Flips = tuple[bool, ...]
"""Whether each frame of a clip is flipped horizontally."""


@dataclass(frozen=True, slots=True)
class ClipFlips(Rooted):
    """A leaf of frames, and which of them are flipped in each random state; `filed` ones are read from image files."""

    path: str
    index: Index
    source: str
    collated: bool
    draws: tuple[Flips, ...]
    filed: bool = False


def may_hold_clip(shapes: Sequence[tuple[str, Sequence[int]]]) -> bool:
    """Whether leaves of these paths and shapes may be a clip: an axis, channels or a list of frames."""
    lists = Counter((list_of(path), *shape) for path, shape in shapes if len(shape) == 3 and list_of(path))
    stacked = any(len(shape) == 3 and shape[0] >= FEWEST_FRAMES for _, shape in shapes)
    return stacked or any(may_be_clip(shape) for _, shape in shapes) or max(lists.values(), default=0) >= FEWEST_FRAMES


def _original(
    build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool
) -> tuple[ChartedReader, ChartedSample, list[InputImage], bool]:
    """A reader that replaces frames, a sample without charts, its frames, and whether they are image files."""
    videos = giving(Gives.FRAME)
    names = {decoder.spelling for decoder in videos}
    decoders = (*IMAGES_AND_ARRAYS, *videos)
    reader = ChartedReader(build, folder, indices, CLIP_DRAWS, batched=batched, decoders=decoders)
    next(reader.sources())
    original = reader.read(0, 0)
    frames = [image for image in original.inputs if image.source in names]
    coloured = [image for image in original.inputs if image.planes > 1]
    return reader, original, frames or coloured or list(original.inputs), not frames


def count_frames(build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool) -> int:
    """How many frames are decoded while a sample is read."""
    return len(_original(build, folder, indices, batched=batched)[2])


def run_clips(
    build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool
) -> tuple[ClipFlips, ...]:
    """Read a sample whose frames are replaced by charts, in several random states."""
    reader, original, frames, filed = _original(build, folder, indices, batched=batched)
    found: dict[str, list[Flips]] = {}
    for draw in range(CLIP_DRAWS):
        # Image files in a list may be separate images: only an axis says that they are one clip.
        views = [clips_of(reader.read(0, draw, chart).value, len(frames), lists=not filed) for chart in range(CHARTS)]
        for path in views[0]:
            stacks = [view[path][:MOST_FRAMES] for view in views if path in view]
            flips = _flips(stacks) if len(stacks) == CHARTS and len({stack.shape for stack in stacks}) == 1 else None
            if flips is not None:
                found.setdefault(path, []).append(flips)
    source = next((image.source for image in frames), "")
    return tuple(
        ClipFlips(path, original.index, source, reader.collated, tuple(draws), filed) for path, draws in found.items()
    )


def line_of_flips(
    build: Callable[..., Loader], folder: Path, indices: Sequence[Index], clip: ClipFlips, *, batched: bool
) -> Location | None:
    """The first line after which a frame is flipped, in the random state in which the most frames are."""
    reader, *_ = _original(build, folder, indices, batched=batched)
    draw = max(range(len(clip.draws)), key=lambda draw: sum(clip.draws[draw]))
    look = first_flip(followed(reader, 0, draw))
    return look.location if look else None


def _flips(stacks: Sequence[np.ndarray]) -> Flips | None:
    """Whether each frame is flipped, by its views of all charts; None unless each shows enough of them."""
    views = [sampled(stack.astype(np.float64)) for stack in stacks]
    fields = [located([view[frame] for view in views]) for frame in range(len(stacks[0]))]
    poses = [None if field is None else pose_of(field) for field in fields]
    flipped = tuple(pose.across[0] < 0 for pose in poses if pose is not None)
    return flipped if len(flipped) == len(poses) else None
