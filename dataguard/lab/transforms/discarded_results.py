"""Steps of a pipeline whose results reach no sample: they are called with pictures, and what they give is thrown away.

Samples are read twice under the same random numbers, the second time with other pictures in what one step gives. Where
that step works, the second sample is another one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.incident import LoaderFailed
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import array_of, is_pillow, iter_leaves
from dataguard.lab.images.image_containers import exchange
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.transforms.pipeline_watch import Log, Watch, prints
from dataguard.target.variants import Loader

READS, FEWEST = 8, 6
"""Samples that are read twice for a step at most, and those of them that it must have been called for."""
_SECONDS = 3.0
"""Seconds after which no more samples are read."""
_MOST_CALLS = 64
"""Calls of a step within one sample, from which on it may be waiting for a picture that it likes."""
_BYTES = ("L", "P", "RGB", "RGBA", "CMYK")
_PLAIN = (torch.Tensor, np.ndarray, np.generic, str, bytes, bool, int, float, list, tuple, type(None))


@dataclass(frozen=True, slots=True)
class Thrown:
    """A step, by its path and its class, and how many samples stayed the same whatever came out of it."""

    path: str
    name: str
    samples: int


def find_thrown(loader: Loader, watch: Watch, folder: Path, indices: Sequence[Index]) -> Thrown | None:
    """The first of the steps that are watched of which nothing comes out, while samples are read again.

    A step that changes what it is given in place needs no result. Samples that hold objects of unknown kinds say
    nothing: what comes out of a step may be inside.
    """
    if len(indices) < FEWEST:
        return None
    reader = Reader(loader, folder, READS)
    until = time.monotonic() + _SECONDS
    try:
        if not all(isinstance(leaf, _PLAIN) or is_pillow(leaf) for _, leaf in iter_leaves(reader.read(indices[0]))):
            return None
        for log in [log for log in watch.logs if not log.is_nested]:
            samples = _untouched(log, watch, reader, indices, until)
            if samples >= FEWEST and log.acts and not log.in_place:
                return Thrown(log.path, log.name, samples)
    except LoaderFailed:  # it raises, given other pictures: it looks at them
        return None
    return None


def _untouched(log: Log, watch: Watch, reader: Reader, indices: Sequence[Index], until: float) -> int:
    """How many samples are the same with other pictures from a step; 0 once there is one that is not."""
    count = 0
    for draw, index in enumerate(indices[:READS]):
        usual = prints(reader.read(index, draw))
        swap = _Swap(log)
        watch.change = swap
        try:
            other = prints(reader.read(index, draw))
        finally:
            watch.change = None
        if swap.lost or usual != other or time.monotonic() > until:
            return 0
        count += swap.calls > 0
    return count


class _Swap:
    """Puts other pictures into what one step gives, and counts how often."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.calls = 0
        self.lost = False

    def __call__(self, log: Log, given: Any) -> Any:
        if log is not self._log or self.calls > _MOST_CALLS:
            return given
        self.calls += 1
        changed = exchange(given, _other)
        self.lost |= self.calls > _MOST_CALLS or prints(changed) == prints(given)
        return changed


def _other(picture: Any) -> Any:
    """Another picture of the same form, or the same one where it is in a rare mode of Pillow's.

    It is far from the first one, so that what is made of it by rounding or by a threshold is another one as well.
    """
    if is_pillow(picture):
        return picture.point(lambda value: value ^ 128) if picture.mode in _BYTES else picture
    kind, size = array_of(picture).dtype.kind, array_of(picture).dtype.itemsize
    if kind == "f":
        return -picture - 1
    return picture ^ True if kind == "b" else picture ^ 128 if (kind, size) == ("u", 1) else picture + 1
