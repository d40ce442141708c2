"""The frames of clips: which axis of an array counts them, in each layout that is usual."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dataguard.lab.core.leaves import array_of, is_pillow, iter_leaves
from dataguard.lab.images.painter import SMALLEST_SIDE, is_image, planes_last, planes_of

FEWEST_FRAMES = 4
"""Frames of a clip: fewer may be a pair, or a triplet of an anchor and two others."""
_CHANNELS = (1, 3)


def frames_of(value: Any) -> np.ndarray:
    """An image or clip as (frames, planes, height, width), whatever the order of its axes.

    Channels may be last, or before the sides of each frame, or before the frames. A stack of clips has all of their
    frames, and an image or the planes of one are a single frame.
    """
    array = array_of(value)
    if is_pillow(value) or array.ndim < 4:
        return planes_of(value)[None]
    clips = array.reshape(-1, *array.shape[-4:])
    clips = np.moveaxis(clips, frames_axis(array.shape[-4:]) + 1, 1)
    clips = np.moveaxis(clips, -1, 2) if planes_last(array.shape) else clips
    return clips.reshape(-1, *clips.shape[2:])


def frames_axis(shape: Sequence[int]) -> int:
    """Which of four axes counts frames: the second one, if channels stand before it and not after it."""
    return int(not planes_last(tuple(shape)) and shape[0] in _CHANNELS and shape[1] not in _CHANNELS)


def may_be_clip(shape: Sequence[int]) -> bool:
    """Whether a leaf of this shape may hold the frames of a clip, with channels before, after or last."""
    if len(shape) != 4 or shape[-1] < 1:
        return False
    last, axis = planes_last(tuple(shape)), frames_axis(shape)
    known = last or shape[1 - axis] in _CHANNELS
    return known and shape[axis] >= FEWEST_FRAMES and min(shape[1:3] if last else shape[2:]) >= SMALLEST_SIDE


def clips_of(sample: Any, count: int, *, lists: bool = True) -> dict[str, np.ndarray]:
    """The clips of a sample that reads so many frames, by path: (frames, height, width), the first channel of each.

    Their frames may be an axis, stacked on the channels, or, if `lists`, the entries of a list.
    """
    leaves = [(path, leaf) for path, leaf in iter_leaves(sample) if is_image(leaf)]
    clips: dict[str, np.ndarray] = {}
    for path, leaf in leaves:
        array = array_of(leaf)
        array = array[0] if array.ndim == 5 and len(array) == 1 else array
        if may_be_clip(array.shape):
            clips[path] = frames_of(array)[:, 0]
        elif array.ndim == 3 and len(array) in (count, 3 * count) and not planes_last(array.shape):
            clips[path] = array[:: len(array) // count]
    return clips | dict(_listed(leaves) if lists else ())


def _listed(leaves: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, np.ndarray]]:
    by_list: dict[str, list[np.ndarray]] = {}
    for path, leaf in leaves:
        by_list.setdefault(list_of(path), []).append(planes_of(leaf)[0])
    for path, planes in by_list.items():
        if path and len(planes) >= FEWEST_FRAMES and len({one.shape for one in planes}) == 1:
            yield path, np.stack(planes)


def list_of(path: str) -> str:
    """The path of the list that an entry is in; empty of what is in none."""
    start, _, number = path.rpartition("[")
    return start if number.removesuffix("]").isdigit() else ""
