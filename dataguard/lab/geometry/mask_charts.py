"""How images and masks are moved, and which values masks hold, measured with charts.

Charts replace what decoders return, what the dataset's transforms are called with, or what the dataset caches in
memory: the first of these that has an image. The same sample is read with every chart while all RNGs are frozen, so
that all charts get the same crop, flip and jitter.

A sample without a mask may hold two images that belong together. Of two that are read from two files, such as a
photograph and its depth map, the second serves as the mask (`pair_rule`). Two leaves that show one image in two sizes,
such as a pair for super-resolution, are compared with each other (`run_sized_pairs`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from dataguard.core.incident import is_library
from dataguard.core.model import Location, NotApplicable, Undecided
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.records import Index
from dataguard.lab.culprit.line_trace import MOST_SECONDS
from dataguard.lab.geometry.alignment import (
    CHARTED_DRAWS,
    FEWEST_DRAWS,
    ChartedDraws,
    MaskLeaf,
    MaskValues,
    other_aspect,
)
from dataguard.lab.geometry.alignment_lines import followed, line_apart, line_of_values, made_by_factory, sizes_apart
from dataguard.lab.geometry.box_alignment import MOST_DRAWS, BoxAlignment, in_source
from dataguard.lab.geometry.box_labels import BoxLabels, line_of_labels
from dataguard.lab.geometry.box_lines import line_of_boxes
from dataguard.lab.geometry.charted_reader import ORIGINALS, ChartedReader, ChartedSample, is_steady
from dataguard.lab.geometry.charts import (
    CHARTS,
    MASK_RULES,
    Field,
    InputImage,
    IsMask,
    Pose,
    Value,
    displacement,
    flattened,
    located,
    mask_rule,
    pose_of,
    sampled,
)
from dataguard.lab.geometry.image_pairs import PAIR_DRAWS, is_second, pair_rule
from dataguard.lab.images.painter import is_image
from dataguard.lab.reading.sample_reader import Rooted
from dataguard.process.originals import time
from dataguard.targets.variants import Loader

LABEL_PAIRS = 4
"""How many pairs of labels are tried until one yields two values: the user's code merges few labels; each takes nine
reads."""
MASK_DEPENDENT_DRAWS = 4
"""At most one in this many draws may be mask-dependent: a few may be so by chance, as when another filter drops an
image."""


_HIDDEN_MASKS = 4
"""At most one in this many masks may be so small, or have so many edges, that haloes hide its labels: more would rather
be photographs."""


@dataclass(frozen=True, slots=True)
class ChartedMasks(Rooted):
    """The response of mask leaves to the charts.

    `source` names where masks were replaced; `labels` are the values of label masks there. With lossy compression, a
    mask of up to `lossy_labels` labels holds up to `lossy_values` values. `constant` are integer leaves that never
    change, if no leaf follows a mask with several labels. `told_by` names the rule that distinguishes masks from
    images, and `chart_labels` are the values for dark and light in the charts of masks. `other_aspect` names the sizes
    of files whose sides have another ratio.
    """

    source: str
    labels: tuple[Value, ...]
    lossy_labels: int
    lossy_values: int
    masks: tuple[MaskLeaf, ...]
    constant: tuple[str, ...]
    collated: bool
    index: Index
    draws: int
    reads: int
    told_by: str
    chart_labels: tuple[Value, Value] | None
    other_aspect: str | None

    @property
    def exercised(self) -> dict[str, int]:
        """How much was inspected."""
        return {"draws": self.draws, "charts": self.reads, "leaves": len(self.masks)}


def run_masks(
    build: Callable[..., Loader],
    folder: Path,
    indices: Sequence[Index],
    *,
    batched: bool,
    least: int,
    most: int,
    unread: bool = False,
) -> ChartedMasks:
    """Read samples with charts for images and masks: in `least` draws and, unless all are aligned, in `most`.

    `unread`: samples are known to be made without a decoder.
    """
    reader = ChartedReader(build, folder, indices, max(CHARTED_DRAWS, PAIR_DRAWS), batched=batched, unread=unread)
    originals, rule = _originals_with_masks(reader)
    if rule is None:
        raise NotApplicable("no mask, other dense target or second image that resembles it is read with an image")
    masks = [mask for sample in originals for mask in sample.inputs if rule(mask)]
    labels = () if is_second is rule else _labels_of(masks)
    reader.painter.is_mask = rule
    charted = draw_all(reader, labels, least)
    if least < most and not charted.are_aligned(originals):
        charted.take(most)
    if not charted.draws:
        raise Undecided("images are cached, so charts could not be injected")
    if MASK_DEPENDENT_DRAWS * charted.mask_dependent > len(charted.draws):
        raise Undecided("image crops depend on the mask, such as patches around a lesion: charts differ")
    leaves = tuple(charted.mask_leaves(originals))
    constant = () if leaves or len(labels) < 2 else tuple(_constant(originals, charted.images))
    if not leaves and not constant:
        raise NotApplicable("nothing in the sample follows the mask that is read with its image")
    return ChartedMasks(
        masks[0].source,
        labels,
        max((len(mask.labels or ()) for mask in masks if mask.is_lossy_mask), default=0),
        max((mask.value_count for mask in masks if mask.is_lossy_mask), default=0),
        leaves,
        constant,
        reader.collated,
        charted.draws[-1].index,
        len(charted.draws),
        charted.reads,
        rule.__name__,
        reader.painter.label_pair,
        other_aspect(originals, rule),
    )


def trace_masks(
    build: Callable[..., Loader],
    folder: Path,
    indices: Sequence[Index],
    charts: ChartedMasks,
    draws: Sequence[int],
    *,
    batched: bool,
    again: Callable[[], Loader] | None,
    values: MaskValues | None = None,
) -> Location | None:
    """The line after which an image and its mask disagree in a draw, or the mask holds these `values`.

    Of several draws, the first that shows it. `again` builds the loader from newly imported modules, to see where they
    make the transform that does so.
    """
    reader = ChartedReader(build, folder, indices, CHARTED_DRAWS, batched=batched)
    rule = {rule.__name__: rule for rule in (*MASK_RULES, is_second)}[charts.told_by]
    first = ORIGINALS + draws[0], draws[0]
    if not any({*map(rule, reader.read(*first).inputs)} >= {True, False} for _ in reader.sources()):
        raise Undecided("no image is replaced while a sample is read")
    reader.painter.is_mask, reader.painter.label_pair = rule, charts.chart_labels
    end = time.thread_time() + MOST_SECONDS
    for draw in draws:
        lines = followed(reader, ORIGINALS + draw, draw)
        look = line_apart(lines) if values is None else line_of_values(lines.looks, values)
        # A transform that moves the image alone may be right, and wrongly called: by the user's code, if it calls it.
        if look and (values or is_library(look.file)):
            look = made_by_factory(look, lines, again)
        if look or time.thread_time() > end:
            return look.location if look else None
    return None


def trace_sizes(
    build: Callable[..., Loader], folder: Path, indices: Sequence[Index], pair: SizedPair, *, batched: bool
) -> Location | None:
    """The line after which two sizes of an image disagree in the draw that differs most."""
    reader = ChartedReader(build, folder, indices, CHARTED_DRAWS, batched=batched)
    leaves = _original(reader).leaves
    lines = followed(reader, pair.draw, pair.draw)
    look = sizes_apart(lines.looks, [leaves[path].shape[-2:] for path in (pair.large, pair.small)])
    return look.location if look else None


def trace_boxes(
    build: Callable[..., Loader],
    folder: Path,
    indices: Sequence[Index],
    table: BoxAlignment | BoxLabels,
    *,
    batched: bool,
) -> Location | None:
    """The line after which boxes or points do not follow their image, or labels do not stay with their boxes."""
    reader = ChartedReader(build, folder, indices, MOST_DRAWS, batched=batched)
    if not any(reader.read(*table.read).inputs for _ in reader.sources()):
        raise Undecided("no image is replaced while a sample is read")
    if isinstance(table, BoxLabels):
        look = line_of_labels(reader, table)
    else:
        look = line_of_boxes(reader, *table.read, points=table.points, columns=table.columns)
    return look.location if look else None


def draw_all(reader: ChartedReader, labels: Sequence[Value], most: int) -> ChartedDraws:
    """So many draws, with two labels that yield different values: the user's code may merge some labels."""
    pairs: list[tuple[Value, Value] | None] = [(labels[0], label) for label in labels[:0:-1]]
    for pair in pairs[:LABEL_PAIRS] or [None]:
        reader.painter.label_pair = pair
        charted = ChartedDraws(reader)
        charted.take(1)
        if charted.masks:
            break
    charted.take(most)
    return charted


_WITHOUT_MASK = 3
"""One in this many samples must have a mask: what is unlabelled, or has no defect, may lack it."""


def _originals_with_masks(reader: ChartedReader) -> tuple[list[ChartedSample], IsMask | None]:
    """Samples without charts, with the input images of the first source that has an image and a mask, or a pair."""
    for _ in reader.sources():
        originals = [sample for sample in reader.originals() if sample.inputs]
        masked = [sample for sample in originals if len(sample.inputs) > 1]
        enough = len(masked) == len(originals) or (len(masked) > 1 and _WITHOUT_MASK * len(masked) >= len(originals))
        if enough and (rule := mask_rule([sample.inputs for sample in masked])):
            return masked, rule
        if rule := pair_rule(reader, originals):
            return originals, rule
    return [], None


def _labels_of(masks: Sequence[InputImage]) -> tuple[Value, ...]:
    """The values of all label masks; none if a mask has too many of them, or if most occur at edges only."""
    labels = {value for mask in masks for value in mask.labels or ()}
    # A label that is at edges only in all masks comes from soft edges, unless it is black or white.
    edges = labels.intersection(*(mask.edge_labels | (labels - set(mask.labels or ())) for mask in masks))
    soft = {label for label in edges if min(labels) < label < max(labels)}
    mixed = len({mask.planes for mask in masks}) > 1 or not _are_labelled(masks)
    return () if mixed or (len(soft) > len(labels) - len(soft) > 1) else tuple(sorted(labels))


def _are_labelled(masks: Sequence[InputImage]) -> bool:
    """Whether all are label masks: lossy compression may hide the labels of one in several."""
    hidden = sum(mask.labels is None for mask in masks)
    return not hidden or (
        _HIDDEN_MASKS * hidden <= len(masks) and all(mask.is_lossy_mask for mask in masks if mask.labels)
    )


def _constant(originals: Sequence[ChartedSample], images: set[str]) -> Iterator[str]:
    """Integer leaves, except images, that hold a single value in all samples."""
    for path in originals[0].leaves:
        leaves = [sample.leaves[path] for sample in originals if path in sample.leaves]
        are_integers = all(leaf.dtype.kind in "iub" and len(leaf) == 1 for leaf in leaves)
        if are_integers and path not in images and len({value for leaf in leaves for value in np.unique(leaf)}) == 1:
            yield path


SIDE_RATIO = 1.5
"""The smallest factor between the sides of the two: the usual ones of super-resolution begin at 2, and crops of one
size after padding differ by less."""
MOST_LEAVES = 4
"""More images of one file are views of it, as for contrastive learning with several crops."""
SAME_PART, OTHER_PART = 0.06, 0.15
"""How far apart the edges of the same part may be, and how far those of another part are, as shares of the image: half
a stripe, about as exact as the pose of a small leaf, and more than a whole one."""


@dataclass(frozen=True, slots=True)
class SizedPair(Rooted):
    """A `large` and a `small` leaf of one part of one image, in `draws` draws, and those in which they are misaligned.

    Both are paths from the sample or, if `collated`, the batch. `draw`, `index`, `distance` (a share of the image)
    and the descriptions are those of the draw that differs most.
    """

    large: str
    small: str
    draws: int
    misaligned: int
    draw: int
    index: Index
    distance: float
    large_is: str
    small_is: str
    source: str
    collated: bool


View = tuple[tuple[int, Index], Field, Pose]
"""One leaf in one draw and its index: where its points come from."""


def run_sized_pairs(
    build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool
) -> tuple[SizedPair, ...]:
    """Read samples with their image replaced by charts, in this disposable process."""
    reader = ChartedReader(build, folder, indices, CHARTED_DRAWS, batched=batched)
    original = _original(reader)
    pairs = _of_two_sizes(original)
    if not pairs or not is_steady(original, reader.read(0, 1)):
        raise NotApplicable("no sample holds one image in two sizes")
    draws = [views for draw in range(CHARTED_DRAWS) if (views := _views(reader, draw))]
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
    sizes = {path: leaf.shape[-2:] for path, leaf in sample.leaves.items()}
    ordered = sorted(sizes, key=lambda path: -math.prod(sizes[path]))
    pairs = combinations(ordered if len(ordered) <= MOST_LEAVES else [], 2)
    return [(large, small) for large, small in pairs if is_larger(sizes[large], sizes[small])]


def is_larger(sides: Iterable[int], others: Iterable[int]) -> bool:
    """Whether an image is larger along both sides than another one."""
    return all(side >= SIDE_RATIO * other for side, other in zip(sides, others, strict=True))


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
            views[path] = (draw, charted[0].index), field, pose
    return views


def _judged(
    large: str, small: str, draws: Sequence[Mapping[str, View]], source: str, *, numbered: bool, collated: bool
) -> SizedPair | None:
    """How two leaves agree; None unless they show the same part of their image in every draw."""
    both = [(draw[large], draw[small]) for draw in draws if large in draw and small in draw]
    parts = np.array([[_part(large_view[2]), _part(small_view[2])] for large_view, small_view in both])
    if len(both) < FEWEST_DRAWS or np.abs(parts[:, 0] - parts[:, 1]).max() > SAME_PART:
        return None
    if numbered and np.abs(parts[:, 0] - parts[0, 0]).max() < OTHER_PART:
        return None
    lengths = [displacement(large_view[1], small_view[1]) or 0.0 for large_view, small_view in both]
    misaligned = sum(
        length > OTHER_PART * _side(large_view[2]) for length, (large_view, _) in zip(lengths, both, strict=True)
    )
    worst = int(np.argmax(lengths))
    ((draw, index), _, pose), (_, _, other) = both[worst]
    wrong = misaligned if misaligned < len(both) else 0  # always flipped: on purpose
    described = pose.description, other.description
    return SizedPair(large, small, len(both), wrong, draw, index, lengths[worst], *described, source, collated)


def _part(pose: Pose) -> np.ndarray:
    """The part of the image that a leaf shows: x and y of two corners, as shares."""
    return np.asarray(in_source(pose, np.array([[0.0, 0.0, 1.0, 1.0]]))[0])


def _side(pose: Pose) -> float:
    """The shorter side of the part of the image that a leaf shows."""
    left, top, right, bottom = _part(pose)
    return float(min(right - left, bottom - top))
