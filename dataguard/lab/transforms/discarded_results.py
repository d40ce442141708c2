"""Pipeline steps whose results are discarded: they are called with images, but do not affect samples.

Samples are read twice under the same RNG state, the second time with other images in the result of one step. If the
result of that step is used, the second sample differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dataguard.incident import LoaderFailed
from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import array_of, is_pillow, iter_leaves
from dataguard.lab.images.image_containers import replace_images
from dataguard.lab.reading.sample_reader import Reader
from dataguard.lab.transforms.pipeline_watch import CallLog, PipelineWatch, fingerprint
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

READS, FEWEST = 8, 6
"""The most samples that are read twice for a step, and how many of them the step must be called for."""
_SECONDS = 3.0
"""Seconds after which no more samples are read."""
_MOST_CALLS = 64
"""The most calls of a step in one sample: beyond, it may be retried until its result is accepted."""
_BYTES = ("L", "P", "RGB", "RGBA", "CMYK")
_PLAIN = (torch.Tensor, np.ndarray, np.generic, str, bytes, bool, int, float, list, tuple, type(None))


@dataclass(frozen=True, slots=True)
class Discarded:
    """A step, by its path and its class, and how many samples stayed the same whatever it returned."""

    path: str
    name: str
    samples: int


def find_discarded(loader: Loader, watch: PipelineWatch, folder: Path, indices: Sequence[Index]) -> Discarded | None:
    """The first watched step whose result is discarded, found by reading samples again.

    A step that works in place needs no result. Samples with objects of unknown types cannot be judged: the result may
    be inside.
    """
    if len(indices) < FEWEST:
        return None
    reader = Reader(loader, folder, READS)
    until = time.monotonic() + _SECONDS
    try:
        if not all(isinstance(leaf, _PLAIN) or is_pillow(leaf) for _, leaf in iter_leaves(reader.read(indices[0]))):
            return None
        for log in [log for log in watch.logs if not log.is_nested]:
            samples = _unchanged_samples(log, watch, reader, indices, until)
            if samples >= FEWEST and log.acts and not log.in_place:
                return Discarded(log.path, log.name, samples)
    except LoaderFailed:  # it raises for other images: they are used
        return None
    return None


def _unchanged_samples(
    log: CallLog, watch: PipelineWatch, reader: Reader, indices: Sequence[Index], until: float
) -> int:
    """How many samples stay the same with other images from a step; 0 if any differs."""
    count = 0
    for draw, index in enumerate(indices[:READS]):
        usual = fingerprint(reader.read(index, draw))
        replacement = _ImageReplacement(log)
        watch.change = replacement
        try:
            other = fingerprint(reader.read(index, draw))
        finally:
            watch.change = None
        if replacement.failed or usual != other or time.monotonic() > until:
            return 0
        count += replacement.calls > 0
    return count


class _ImageReplacement:
    """Replaces the images in the results of one step, and counts its calls."""

    def __init__(self, log: CallLog) -> None:
        self._log = log
        self.calls = 0
        self.failed = False

    def __call__(self, log: CallLog, given: Any) -> Any:
        if log is not self._log or self.calls > _MOST_CALLS:
            return given
        self.calls += 1
        changed = replace_images(given, _other)
        self.failed |= self.calls > _MOST_CALLS or fingerprint(changed) == fingerprint(given)
        return changed


def _other(image: Any) -> Any:
    """Another image of the same shape and type, or the same image for rare Pillow modes.

    Its values are far from the original ones, so that it differs after rounding or a threshold as well.
    """
    if is_pillow(image):
        return image.point(lambda value: value ^ 128) if image.mode in _BYTES else image
    kind, size = array_of(image).dtype.kind, array_of(image).dtype.itemsize
    if kind == "f":
        return -image - 1
    return image ^ True if kind == "b" else image ^ 128 if (kind, size) == ("u", 1) else image + 1
