"""Two leaves that show one part of one image in two sizes, such as a pair for super-resolution cut from one file.

Two views for contrastive learning come from one file too, but from different parts of it. Leaves that show the same
part in every draw belong together if that part is drawn at random, or if the sample holds nothing that could be learned
but images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from dataguard.lab.core.index import Index
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.geometry.alignment import DRAWS, FEWEST
from dataguard.lab.geometry.box_sources import in_source
from dataguard.lab.geometry.charted_reader import ChartedReader, ChartedSample
from dataguard.lab.geometry.image_pairs import is_steady
from dataguard.lab.geometry.stripe_charts import (
    CHARTS,
    Field,
    Pose,
    displacement,
    flattened,
    located,
    pose_of,
    sampled,
)
from dataguard.lab.images.image_containers import is_image
from dataguard.lab.reading.leaf_root import Rooted
from dataguard.model import NotApplicable
from dataguard.targets.variants import Loader

RATIO = 1.5
"""The smallest factor between the sides of the two."""
MOST_LEAVES = 4
"""More images of one file are views of it."""
SAME_PART, OTHER_PART = 0.06, 0.15
"""How far apart the edges of the same part may be, and how far those of another part are, as shares of the image."""


@dataclass(frozen=True, slots=True)
class SizedPair(Rooted):
    """A `large` and a `small` leaf of one part of one image, in `draws` draws, and those in which they are misaligned.

    Both are paths from the sample or, if `collated`, the batch. `index`, `distance` (a share of the image) and the
    descriptions are those of the draw that differs most.
    """

    large: str
    small: str
    draws: int
    misaligned: int
    index: Index
    distance: float
    large_is: str
    small_is: str
    source: str
    collated: bool


View = tuple[Index, Field, Pose]
"""One leaf in one draw: where its points come from."""


def run_sized_pairs(
    build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool
) -> tuple[SizedPair, ...]:
    """Read samples with their image replaced by charts, in this disposable process."""
    reader = ChartedReader(build, folder, indices, DRAWS, batched=batched)
    original = _original(reader)
    pairs = _of_two_sizes(original)
    if not pairs or not is_steady(original, reader.read(0, 1)):
        raise NotApplicable("no sample holds one image in two sizes")
    draws = [views for draw in range(DRAWS) if (views := _views(reader, draw))]
    numbered = any(not is_image(leaf) and not isinstance(leaf, str | bytes) for _, leaf in iter_leaves(original.value))
    source, collated = original.inputs[0].source, reader.collated
    judged = (_judged(*pair, draws, source, numbered=numbered, collated=collated) for pair in pairs)
    return tuple(pair for pair in judged if pair)


def _original(reader: ChartedReader) -> ChartedSample:
    """A sample without charts that shows a single image. Raises NotApplicable if there is none."""
    for _ in reader.sources():
        sample = reader.read(0, 0)
        if len({image.thumbnail.tobytes() for image in sample.inputs}) == 1:
            return sample
        if sample.inputs:
            break
    raise NotApplicable("samples are not made of one image each")


def _of_two_sizes(sample: ChartedSample) -> list[tuple[str, str]]:
    """The pairs of leaves of which one is larger along both sides."""
    sizes = {path: np.array(leaf.shape[-2:]) for path, leaf in sample.leaves.items()}
    ordered = sorted(sizes, key=lambda path: -int(sizes[path].prod()))
    pairs = combinations(ordered if len(ordered) <= MOST_LEAVES else [], 2)
    return [(large, small) for large, small in pairs if (sizes[large] >= RATIO * sizes[small]).all()]


def _views(reader: ChartedReader, draw: int) -> Mapping[str, View]:
    """Where each leaf comes from in one draw."""
    reads = [reader.read_charted(draw, draw, chart) for chart in range(CHARTS)]
    charted = [sample for sample in reads if sample is not None]
    views: dict[str, View] = {}
    for path in charted[0].leaves if len(charted) == CHARTS else ():
        leaves = [sample.leaves.get(path) for sample in charted]
        shapes = {None if leaf is None else leaf.shape for leaf in leaves}
        field = located([flattened(sampled(leaf)) for leaf in leaves if leaf is not None]) if len(shapes) == 1 else None
        pose = None if field is None else pose_of(field)
        if field is not None and pose is not None:
            views[path] = charted[0].index, field, pose
    return views


def _judged(
    large: str, small: str, draws: Sequence[Mapping[str, View]], source: str, *, numbered: bool, collated: bool
) -> SizedPair | None:
    """How two leaves agree; None unless they show the same part of their image in every draw."""
    both = [(draw[large], draw[small]) for draw in draws if large in draw and small in draw]
    parts = np.array([[_part(one[2]), _part(other[2])] for one, other in both])
    if len(both) < FEWEST or np.abs(parts[:, 0] - parts[:, 1]).max() > SAME_PART:
        return None
    if numbered and np.abs(parts[:, 0] - parts[0, 0]).max() < OTHER_PART:
        return None
    lengths = [displacement(one[1], other[1]) or 0.0 for one, other in both]
    misaligned = sum(length > OTHER_PART * _side(one[2]) for length, (one, _) in zip(lengths, both, strict=True))
    worst = int(np.argmax(lengths))
    (index, _, pose), (_, _, other) = both[worst]
    wrong = misaligned if misaligned < len(both) else 0  # always flipped: on purpose
    described = pose.description, other.description
    return SizedPair(large, small, len(both), wrong, index, lengths[worst], *described, source, collated)


def _part(pose: Pose) -> np.ndarray:
    """The part of the image that a leaf shows: x and y of two corners, as shares."""
    return np.asarray(in_source(pose, np.array([[0.0, 0.0, 1.0, 1.0]]))[0])


def _side(pose: Pose) -> float:
    """The shorter side of the part of the image that a leaf shows."""
    left, top, right, bottom = _part(pose)
    return float(min(right - left, bottom - top))
