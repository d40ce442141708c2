"""How images and masks are moved, and which values masks hold, measured with charts: `lab.geometry`.

Charts replace what decoders return, what the dataset's transforms are called with, or what the dataset caches in
memory: the first of these that has an image. The same sample is read with every chart while all RNGs are frozen, so
that all charts get the same crop, flip and jitter.

A sample without a mask may hold two images that belong together. Of two that are read from two files, such as a
photograph and its depth map, the second serves as the mask (`pair_rule`). Two leaves that show one image in two sizes,
such as a pair for super-resolution, are compared with each other (`run_sized_pairs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np

from dataguard.core.incident import is_library
from dataguard.core.model import Location, NotApplicable, Undecided
from dataguard.lab.core.leaves import iter_leaves
from dataguard.lab.core.records import Index, LeafRecord
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
from dataguard.lab.geometry.box_alignment import BoxAlignment, ChartedBoxes, in_source, run_boxes
from dataguard.lab.geometry.box_aspect import ASPECT_READS, ASPECT_SAMPLES, BoxAspect, need_one_file, run_aspect
from dataguard.lab.geometry.box_lines import line_of_boxes
from dataguard.lab.geometry.box_tables import FEWEST_POINTS, MOST_COLUMNS
from dataguard.lab.geometry.camera_matrices import SHAPES
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
from dataguard.lab.geometry.clip_flips import CLIP_READS, ClipFlips, count_frames, may_hold_clip, run_clips
from dataguard.lab.geometry.drawn_targets import (
    ROUNDS,
    DrawnTarget,
    DrawnTargets,
    line_of_drawn_target,
    run_drawn_targets,
)
from dataguard.lab.geometry.image_pairs import PAIR_DRAWS, is_second, pair_rule
from dataguard.lab.geometry.keypoint_flips import (
    FLIP_READS,
    FLIP_SAMPLES,
    FlippedKeypoints,
    Sides,
    find_flips,
    find_mirrored,
    find_sides,
    line_of_flip,
    names_sides,
)
from dataguard.lab.geometry.rotated_clouds import RotatedCloud, line_of_turn, rotated_clouds_of
from dataguard.lab.geometry.symmetric_points import FEWEST_SHAPES, may_be_points
from dataguard.lab.geometry.target_placement import FEWEST_CELLS
from dataguard.lab.geometry.vector_flips import FlippedVectors, flipped_vectors_of, line_of_unflipped
from dataguard.lab.images.clips import FEWEST_FRAMES
from dataguard.lab.images.painter import SMALLEST_SIDE, is_image, planes_last
from dataguard.lab.reading.sample_reader import Rooted
from dataguard.lab.subject import Subject
from dataguard.process.originals import time
from dataguard.settings.parsers import EVALUATION
from dataguard.targets.variants import Loader

T = TypeVar("T")

VALUE_DRAWS = 4
"""Draws in which a line that changes values is looked for: a transform that acts in half of all draws acts in one of
four in 15 of 16 cases."""


class Geometry:
    """Observations of masks and boxes; each observation is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    @property
    def masks(self) -> ChartedMasks:
        """The response of masks to charts. Raises NotApplicable if no image has a mask."""
        self._need_two_images()
        subject, most = self._subject, self._most_draws
        # What evaluation does to one sample, it does to all: of slow ones, the first that is aligned is enough.
        least = subject.affordable_reads(most, 1, CHARTS) if subject.facts.role in EVALUATION else most
        return self._observe("masks", partial(run_masks, least=least, most=most))

    def line_apart(self, draw: int) -> Location | None:
        """The line of the user's code after which image and mask disagree in this draw."""
        run = partial(trace_masks, charts=self.masks, draws=(draw,), again=self._subject.quick_rebuild)
        return self._observe(("line apart", draw), run)

    def line_of_values(self, values: MaskValues) -> Location | None:
        """The line of the user's code after which a mask holds these values to the end, in a draw that shows them."""
        draws = range(VALUE_DRAWS)
        run = partial(trace_masks, charts=self.masks, draws=draws, again=self._subject.quick_rebuild, values=values)
        return self._observe(("line of values", values), run)

    @property
    def boxes(self) -> ChartedBoxes:
        """How boxes and points follow their image. Raises NotApplicable if there are none, or images do not move."""
        self._need_tables()
        return self._observe("boxes", run_boxes)

    @property
    def drawn_targets(self) -> DrawnTargets:
        """How masks and heatmaps that are read from no file follow their image. Raises NotApplicable if none can be."""
        if not self._has_cameras and not any(
            any(map(_is_image, leaves)) and sum(map(_has_cells, leaves)) > 1 for leaves in self._leaves
        ):
            raise NotApplicable("no sample holds an image with a mask, heatmaps or another grid")
        draws = self._subject.affordable_reads(self._most_draws, FEWEST_DRAWS, CHARTS)
        rounds = self._subject.affordable_reads(ROUNDS, 1, draws * CHARTS)
        run = partial(run_drawn_targets, most=draws, rounds=rounds)
        return self._observe("drawn targets", run, ORIGINALS + draws * CHARTS)

    @property
    def cameras(self) -> tuple[DrawnTarget, ...]:
        """How camera matrices follow their image. Raises NotApplicable if there is none."""
        if not self._has_cameras:
            raise NotApplicable("no sample holds an image with a camera matrix")
        return tuple(target for target in self.drawn_targets.targets if target.camera)

    @property
    def _has_cameras(self) -> bool:
        return any(any(map(_is_image, leaves)) and any(map(_may_be_camera, leaves)) for leaves in self._leaves)

    @property
    def _leaves(self) -> list[Sequence[LeafRecord]]:
        return [sample.leaves for sample in self._subject.epoch.samples]

    def _need_two_images(self) -> None:
        if not any(sum(map(_is_image, leaves)) > 1 for leaves in self._leaves):
            raise NotApplicable("no sample holds an image with a mask or another dense target")

    @property
    def _most_draws(self) -> int:
        """How many draws are read: few of evaluation, which should not vary."""
        return FEWEST_DRAWS if self._subject.facts.role in EVALUATION else CHARTED_DRAWS

    def line_of_drawn_target(self, target: DrawnTarget) -> Location | None:
        """The line of the user's code that moves the image of a target, and not the target."""
        run = partial(line_of_drawn_target, target=target, again=self._subject.quick_rebuild)
        return self._observe(("line of drawn target", target.path), run)

    def line_of_boxes(self, table: BoxAlignment) -> Location | None:
        """The line of the user's code after which boxes or points do not follow their image."""
        return self._observe(("line of boxes", table.path), partial(trace_boxes, table=table))

    @property
    def sized_pairs(self) -> tuple[SizedPair, ...]:
        """Pairs of leaves that show one part of one image in two sizes, and how they are aligned."""
        sizes = [{leaf.shape for leaf in sample.leaves if _is_image(leaf)} for sample in self._subject.epoch.samples]
        if not any(len(shapes) > 1 for shapes in sizes):
            raise NotApplicable("no sample holds images of two sizes")
        return self._observe("sized pairs", run_sized_pairs)

    @property
    def clips(self) -> tuple[ClipFlips, ...]:
        """Leaves of frames, and which of them are flipped in several random states."""
        if not any(may_hold_clip([(leaf.path, leaf.shape or ()) for leaf in leaves]) for leaves in self._leaves):
            raise NotApplicable("no sample holds the frames of a clip")
        if self._observe("frames", count_frames, 1) < FEWEST_FRAMES:
            raise NotApplicable("no frames are decoded while a sample is read")
        return self._observe("clips", run_clips, CLIP_READS)

    def line_of_sizes(self, pair: SizedPair) -> Location | None:
        """The line of the user's code after which two sizes of an image disagree."""
        return self._observe(("line of sizes", pair.large, pair.small), partial(trace_sizes, pair=pair))

    def _need_tables(self) -> None:
        if not any(any(map(_is_image, leaves)) and _holds_table(leaves) for leaves in self._leaves):
            raise NotApplicable("no sample holds an image with a table of two to six columns, as boxes and points have")

    @property
    def box_aspect(self) -> tuple[BoxAspect, ...]:
        """Boxes and points that are scaled by the wrong side of their image."""
        subject = self._subject
        subject.need_map("a stream has no indices to read again")
        self._need_tables()
        indices = subject.epoch.asked(ASPECT_SAMPLES)
        subject.afford_reads("one file", 2)
        subject.observe("one file", lambda folder: need_one_file(subject.build, folder, indices[0]))
        subject.afford_reads("box aspect", ASPECT_READS)
        return subject.observe("box aspect", lambda folder: run_aspect(subject.build, folder, indices))

    @property
    def keypoint_flips(self) -> tuple[FlippedKeypoints, ...]:
        """Keypoints and masks with named sides in several random states of a few samples."""
        subject = self._subject
        subject.need_map("a stream has no indices to read again")
        keyed = names_sides(leaf.path for sample in subject.epoch.samples[:1] for leaf in sample.leaves)
        build = subject.build
        pointed = any(any(map(_is_image, leaves)) and any(map(_holds_points, leaves)) for leaves in self._leaves)
        indices = subject.epoch.asked(FLIP_SAMPLES)
        mirrored: tuple[Sides, ...] = ()
        if not subject.observe("keypoint sides", lambda _: find_sides(build(num_workers=0).dataset)):
            if pointed:
                few = indices[: subject.affordable_reads(FLIP_SAMPLES, FEWEST_SHAPES)]
                subject.afford_reads("symmetric points", 1)  # of samples that hold no points, no more are read
                mirrored = subject.observe(
                    "symmetric points", lambda folder: find_mirrored(build(num_workers=0), folder, few)
                )
            if not (keyed or mirrored):
                return ()
        subject.afford_reads("keypoint flips", FLIP_READS)
        return subject.observe(
            "keypoint flips", lambda folder: find_flips(build(num_workers=0), folder, indices, mirrored)
        )

    @property
    def flipped_vectors(self) -> tuple[FlippedVectors, ...]:
        """Maps of vectors in several random states of a few samples. Raises NotApplicable if there are none."""
        return flipped_vectors_of(self._subject)

    @property
    def rotated_clouds(self) -> tuple[RotatedCloud, ...]:
        """Normals of point clouds whose points are rotated in several random states of a few samples."""
        return rotated_clouds_of(self._subject)

    def line_of_turn(self, cloud: RotatedCloud) -> Location | None:
        """The line of the user's code after which points are rotated, and their normals are not."""
        return line_of_turn(self._subject, cloud)

    def line_of_unflipped(self, vectors: FlippedVectors) -> Location | None:
        """The line of the user's code after which a map of vectors is flipped like an image."""
        return line_of_unflipped(self._subject, vectors)

    def line_of_flip(self, flipped: FlippedKeypoints) -> Location | None:
        """The line of the user's code after which keypoints or classes are flipped."""
        build = self._subject.build
        return self._subject.observe(
            ("line of flip", flipped.leaf), lambda folder: line_of_flip(build(num_workers=0), folder, flipped)
        )

    def _observe(self, key: object, run: Callable[..., T], reads: int = ORIGINALS) -> T:
        subject = self._subject
        subject.afford_reads(key, reads)
        indices = subject.epoch.asked(CHARTED_DRAWS) if subject.facts.kind == "map" else ()
        return subject.observe(key, lambda folder: run(subject.build, folder, indices, batched=subject.facts.batched))


def _is_image(leaf: LeafRecord) -> bool:
    """Whether a leaf has the shape of an image."""
    shape = leaf.shape or ()
    return leaf.kind == "PIL.Image" or (len(shape) > 1 and (planes_last(shape) or min(shape[-2:]) >= SMALLEST_SIDE))


def _may_be_camera(leaf: LeafRecord) -> bool:
    return (leaf.shape or ())[-2:] in SHAPES and (leaf.dtype or "").startswith("float")


def _has_cells(leaf: LeafRecord) -> bool:
    """Whether a leaf may be an image, or a grid of cells with several values each."""
    shape = leaf.shape or ()
    return _is_image(leaf) or (len(shape) > 2 and any(min(pair) >= FEWEST_CELLS for pair in pairwise(shape)))


def _holds_points(leaf: LeafRecord) -> bool:
    """Whether a leaf may be points that are seen from the front, and mirror each other."""
    return may_be_points(leaf.shape or ())


def _holds_table(leaves: Sequence[LeafRecord]) -> bool:
    """Whether a leaf may be a table of boxes or points, or leaves are the numbers of a list of them."""
    numbers = {leaf.path for leaf in leaves if leaf.kind in ("int", "float")}
    listed = {path.removesuffix("[1]") for path in numbers if path.endswith("[1]")}
    columns = [(leaf.shape or (0,))[-1] for leaf in leaves if len(leaf.shape or ()) < 3]
    tabled = any(2 <= (leaf.shape or (0,))[-1] <= 6 for leaf in leaves) or any(
        2 * FEWEST_POINTS < count <= MOST_COLUMNS for count in columns
    )
    return tabled or any(f"{path}[{column}]" in numbers for path in listed for column in (0, 2))


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
    build: Callable[..., Loader], folder: Path, indices: Sequence[Index], *, batched: bool, least: int, most: int
) -> ChartedMasks:
    """Read samples with charts for images and masks: in `least` draws and, unless all are aligned, in `most`."""
    reader = ChartedReader(build, folder, indices, max(CHARTED_DRAWS, PAIR_DRAWS), batched=batched)
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
    build: Callable[..., Loader], folder: Path, indices: Sequence[Index], table: BoxAlignment, *, batched: bool
) -> Location | None:
    """The line after which boxes or points do not follow their image in one of the draws that match worst."""
    reader = ChartedReader(build, folder, indices, CHARTED_DRAWS, batched=batched)
    if not any(reader.read(*table.read).inputs for _ in reader.sources()):
        raise Undecided("no image is replaced while a sample is read")
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
    sizes = {path: np.array(leaf.shape[-2:]) for path, leaf in sample.leaves.items()}
    ordered = sorted(sizes, key=lambda path: -int(sizes[path].prod()))
    pairs = combinations(ordered if len(ordered) <= MOST_LEAVES else [], 2)
    return [(large, small) for large, small in pairs if (sizes[large] >= SIDE_RATIO * sizes[small]).all()]


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
