"""The image leaves of samples that are read with other files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dataguard.lab.core.leaves import array_of, describe
from dataguard.lab.decoding.image_headers import Header
from dataguard.lab.files.swapped_file_reads import SampleOutput, SwappedFileReader

_PIXELS = 64
"""Leaves with fewer values are not images."""
_SHOWN = 4096


@dataclass(frozen=True, slots=True)
class ImageLeaf:
    """A leaf with rows and columns: its minimum, median and maximum, and some evenly spaced pixels."""

    digest: bytes
    shape: tuple[int, ...]
    dtype: str
    low: float
    middle: float
    high: float
    pixels: np.ndarray

    @property
    def channels(self) -> int:
        """The number of channels, first or last; 1 without a channel dimension."""
        return 1 if len(self.shape) < 3 else min(self.shape[-3], self.shape[-1])


def image_leaf(path: str, leaf: Any) -> ImageLeaf | None:
    """The numbers of a leaf that has rows and columns; None for any other."""
    array = array_of(leaf) if isinstance(leaf, torch.Tensor) else leaf
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub" or array.ndim < 2 or array.size < _PIXELS:
        return None
    flat = array.reshape(-1).astype(np.float64)
    numbers = (float(flat.min()), float(np.median(flat)), float(flat.max()))
    shown = flat[:: len(flat) // _SHOWN + 1].astype(np.float32)
    return ImageLeaf(describe(path, leaf).digest, array.shape, str(array.dtype), *numbers, shown)


ImageOutput = SampleOutput[Header, ImageLeaf]
ImageReader = SwappedFileReader[Header, ImageLeaf]
