"""Whether the samples of a loader hold pairs of images that belong together, such as a photograph and its depth map.

The second image then serves as the mask of the first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dataguard.lab.core.leaves import describe, iter_leaves
from dataguard.lab.geometry.charted_reader import ORIGINALS, ChartedReader, ChartedSample, is_steady
from dataguard.lab.geometry.charts import InputImage, IsMask
from dataguard.lab.images.painter import is_image

FEWEST_PAIRS = 5
"""Pairs of images that must resemble each other more than any two images of different samples do.

Those of five unrelated pairs are the most similar of all 45 pairs of ten images once in 1.2 million times.
"""
PAIR_CORRELATION = 0.7
"""The smallest correlation of the two, at a coarse scale: smaller pairs edges and depths with more images, larger fewer
images that merely share their layout."""
PAIR_DRAWS, FEWEST_REPEATED = 16, 8
"""Random states that show whether a sample draws pairs, and how often a first image must come with its second again:
of images that are drawn from two or more each by itself, so many agree once in 256 times at most."""


def pair_rule(reader: ChartedReader, originals: Sequence[ChartedSample]) -> IsMask | None:
    """A rule that takes the second image of a sample for the mask of the first; None unless they are pairs.

    A few samples may lack their second image. More than two are no pair.
    """
    read = list(enumerate(originals))
    if any(len(sample.inputs) == 2 for sample in originals):
        more = range(len(originals), len(originals) + ORIGINALS) if _lacks_second(originals) else ()
        read += [(number, reader.read(number, 0)) for number in more]
    distinct = list({sample.index: (number, sample) for number, sample in read if len(sample.inputs) == 2}.values())
    lacking = sum(_lacks_second([sample]) for _, sample in read)
    if len(distinct) < FEWEST_PAIRS or any(len(sample.inputs) > 2 for _, sample in read) or 2 * lacking > len(read):
        return None
    contents = np.stack([_standardized(image.thumbnail) for _, sample in distinct for image in sample.inputs])
    correlations = np.abs(contents @ contents.T)  # an edge or depth map may be dark where its photograph is bright
    within_pairs = np.array([correlations[first, first + 1] for first in range(0, len(contents), 2)])
    numbers = np.arange(len(correlations)) // 2
    between_samples = correlations[numbers[:, None] != numbers[None, :]]
    identical = within_pairs.max() > 1 - 1e-9  # but for rounding: one file that is read twice
    if within_pairs.min() < PAIR_CORRELATION or within_pairs.min() <= between_samples.max() or identical:
        return None
    again = [reader.read(number, 1) for number, _ in distinct]
    if all(is_steady(sample, other) for (_, sample), other in zip(distinct, again, strict=True)):
        return is_second
    if all(len(sample.inputs) == 2 for sample in again):
        number, _ = distinct[0]
        return is_second if are_drawn_together([reader.read(number, draw) for draw in range(PAIR_DRAWS)]) else None
    return None


def are_drawn_together(draws: Sequence[ChartedSample]) -> bool:
    """Whether a sample draws one of several pairs: a first image always has the same second one.

    Two views that are drawn each by itself, as for contrastive learning, are together by chance, or change places.
    """
    partners: dict[bytes, tuple[object, ...]] = {}
    for sample in draws:
        if len(sample.inputs) != 2:
            return False
        first, second = (image.thumbnail.tobytes() for image in sample.inputs)
        beside = {path: describe(path, leaf).digest for path, leaf in iter_leaves(sample.value) if not is_image(leaf)}
        if partners.setdefault(first, (second, beside)) != (second, beside):
            return False
    places = {second for second, _ in partners.values()} & partners.keys()
    return len(draws) - len(partners) >= FEWEST_REPEATED and not places


def _lacks_second(samples: Sequence[ChartedSample]) -> bool:
    return any(len(sample.inputs) < 2 for sample in samples)


def is_second(image: InputImage) -> bool:
    """Whether an image is the second one of its sample."""
    return image.position == 1


def _standardized(thumbnail: np.ndarray) -> np.ndarray:
    values = thumbnail.ravel() - thumbnail.mean()
    return np.asarray(values / max(float(np.linalg.norm(values)), 1e-12))
