"""Findings about masks, boxes and points that do not follow their image, and their figures. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from dataguard.checks.common.frames import are_clips
from dataguard.checks.common.sample_figures import beside_original
from dataguard.core.figures import Pictures, View
from dataguard.core.incident import observed_or_none
from dataguard.core.model import Finding, Location, NotApplicable, Undecided
from dataguard.settings.parsers import EVALUATION

if TYPE_CHECKING:
    from dataguard.lab.geometry.alignment import MaskLeaf, Shift
    from dataguard.lab.geometry.box_alignment import BoxAlignment, ChartedBoxes
    from dataguard.lab.geometry.box_aspect import BoxAspect
    from dataguard.lab.geometry.box_labels import BoxLabels
    from dataguard.lab.geometry.camera_matrices import ScaledCamera
    from dataguard.lab.geometry.clip_flips import ClipFlips
    from dataguard.lab.geometry.drawn_targets import DrawnTarget
    from dataguard.lab.geometry.mask_charts import ChartedMasks
    from dataguard.lab.lab import Lab


CLEAR_FACTOR = 3
"""How many times the tolerance the distance must reach in a single draw; in two draws, once is enough. Chosen, not
derived."""

MOST_BETWEEN = 0.5
"""The share of a mask between its two values, along one edge, above which it has no usable positions: it is a heatmap
or another computed target. Chosen, not derived."""
FEWEST_FLIPPED = 2
"""The fewest draws in which two sizes of one image are flipped differently; in other draws they are not."""
MOSTLY = 0.7
"""The share of pairs of draws in which a target stays where it is: objects that a crop cuts off have other centres."""
CHANGING_SHARE, FEWEST_CHANGES = 0.25, 4
"""The share of neighbouring frames of which one is flipped, where it is half on average, and how many of them."""
MOST_SHOWN_FRAMES = 12
"""Frames of a finding."""
FEWEST_FOLLOWING = 0.7
"""The share of boxes that must follow the image; some cover so much of it that they always seem to."""


Compared = tuple[list[Finding], dict[str, int], list[str]]
"""Findings, how much was looked at, and the leaves that were compared."""


def mask_findings(lab: Lab) -> Compared:
    """Findings about masks and other dense targets misaligned with their closest image, and how much was seen.

    Raises NotApplicable where there are none, and Undecided where they cannot be compared.
    """
    charts = lab.geometry.masks
    if not _compared(charts):
        untransformed = [mask.path for mask in charts.masks if mask.untransformed]
        if untransformed:
            raise NotApplicable(f"{charts.root}{untransformed[0]} keeps its original size, as masks for evaluation do")
        if all(mask.values is None or mask.values.edge_share > MOST_BETWEEN for mask in charts.masks):
            raise NotApplicable("the sample holds only values computed from the mask, not the mask itself")
        raise Undecided("no draw shows enough of both the image and its mask to compare them")
    misaligned = misaligned_masks(lab)
    if misaligned and charts.other_aspect:
        raise Undecided(f"{charts.other_aspect} need not show the same part of the scene, so they were not compared")
    for mask in [mask for mask, _ in misaligned if mask.turned]:
        names = f"{charts.root}{mask.path} and {charts.root}{mask.image}"
        raise Undecided(f"the loader changes the order of axes of one of {names}, as that of their files may differ")
    findings = [_misaligned(lab, charts, mask, shift) for mask, shift in misaligned]
    return findings, charts.exercised, [f"{charts.root}{mask.path}" for mask in _compared(charts)]


def box_findings(lab: Lab) -> Compared:
    """The same about boxes and points, compared with where their image comes from in each draw."""
    charts = lab.geometry.boxes
    wrong = unfollowing_tables(lab)
    findings = [_not_following(lab, charts, table) for table in wrong]
    moved = {table.path for table in wrong}
    findings += [_left_labels(lab, charts, labels) for labels in charts.labels if labels.table not in moved]
    return findings, charts.exercised, [f"{charts.root}{table.path}" for table in charts.tables]


def aspect_findings(lab: Lab) -> Compared:
    """The same about boxes and points in image files of other shapes."""
    findings = [
        Finding(
            message=f"sample{table.path}: {_wrong_aspect(table)}",
            evidence={
                "fix here": _right_side(table),
                "tested with": "image files half as wide, and half as high, again",
                "coordinates": table.moved,
            },
            at=(None if table.index is None else lab.places.value(table.index, table.path)) or lab.dataset.location,
            repro=None if table.index is None else lab.repro.samples(table.index),
            sample=table.index,
        )
        for table in lab.geometry.box_aspect
    ]
    return findings, {"leaves": len(findings)} if findings else {}, []


def _wrong_aspect(table: BoxAspect) -> str:
    what = "points" if table.points else "boxes"
    if table.shift:
        return f"{what} lack the padding of their image along {table.axis}: other shapes move them by {table.shift:.0%}"
    return f"{what} have their {table.axis} divided by the {'height' if table.axis == 'x' else 'width'} of their image"


def _right_side(table: BoxAspect) -> str:
    if table.shift:
        return f"add the padding of the image to {table.axis}"
    return f"scale {table.axis} by the {'width' if table.axis == 'x' else 'height'} of the image"


def dense_findings(lab: Lab) -> Compared:
    """The same about masks and other dense targets, whether they are read from a file or made of coordinates."""
    try:
        return mask_findings(lab)
    except NotApplicable as reason:
        try:
            return drawn_findings(lab)
        except NotApplicable:
            raise reason from None


def drawn_findings(lab: Lab) -> Compared:
    """The same about masks and heatmaps that are made of coordinates, such as polygons: those that stay the same."""
    charts = lab.geometry.drawn_targets
    targets = [target for target in charts.targets if not target.camera]
    if not targets:
        raise NotApplicable("images do not move between draws, or no target of their shape would show it")
    findings = [_unmoved_finding(lab, target) for target in targets if _is_left_behind(target)]
    clear = {target.path for target in targets if not target.unclear}
    unclear = sorted({target.path for target in targets} - clear)
    if unclear and not findings:
        why = "looks the same where its image moves, is cut off, or has another shape in each draw"
        raise Undecided(f"{charts.root}{unclear[0]} was not compared: it {why}")
    exercised = {"draws": charts.draws, "leaves": len(targets)}
    return findings, exercised, [f"{charts.root}{target.path}" for target in targets]


def camera_findings(lab: Lab) -> Compared:
    """The same about camera matrices."""
    try:
        cameras = lab.geometry.cameras
    except NotApplicable:
        return [], {}, []
    scaled = lab.geometry.scaled_cameras
    left = {camera.path: camera for camera in cameras if _is_left_behind(camera)}
    findings = [_unmoved_finding(lab, camera) for camera in left.values()]
    findings += [_scaled_finding(lab, camera) for camera in scaled if camera.path not in left]
    paths = dict.fromkeys([*(camera.path for camera in cameras), *(camera.path for camera in scaled)])
    root = lab.geometry.drawn_targets.root if paths else ""
    return findings, {"leaves": len(paths)} if paths else {}, [f"{root}{path}" for path in paths]


def _scaled_finding(lab: Lab, camera: ScaledCamera) -> Finding:
    root = lab.geometry.drawn_targets.root
    image, file = (f"{width} x {height}" for height, width in (camera.size, camera.file))
    wrong = "is not scaled" if camera.is_unscaled else "is scaled by the wrong sides"
    made = None if camera.index is None else lab.places.value(camera.index, camera.path)
    resized = observed_or_none(partial(lab.geometry.line_of_scaled_camera, camera))
    x, y = camera.factors
    return Finding(
        message=f"{root}{camera.path}, a camera matrix, {wrong} with {root}{camera.image}: its principal point is far "
        f"from the middle of the image, {image}, of a file of {file}",
        evidence={
            "fix here": f"multiply its first row by {x:.3g} and its second row by {y:.3g} more",
            "draws": camera.draws,
        },
        at=(resized if camera.is_unscaled else made) or made or lab.dataset.location,
        repro=None if camera.index is None else lab.repro.samples(camera.index),
        sample=camera.index,
        ambiguous=True,  # it may be the camera of the file on purpose
    )


def _is_left_behind(target: DrawnTarget) -> bool:
    return target.pairs >= FEWEST_FLIPPED and target.stayed >= MOSTLY * target.pairs and not target.followed


def _unmoved_finding(lab: Lab, target: DrawnTarget) -> Finding:
    charts = lab.geometry.drawn_targets
    return Finding(
        message=_left_behind(charts.root, target),
        evidence={
            "image": target.moved,
            f"same {'camera' if target.camera else 'target'} in": f"{target.stayed} of {target.pairs} pairs of draws",
        },
        at=_place_of_target(lab, target) or lab.dataset.location,
        repro=None if charts.collated or target.index is None else lab.repro.samples(target.index),
        sample=target.index,
        # It may be the camera of the file, or a grid of x and y, on purpose.
        ambiguous=target.constant or target.exchanged,
    )


def _place_of_target(lab: Lab, target: DrawnTarget) -> Location | None:
    if target.exchanged and target.index is not None:
        return lab.places.value(target.index, target.path)
    return observed_or_none(partial(lab.geometry.line_of_drawn_target, target))


def _left_behind(root: str, target: DrawnTarget) -> str:
    if target.camera:
        how = "cropped or resized" if target.axis is None else f"flipped {('horizontally', 'vertically')[target.axis]}"
        return f"{root}{target.path}, a camera matrix, is not adjusted when {root}{target.image} is {how}"
    if target.exchanged:
        return f"{root}{target.path} has x and y exchanged: it moves down where {root}{target.image} moves to the side"
    if target.axis is None:
        return f"{root}{target.path} stays where it is when {root}{target.image} moves"
    how = ("horizontally", "vertically")[target.axis]
    return f"{root}{target.path} is not flipped {how} when {root}{target.image} is"


def pair_findings(lab: Lab) -> Compared:
    """The same about two leaves that show one part of one image in two sizes."""
    try:
        pairs = lab.geometry.sized_pairs
    except NotApplicable:
        return [], {}, []
    flipped = [pair for pair in pairs if pair.misaligned >= FEWEST_FLIPPED]
    findings = [
        Finding(
            message=f"{pair.root}{pair.large} is {pair.large_is}, {pair.root}{pair.small} is {pair.small_is}: "
            "they show the same part of one image, but not the same way round",
            evidence={
                "misaligned by": f"{pair.distance:.1%} of the image",
                "misaligned in": f"{pair.misaligned} of {pair.draws} draws",
                "charted via": pair.source,
            },
            at=observed_or_none(partial(lab.geometry.line_of_sizes, pair)) or lab.dataset.location,
            repro=None if pair.index is None else lab.repro.samples(pair.index, batch=pair.collated),
            sample=pair.index,
        )
        for pair in flipped
    ]
    exercised = {"draws": max(pair.draws for pair in pairs), "leaves": 2 * len(pairs)} if pairs else {}
    return findings, exercised, [f"{pair.root}{name}" for pair in pairs for name in (pair.large, pair.small)]


def clip_findings(lab: Lab) -> Compared:
    """The same about the frames of a clip, if each draws its own flip."""
    try:
        clips = lab.geometry.clips
    except NotApplicable:
        return [], {}, []
    findings = [
        Finding(
            message=f"{clip.root}{clip.path} has frames of one {'clip' if clip.filed else 'video'}, "
            f"{sum(flips)} of {len(flips)} of them flipped: frames of one clip are flipped one by one",
            evidence={
                "fix here": "draw the flip once for all frames of a clip",
                "flipped frames": [number for number, flip in enumerate(flips) if flip][:MOST_SHOWN_FRAMES],
                "random states": len(clip.draws),
                "charted via": clip.source,
            },
            at=observed_or_none(partial(lab.geometry.line_of_flips, clip)) or _place_of(lab, clip),
            repro=None if clip.collated or clip.index is None else lab.repro.samples(clip.index),
            sample=clip.index,
            ambiguous=True,  # a model may take frames as separate images
        )
        for clip in {clip.draws: clip for clip in reversed(clips)}.values()  # masks are flipped with their frames
        if are_drawn_apart(clip.draws) and not (clip.filed and not _are_frames(lab))
        for flips in [max(clip.draws, key=_changes)]
    ]
    exercised = {"draws": max(len(clip.draws) for clip in clips), "leaves": len(clips)} if clips else {}
    return findings, exercised, [f"{clip.root}{clip.path}" for clip in clips]


def _place_of(lab: Lab, clip: ClipFlips) -> Location | None:
    return (None if clip.index is None else lab.places.value(clip.index, clip.path)) or lab.dataset.location


def _are_frames(lab: Lab) -> bool:
    """Whether names say that image files are frames of clips: others may be images by themselves."""
    try:
        return are_clips(lab.provenance.frame_runs, FEWEST_CHANGES)
    except (NotApplicable, Undecided):
        return False


def are_drawn_apart(draws: Sequence[Sequence[bool]]) -> bool:
    """Whether frames change between flipped and not in each draw, at other places.

    Flips that are the same in all draws are crops for a test, and those of two or three clips in a row change seldom.
    """
    changes = sum(map(_changes, draws))
    often = changes >= max(FEWEST_CHANGES, CHANGING_SHARE * sum(len(flips) - 1 for flips in draws))
    return often and len({tuple(flips) for flips in draws}) > 1


def _changes(flips: Sequence[bool]) -> int:
    return sum(one != other for one, other in pairwise(flips))


def misaligned_masks(lab: Lab) -> list[tuple[MaskLeaf, Shift]]:
    """The masks that are misaligned with their image, each with the draw in which it is most so."""
    worst = [(mask, _worst(mask)) for mask in _compared(lab.geometry.masks)]
    return [(mask, shift) for mask, shift in worst if shift]


def unfollowing_tables(lab: Lab) -> Sequence[BoxAlignment]:
    """The boxes and points that do not follow their image. Raises NotApplicable if they are kept on purpose."""
    charts = lab.geometry.boxes
    follows = [table for table in charts.tables if table.found >= FEWEST_FOLLOWING * table.comparable]
    # Boxes that do not follow are kept on purpose where other boxes of the sample do.
    if not follows and lab.facts.role in EVALUATION and not any(table.moved for table in charts.tables):
        raise NotApplicable("boxes keep the coordinates of the file, as evaluation expects")
    # All columns of a row follow its image, or none does.
    rows = {table.row for table in follows} - {None}
    unlike = [table for table in charts.tables if table not in follows and table.row in rows]
    return unlike if follows else charts.tables


def _compared(charts: ChartedMasks) -> list[MaskLeaf]:
    return [mask for mask in charts.masks if mask.shifts and not mask.untransformed]


def _worst(mask: MaskLeaf) -> Shift | None:
    """The draw in which image and mask are most misaligned, if rounding does not explain it.

    Rather one in which it could be seen what happened to each.
    """
    beyond = [shift for shift in mask.shifts if shift.distance > shift.tolerance]
    clear = len(beyond) > 1 or any(shift.distance > CLEAR_FACTOR * shift.tolerance for shift in beyond)
    named = [shift for shift in beyond if shift.image != shift.mask]
    return max(named or beyond, key=lambda shift: shift.distance) if clear else None


def _misaligned(lab: Lab, charts: ChartedMasks, mask: MaskLeaf, shift: Shift) -> Finding:
    image, other = f"{charts.root}{mask.image}", f"{charts.root}{mask.path}"
    where = "" if shift.index is None else f" of dataset[{shift.index}]"
    beyond = sum(each.distance > each.tolerance for each in mask.shifts)
    return Finding(
        message=f"{image}{where} is {shift.image}, {other} is {shift.mask}: "
        f"misaligned by {shift.distance:.0%} of the image",
        evidence={
            "misaligned by": f"{shift.distance:.1%} of the image (tolerance {shift.tolerance:.1%})",
            "draw": shift.draw,
            "misaligned in": f"{beyond} of {len(mask.shifts)} draws",
            "charted via": charts.source,
        },
        at=observed_or_none(lambda: lab.geometry.line_apart(shift.draw)) or lab.dataset.location,
        repro=None if charts.collated or shift.index is None else lab.repro.samples(shift.index),
        sample=shift.index,
    )


def _not_following(lab: Lab, charts: ChartedBoxes, boxes: BoxAlignment) -> Finding:
    what = "points" if boxes.points else "boxes"
    lost = boxes.comparable - boxes.found
    table, image = f"{charts.root}{boxes.path}", f"{charts.root}{boxes.image}"
    return Finding(
        message=f"{table} does not follow {image}: {lost} of {boxes.comparable} {what} are wrong when the image moves",
        evidence={
            "image in one draw": boxes.one,
            "in another draw": boxes.other,
            "pairs of draws": boxes.pairs,
            f"format of the {what}": boxes.box_format,
        },
        at=observed_or_none(lambda: lab.geometry.line_of_boxes(boxes)) or lab.dataset.location,
        repro=None if charts.collated or boxes.index is None else lab.repro.samples(boxes.index),
        sample=boxes.index,
    )


def _left_labels(lab: Lab, charts: ChartedBoxes, labels: BoxLabels) -> Finding:
    table, name = f"{charts.root}{labels.table}", f"{charts.root}{labels.path}"
    one, other = labels.labels
    return Finding(
        message=f"{name} keeps its order, whichever rows of {table} are left: "
        f"one box has label {one} in one draw and {other} in another",
        evidence={
            "fix here": "select boxes and labels with the same index",
            "boxes with the label of another": labels.wrong,
            "pairs of draws": labels.pairs,
        },
        at=observed_or_none(lambda: lab.geometry.line_of_boxes(labels)) or lab.dataset.location,
        repro=None if charts.collated or labels.index is None else lab.repro.samples(labels.index),
        sample=labels.index,
    )


FIGURE_DRAWS = 8
"""Draws of the transforms that are tried; those that differ are shown."""


def blended(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """A mask over its image; values that are no label of its file are white."""
    charts = lab.geometry.masks
    wrong = [leaf for finding in findings for leaf in finding.evidence["leaves"]]
    for mask in charts.masks:
        if f"{charts.root}{mask.path}" in wrong[:1]:
            labels = tuple(label[0] for label in charts.labels if len(label) == 1)
            kept = labels if set(mask.values.labels if mask.values else ()) <= set(labels) else None
            view = replace(_masked(charts, mask, (0,), kept), closeup=True)
            white = ", white if no file holds it" if kept else ""
            words = (
                f"The mask is laid over the image, with a colour for each value{white}. "
                "Enlarged, values between those on either side are white."
            )
            yield from beside_original(lab, [charts.index], view, words)


def misaligned_masks_figure(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """A mask over its image, in the draw in which they are most misaligned."""
    del findings
    charts = lab.geometry.masks
    for mask, worst in misaligned_masks(lab):
        words = f"The image is {worst.image}, the mask {worst.mask}."
        yield from beside_original(lab, [worst.index], _masked(charts, mask, (worst.draw,)), words)


def misaligned_boxes(lab: Lab, findings: Sequence[Finding]) -> Iterator[Pictures]:
    """Boxes over their image, in several draws."""
    del findings
    root = lab.geometry.boxes.root
    for boxes in unfollowing_tables(lab):
        view = View(
            f"{root}{boxes.image}", tuple(range(FIGURE_DRAWS)), boxes=f"{root}{boxes.path}", box_format=boxes.box_format
        )
        words = f"{'Points' if boxes.points else 'Boxes'} of the sample are laid over its image."
        yield from beside_original(lab, [boxes.index], view, words)


def _masked(
    charts: ChartedMasks, mask: MaskLeaf, draws: tuple[int, ...], labels: tuple[float, ...] | None = None
) -> View:
    return View(f"{charts.root}{mask.image}", draws, mask=f"{charts.root}{mask.path}", labels=labels)
