"""What is observed of the geometry of samples, for `lab.geometry`: each observation is made if a sample may show it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, permutations
from typing import TypeVar

from dataguard.core.model import Location, NotApplicable
from dataguard.lab.core.records import LeafRecord
from dataguard.lab.geometry.alignment import (
    CHARTED_DRAWS,
    FEWEST_DRAWS,
    MaskValues,
)
from dataguard.lab.geometry.box_alignment import BoxAlignment, ChartedBoxes, run_boxes
from dataguard.lab.geometry.box_aspect import ASPECT_READS, ASPECT_SAMPLES, BoxAspect, need_one_file, run_aspect
from dataguard.lab.geometry.box_labels import BoxLabels
from dataguard.lab.geometry.box_tables import FEWEST_POINTS, MOST_COLUMNS, MOST_WIDE_ROWS
from dataguard.lab.geometry.camera_matrices import SHAPES, ScaledCamera
from dataguard.lab.geometry.charted_reader import ORIGINALS
from dataguard.lab.geometry.charts import (
    CHARTS,
)
from dataguard.lab.geometry.clip_flips import (
    CLIP_READS,
    ClipFlips,
    count_frames,
    line_of_flips,
    may_hold_clip,
    run_clips,
)
from dataguard.lab.geometry.drawn_targets import (
    ROUNDS,
    DrawnTarget,
    DrawnTargets,
    line_of_drawn_target,
    line_of_scaled_camera,
    run_drawn_targets,
)
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
from dataguard.lab.geometry.mask_charts import (
    ChartedMasks,
    SizedPair,
    is_larger,
    run_masks,
    run_sized_pairs,
    trace_boxes,
    trace_masks,
    trace_sizes,
)
from dataguard.lab.geometry.merged_sides import MergedSides, line_of_merge, merged_sides_of
from dataguard.lab.geometry.reordered_rows import ReorderedRows, line_of_order, reordered_rows_of
from dataguard.lab.geometry.rotated_clouds import RotatedCloud, line_of_turn, rotated_clouds_of
from dataguard.lab.geometry.symmetric_points import FEWEST_SHAPES, may_be_points
from dataguard.lab.geometry.target_placement import FEWEST_CELLS
from dataguard.lab.geometry.vector_flips import FlippedVectors, flipped_vectors_of, line_of_unflipped
from dataguard.lab.images.clips import FEWEST_FRAMES
from dataguard.lab.images.painter import SMALLEST_SIDE, planes_last
from dataguard.lab.provenance.provenance import is_unread
from dataguard.lab.subject import Subject
from dataguard.settings.parsers import EVALUATION

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
        return self._observe("masks", partial(run_masks, least=least, most=most, unread=is_unread(subject)))

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
    def scaled_cameras(self) -> tuple[ScaledCamera, ...]:
        """Camera matrices that are not scaled with their image. Raises NotApplicable if there is none."""
        if not self._has_cameras:
            raise NotApplicable("no sample holds an image with a camera matrix")
        return self.drawn_targets.scaled

    def line_of_scaled_camera(self, camera: ScaledCamera) -> Location | None:
        """The line of the user's code that resizes the image of a camera."""
        return self._observe(("line of scaled camera", camera.path), partial(line_of_scaled_camera, camera=camera))

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

    def line_of_boxes(self, table: BoxAlignment | BoxLabels) -> Location | None:
        """The line of the user's code after which boxes or points do not follow their image, or labels their boxes."""
        return self._observe(("line of boxes", table.path), partial(trace_boxes, table=table))

    @property
    def sized_pairs(self) -> tuple[SizedPair, ...]:
        """Pairs of leaves that show one part of one image in two sizes, and how they are aligned."""
        sizes = ([_sides(leaf) for leaf in leaves if _is_image(leaf)] for leaves in self._leaves)
        if not any(is_larger(*pair) for sides in sizes for pair in permutations(set(sides), 2)):
            raise NotApplicable("no sample holds images of two sizes")
        return self._observe("sized pairs", run_sized_pairs)

    @property
    def clips(self) -> tuple[ClipFlips, ...]:
        """Leaves of frames, and which of them are flipped in several random states."""
        if not any(may_hold_clip([(leaf.path, leaf.shape or ()) for leaf in leaves]) for leaves in self._leaves):
            raise NotApplicable("no sample holds the frames of a clip")
        if is_unread(self._subject) or self._observe("frames", count_frames, 1) < FEWEST_FRAMES:
            raise NotApplicable("no frames are decoded while a sample is read")
        return self._observe("clips", run_clips, CLIP_READS)

    def line_of_flips(self, clip: ClipFlips) -> Location | None:
        """The line of the user's code after which the first frame of a clip is flipped."""
        return self._observe(("line of flips", clip.path), partial(line_of_flips, clip=clip))

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
    def merged_sides(self) -> tuple[MergedSides, ...]:
        """Keypoints and classes that a flip makes the same, in several random states of a few samples."""
        return merged_sides_of(self._subject)

    def line_of_merge(self, merged: MergedSides) -> Location | None:
        """The line of the user's code after which two keypoints or classes are the same."""
        return line_of_merge(self._subject, merged)

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

    @property
    def reordered_rows(self) -> tuple[ReorderedRows, ...]:
        """Sequences and sets that are in another order in some random states, and leaves of one length beside them."""
        return reordered_rows_of(self._subject)

    def line_of_order(self, rows: ReorderedRows) -> Location | None:
        """The line of the user's code after which entries are in another order."""
        return line_of_order(self._subject, rows)

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


def _sides(leaf: LeafRecord) -> tuple[int, ...]:
    """The shorter and the longer side of an image."""
    shape = leaf.shape or ()
    return tuple(sorted(shape[-3:-1] if leaf.kind != "PIL.Image" and planes_last(shape) else shape[-2:]))


def _may_be_camera(leaf: LeafRecord) -> bool:
    return (leaf.shape or ())[-2:] in SHAPES and (leaf.dtype or "").startswith("float")


def _has_cells(leaf: LeafRecord) -> bool:
    """Whether a leaf may be an image, or a grid of cells with several values each."""
    shape = leaf.shape or ()
    return _is_image(leaf) or (len(shape) > 2 and any(min(pair) >= FEWEST_CELLS for pair in pairwise(shape)))


def _holds_points(leaf: LeafRecord) -> bool:
    """Whether a leaf may be points that are seen from the front, and mirror each other."""
    return may_be_points(leaf.shape or (), leaf.dtype or "")


def _holds_table(leaves: Sequence[LeafRecord]) -> bool:
    """Whether a leaf may be a table of boxes or points, or leaves are the numbers of a list of them."""
    numbers = {leaf.path for leaf in leaves if leaf.kind in ("int", "float")}
    listed = {path.removesuffix("[1]") for path in numbers if path.endswith("[1]")}
    # A leaf of one value, such as a mask of what is valid, holds neither.
    shapes = [leaf.shape or (0,) for leaf in leaves if not leaf.constant]
    rows = [math.prod(shape[:-1]) if len(shape) < 3 else math.inf for shape in shapes]
    tabled = any(
        2 <= shape[-1] <= 6 or (2 * FEWEST_POINTS < shape[-1] <= MOST_COLUMNS and count <= MOST_WIDE_ROWS)
        for shape, count in zip(shapes, rows, strict=True)
    )
    return tabled or any(f"{path}[{column}]" in numbers for path in listed for column in (0, 2))
