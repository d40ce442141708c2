"""DG512 on boxes: which share of them follows the image, and when none needs to."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dataguard.checks.geometry.alignment import (
    aspect_findings,
    box_findings,
    camera_findings,
    clip_findings,
    drawn_findings,
    mask_findings,
    misaligned_masks,
    pair_findings,
)
from dataguard.checks.geometry.dg512_desynced_target import dg512_desynced_target
from dataguard.core.model import NotApplicable, Undecided
from dataguard.lab.geometry.alignment import Shift
from dataguard.lab.geometry.box_alignment import BoxAlignment
from dataguard.lab.geometry.box_aspect import BoxAspect
from dataguard.lab.geometry.clip_flips import ClipFlips
from dataguard.lab.geometry.drawn_targets import DrawnTarget, DrawnTargets
from dataguard.lab.geometry.mask_charts import SizedPair
from dataguard.lab.provenance.frame_runs import FrameRun
from dataguard.lab.subject import Repro
from tests.support.recordings import verdict_of
from tests.support.styles import results_of


def table(found: int, *, moved: bool = True, points: bool = False) -> BoxAlignment:
    return BoxAlignment(
        "['boxes']", "['image']", points, "xyxy", 10, found, 3, moved, 4, "unchanged", "flipped", (0, 1)
    )


UNCLEAR = DrawnTarget("['masks']", "['image']", 0, 0, 0, "", 4, (0, 0), unclear=True)


def judged(*tables: BoxAlignment, role: str = "train", collated: bool = False) -> Any:
    return box_findings(lab_of(*tables, role=role, collated=collated))


def lab_of(*tables: BoxAlignment, role: str = "train", collated: bool = False) -> Any:
    charts = SimpleNamespace(root="sample", tables=tables, labels=(), collated=collated, exercised={"draws": 4})
    return SimpleNamespace(
        geometry=SimpleNamespace(
            boxes=charts,
            drawn_targets=SimpleNamespace(targets=()),
            line_of_boxes=lambda _: None,
            line_of_sizes=lambda _: None,
        ),
        sound=SimpleNamespace(survey=SimpleNamespace(files=())),
        facts=SimpleNamespace(role=role, kind="stream"),
        dataset=SimpleNamespace(location=None),
        places=SimpleNamespace(value=lambda *_: None),
        repro=Repro("pkg:make", "make"),
    )


@pytest.mark.parametrize(
    ("pairs", "followed", "stayed", "wrong"),
    [(6, 0, 6, True), (1, 0, 1, False), (6, 1, 5, False), (8, 0, 6, True), (6, 0, 3, False)],
)
def test_a_drawn_target_that_always_stays(pairs: int, followed: int, stayed: int, *, wrong: bool) -> None:
    target = DrawnTarget("['mask']", "['image']", pairs, followed, stayed, "flipped in one draw", 4, (0, 0))
    lab = lab_of()
    charts = DrawnTargets((target,), collated=False, draws=10)
    lab.geometry.drawn_targets, lab.geometry.line_of_drawn_target = charts, lambda _: None
    findings, exercised, compared = drawn_findings(lab)
    assert [one.message for one in findings] == wrong * ["sample['mask'] stays where it is when sample['image'] moves"]
    assert (exercised, compared) == ({"draws": 10, "leaves": 1}, ["sample['mask']"])
    regions = replace(target, path="['regions']", pairs=0, stayed=0, unclear=True)
    lab.geometry.drawn_targets = replace(charts, targets=(target, regions))
    with contextlib.nullcontext() if wrong else pytest.raises(Undecided, match=r"\['regions'\] was not compared"):
        assert drawn_findings(lab)[0]


def test_a_target_that_misses_a_flip() -> None:
    target = DrawnTarget("['hm']", "['image']", 10, 0, 9, "flipped in one draw", 4, (0, 0), axis=1)
    lab = lab_of()
    lab.geometry.drawn_targets, lab.geometry.line_of_drawn_target = DrawnTargets((target,), False, 10), lambda _: None
    (finding,), *_ = drawn_findings(lab)
    assert finding.message == "sample['hm'] is not flipped vertically when sample['image'] is"


@pytest.mark.parametrize(
    ("axis", "constant", "how"), [(None, True, "cropped or resized"), (0, False, "flipped horizontally")]
)
def test_a_camera_that_does_not_follow(axis: int | None, how: str, *, constant: bool) -> None:
    camera = DrawnTarget("['K']", "['image']", 4, 0, 4, "flipped", 4, (0, 0), axis=axis, camera=True, constant=constant)
    lab = lab_of()
    charts = DrawnTargets((camera, replace(camera, path="['other']", followed=4, stayed=0)), False, 10)
    lab.geometry.drawn_targets, lab.geometry.cameras = charts, charts.targets
    lab.geometry.scaled_cameras = charts.scaled
    lab.geometry.line_of_drawn_target = lambda _: None
    (finding,), exercised, _ = camera_findings(lab)
    assert finding.message == f"sample['K'], a camera matrix, is not adjusted when sample['image'] is {how}"
    assert (finding.ambiguous, exercised) == (constant, {"leaves": 2})
    with pytest.raises(NotApplicable, match="images do not move"):
        drawn_findings(lab)


def test_all_columns_of_a_row_must_follow() -> None:
    boxes, points = (replace(table(found), path=f"[1][:, {columns}]") for found, columns in ((10, "0:4"), (1, "4:14")))
    (finding,), *_ = judged(boxes, points)
    assert finding.message.startswith("sample[1][:, 4:14] does not follow")


def test_boxes_that_follow_are_no_pass_where_a_mask_was_not_compared() -> None:
    class Seen:
        boxes = lab_of(table(10)).geometry.boxes
        drawn_targets = DrawnTargets((UNCLEAR,), collated=False, draws=10)

        @property
        def masks(self) -> Any:
            raise NotApplicable("no mask is read from a file")

        box_aspect, cameras, scaled_cameras, sized_pairs, clips = (), (), (), (), ()

    lab = lab_of()
    lab.geometry = Seen()
    with pytest.raises(Undecided, match=r"sample\['masks'\] was not compared: .*; compared: sample\['boxes'\]"):
        list(dg512_desynced_target.judge(lab))


@pytest.mark.parametrize(("found", "wrong"), [(10, False), (7, False), (6, True), (0, True)])
def test_most_boxes_follow_the_image(found: int, wrong: bool) -> None:
    findings, exercised, _ = judged(table(found))
    assert bool(findings) == wrong
    assert exercised == {"draws": 4}


def test_the_finding_counts_those_that_do_not() -> None:
    (finding,), *_ = judged(table(3))
    assert (
        finding.message
        == "sample['boxes'] does not follow sample['image']: 7 of 10 boxes are wrong when the image moves"
    )
    assert finding.repro == "dataguard show pkg:make 4"
    (finding,), *_ = judged(table(3, points=True), collated=True)
    assert "7 of 10 points" in finding.message
    assert finding.repro is None


def test_boxes_beside_others_that_follow_are_kept_on_purpose() -> None:
    assert judged(table(10), table(0))[0] == []
    assert len(judged(table(1), table(0))[0]) == 2


@pytest.mark.parametrize(
    ("role", "moved", "kept"), [("val", False, True), ("val", True, False), ("train", False, False)]
)
def test_evaluation_may_keep_the_coordinates_of_files(role: str, moved: bool, kept: bool) -> None:
    if kept:
        with pytest.raises(NotApplicable, match="boxes keep the coordinates of the file"):
            judged(table(0, moved=moved), role=role)
    else:
        assert judged(table(0, moved=moved), role=role)[0]
    assert judged(table(10, moved=moved), role=role)[0] == []


def test_boxes_that_move_with_others_are_not_those_of_the_file() -> None:
    assert len(judged(table(0, moved=True), table(0, moved=False), role="val")[0]) == 2


def test_boxes_are_judged_where_there_is_no_mask() -> None:
    lab = lab_of(table(0))
    lab.geometry.masks = SimpleNamespace(masks=(SimpleNamespace(shifts=(), untransformed=False, values=None),))
    lab.geometry.box_aspect = lab.geometry.cameras = lab.geometry.sized_pairs = lab.geometry.clips = ()
    lab.geometry.scaled_cameras = ()
    (finding,) = verdict_of(dg512_desynced_target.judge, lab).findings
    assert finding.message.startswith("sample['boxes'] does not follow")
    with pytest.raises(NotApplicable, match="the sample holds only values computed from the mask"):
        mask_findings(lab)


def test_the_finding_shows_a_draw_in_which_both_are_named() -> None:
    unnamed = Shift(0, 3, 0.54, 0.01, "transformed in another way", "transformed in another way")
    named = Shift(1, 3, 0.42, 0.01, "flipped horizontally", "unchanged")
    masks: Any = SimpleNamespace(shifts=(unnamed, named), untransformed=False)
    lab: Any = SimpleNamespace(geometry=SimpleNamespace(masks=SimpleNamespace(masks=[masks])))
    assert misaligned_masks(lab) == [(masks, named)]
    masks.shifts = (unnamed,)
    assert misaligned_masks(lab) == [(masks, unnamed)]


def test_a_skip_names_what_is_lacking_for_masks_and_for_boxes() -> None:
    class Lacking:
        @property
        def masks(self) -> Any:
            raise NotApplicable("no mask")

        @property
        def drawn_targets(self) -> Any:
            raise NotApplicable("images do not move")

        @property
        def boxes(self) -> Any:
            raise NotApplicable("images do not move")

        @property
        def box_aspect(self) -> Any:
            raise NotApplicable("images do not move")

        @property
        def sized_pairs(self) -> Any:
            raise NotApplicable("images of one size")

        cameras = clips = sized_pairs

    lab = lab_of()
    lab.geometry = Lacking()
    assert verdict_of(dg512_desynced_target.judge, lab).outcome.args == ("no mask; images do not move",)


def test_frames_that_draw_their_own_flips_are_a_warning() -> None:
    lab = lab_of()
    flips = (False,) * 8, (True, False, True, True, False, False, True, False), (False, True) * 4
    lab.geometry.clips = (ClipFlips("[0]", 3, "cv2.VideoCapture.read", False, flips),)
    lab.geometry.line_of_flips = lambda _: None
    (finding,), exercised, _ = clip_findings(lab)
    assert (
        finding.message
        == "sample[0] has frames of one video, 4 of 8 of them flipped: frames of one clip are flipped one by one"
    )
    assert (finding.ambiguous, finding.sample, exercised) == (True, 3, {"draws": 3, "leaves": 1})
    run = FrameRun(3, "[0]", "/clips/1/", tuple("abcdef"), (1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 6), 9, "", ("1",), True)
    lab.geometry.clips = (replace(lab.geometry.clips[0], filed=True),)
    uneven = replace(run, numbers=(1, 3, 6, 8, 9, 11), text=(0, 3, 4, 6, 8, 10), beside=12)
    bag = replace(uneven, numbers=(1, 2, 3, 5, 6, 7))
    named = replace(bag, word="frame")
    cases = ((run, True), (None, False), (replace(bag, text=(0, 1, 2, 4, 5, 6)), False), (uneven, True), (named, True))
    for runs, wrong in [((one,) if one else (), wrong) for one, wrong in cases]:
        lab.provenance = SimpleNamespace(frame_runs=runs)
        assert [one.message[:42] for one in clip_findings(lab)[0]] == wrong * [
            "sample[0] has frames of one clip, 4 of 8 o"
        ]


@pytest.mark.parametrize(("misaligned", "wrong"), [(0, False), (1, False), (2, True)])
def test_two_sizes_of_one_image_are_aligned(misaligned: int, wrong: bool) -> None:
    pair = SizedPair("[0]", "[1]", 10, misaligned, 2, 4, 0.25, "unchanged", "flipped horizontally", "cv2.imread", False)
    lab = lab_of()
    lab.geometry.sized_pairs = (pair,)
    findings, exercised, _ = pair_findings(lab)
    assert exercised == {"draws": 10, "leaves": 2}
    assert [one.message for one in findings] == wrong * [
        "sample[0] is unchanged, sample[1] is flipped horizontally: "
        "they show the same part of one image, but not the same way round"
    ]


def test_boxes_may_lack_the_padding_of_their_image() -> None:
    lab = lab_of()
    lab.geometry.box_aspect = (BoxAspect("[1]", False, "y", 12, 4, 0.33), BoxAspect("[1]", True, "x", 12, 4))
    (shifted, scaled), *_ = aspect_findings(lab)
    assert shifted.message == "sample[1]: boxes lack the padding of their image along y: other shapes move them by 33%"
    assert scaled.message == "sample[1]: points have their x divided by the height of their image"


@pytest.mark.scan
def test_a_crop_whose_offsets_are_exchanged_lacks_no_padding() -> None:
    found = results_of(["dense:dg512_crop_offsets_exchanged"])
    assert not [one.message for result in found.values() for one in result.findings if "padding" in one.message]
