"""Left and right keypoints: what declares them, and what counts as a flip."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from dataguard.lab.geometry.keypoint_flips import MOST_NAMES, find_flips, find_sides, flip_between

PARTNER = (0, 2, 1, 4, 3)
POSE = np.array([[[30.0, 5], [36, 8], [25, 7], [45, 30], [18, 33]]])
MIRRORED = POSE * [-1, 1] + [64, 0]
ANGLE = np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])


@pytest.mark.parametrize(
    ("names", "partner"),
    [
        (["nose", "left_eye", "right_eye", "chin"], (0, 2, 1, 3)),
        (["Left Eye", "Right Eye", "Nose", "Chin"], (1, 0, 2, 3)),
        (["L_Eye", "R_Eye", "Nose", "Chin"], (1, 0, 2, 3)),
        (["LEye", "REye", "Nose", "Chin"], (1, 0, 2, 3)),
        (["eye_l", "eye_r", "nose", "chin"], (1, 0, 2, 3)),
        (["lower lip", "upper lip", "nose", "chin"], None),
        (["left_eye", "nose", "chin", "mouth"], None),
        (["left", "right"], None),
    ],
)
def test_names_show_what_changes_places(names: list[str], partner: tuple[int, ...] | None) -> None:
    found = find_sides(SimpleNamespace(names=names))
    assert [one.partner for one in found] == ([] if partner is None else [partner])


def test_an_order_after_flips_counts_by_its_name() -> None:
    assert [one.partner for one in find_sides(SimpleNamespace(flip_idx=[1, 0, 2, 3]))] == [(1, 0, 2, 3)]
    assert not find_sides(SimpleNamespace(order=[1, 0, 2, 3]))
    assert [one.partner for one in find_sides(SimpleNamespace(flip_pairs=[[1, 2], [3, 4]]))] == [(0, 2, 1, 4, 3)]
    assert not find_sides(SimpleNamespace(flip_pairs=[[1, 2], [2, 3]], pairs=[[1, 2], [3, 4]]))


def test_a_list_of_very_many_names_is_none_of_keypoints() -> None:
    names = [*(f"left_{number}" for number in range(MOST_NAMES)), *(f"right_{number}" for number in range(MOST_NAMES))]
    assert not find_sides(SimpleNamespace(names=names))


def test_lists_of_names_must_agree() -> None:
    names = ["left_eye", "right_eye", "nose", "chin"]
    assert not find_sides(SimpleNamespace(names=names, others=["a", "b", "c", "d"]))


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        (POSE, None),
        (MIRRORED, "kept"),
        (MIRRORED[:, list(PARTNER)], "swapped"),
        (MIRRORED.round() * 0.5 + [3, 4], "kept"),
        ((MIRRORED @ ANGLE)[:, list(PARTNER)], "swapped"),
        (POSE @ ANGLE, None),
        (np.array([64.0, 48]) - POSE, None),
        (POSE * [1, -1] + [0, 48], None),
        (np.zeros_like(POSE), None),
        (POSE[:, :4], None),
    ],
)
def test_a_flip_is_known_by_its_affine_map(after: Any, kind: str | None) -> None:
    assert flip_between(POSE, after, PARTNER) == kind


def test_missing_points_are_left_out() -> None:
    flags = np.array([[[2.0], [2], [2], [1], [0]]])
    before, after = np.concatenate([POSE, flags], 2), np.concatenate([MIRRORED, flags], 2)
    after[0, 4, :2] = 0
    assert flip_between(before, after, PARTNER) is None  # the pair goes, and three points are too few


class Draws(Dataset[Any]):
    """One pose, flipped by a coin, in a form of its own."""

    names = ("nose", "left_eye", "right_eye", "left_hip", "right_hip")

    def __init__(self, form: Any) -> None:
        self.form = form

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        pose = POSE[0] + index
        return self.form(pose * [-1, 1] + [64, 0] if random.random() < 0.5 else pose)


FORMS = (
    lambda pose: pose,
    lambda pose: torch.tensor(pose).flatten(),
    lambda pose: {"keypoints": [tuple(point) for point in pose.tolist()]},
    lambda pose: [list(point) for point in pose],
    lambda pose: (0, [torch.tensor(point) for point in pose]),
    lambda pose: SimpleNamespace(points=torch.tensor(pose)[None]),
    lambda pose: pose.round().astype(int).flatten().tolist(),
)


@pytest.mark.parametrize("form", FORMS)
def test_points_are_found_in_every_form(form: Any, tmp_path: Path) -> None:
    (found,) = find_flips(DataLoader(Draws(form)), tmp_path, range(6))
    assert found.kept
    assert not found.swapped
