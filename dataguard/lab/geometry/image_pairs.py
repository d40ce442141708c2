"""Two images of a sample that belong together, such as a photograph in two sizes: one serves as the other's mask.

Each sample reads two images, always the same ones, whose contents resemble each other and no other image. Two views of
one file are no pair, nor are samples with numbers that follow the draw, as if they said how the views differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dataguard.lab.core.leaves import describe, iter_leaves
from dataguard.lab.geometry.chart_painter import InputImage, IsMask
from dataguard.lab.geometry.charted_reader import ChartedReader, ChartedSample
from dataguard.lab.images.image_containers import is_image

FEWEST = 5
"""Pairs of images that must resemble each other more than any two images of different samples do."""
ALIKE = 0.7
"""The smallest correlation of the two, at a coarse scale."""


def pair_rule(reader: ChartedReader, originals: Sequence[ChartedSample]) -> IsMask | None:
    """A rule that takes the second image of each sample for the mask of the first; None unless they are pairs."""
    distinct = list({sample.index: (number, sample) for number, sample in enumerate(originals)}.values())
    if len(distinct) < FEWEST or any(len(sample.inputs) != 2 for _, sample in distinct):
        return None
    contents = np.stack([_standardized(one.thumbnail) for _, sample in distinct for one in sample.inputs])
    alike = np.abs(contents @ contents.T)  # an edge or depth map may be dark where its photograph is bright
    own = np.array([alike[place, place + 1] for place in range(0, len(contents), 2)])
    others = alike[np.arange(len(alike))[:, None] // 2 != np.arange(len(alike))[None, :] // 2]
    if own.min() < ALIKE or own.min() <= others.max() or own.max() > 1 - 1e-9:
        return None
    again = [reader.read(number, 1) for number, _ in distinct]
    if all(is_steady(sample, other) for (_, sample), other in zip(distinct, again, strict=True)):
        return is_second
    return None


def is_second(image: InputImage) -> bool:
    """Whether an image is the second one of its sample."""
    return image.position == 1


def _standardized(thumbnail: np.ndarray) -> np.ndarray:
    values = thumbnail.ravel() - thumbnail.mean()
    return np.asarray(values / max(float(np.linalg.norm(values)), 1e-12))


def is_steady(one: ChartedSample, other: ChartedSample) -> bool:
    """Whether two draws of a sample read the same images, and differ in nothing but images."""
    if [image.thumbnail.tobytes() for image in one.inputs] != [image.thumbnail.tobytes() for image in other.inputs]:
        return False
    values = ({path: leaf for path, leaf in iter_leaves(sample.value) if not is_image(leaf)} for sample in (one, other))
    first, second = ({path: describe(path, leaf).digest for path, leaf in leaves.items()} for leaves in values)
    return first == second
