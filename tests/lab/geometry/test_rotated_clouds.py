"""Normals of point clouds are rotated with the points, or kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from dataguard.lab.geometry.rotated_clouds import DRAWS, _find
from dataguard.lab.reading.sample_reader import Reader

Cloud = tuple[Tensor, Tensor]


class Shapes(Dataset[Any]):
    """Points on ellipsoids with their normals, changed by `change`, of which `most` are drawn."""

    def __init__(self, change: Callable[[Cloud], Any], most: int = 120) -> None:
        self.change = change
        self.most = most

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        drawn = torch.Generator().manual_seed(index)
        normals = torch.nn.functional.normalize(torch.randn(120, 3, generator=drawn), dim=1)
        points = normals * torch.tensor([1.0, 0.5, 1.5])
        chosen = torch.randperm(120)[: self.most] if self.most < 120 else torch.arange(120)
        return self.change((points[chosen], normals[chosen]))


def turn() -> Tensor:
    angle = torch.rand(()).item() * math.tau
    c, s = math.cos(angle), math.sin(angle)
    return torch.tensor([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])


def kept(cloud: Cloud) -> Tensor:
    return torch.cat([cloud[0] @ turn(), cloud[1]], 1)


def rotated(cloud: Cloud) -> Tensor:
    matrix = turn()
    return torch.cat([cloud[0] @ matrix, cloud[1] @ matrix], 1)


def kept_beside(cloud: Cloud) -> dict[str, Tensor]:
    """Two leaves, with a column for each point, and jitter."""
    points = cloud[0] @ turn()
    return {"pos": (points + 0.01 * torch.randn_like(points)).T, "normal": cloud[1].T}


def kept_mirrored(cloud: Cloud) -> Tensor:
    sign = torch.where(torch.rand(3) < 0.5, -1.0, 1.0)
    return torch.cat([cloud[0] * sign, torch.rand(len(cloud[0]), 2), cloud[1]], 1)


def stretched(cloud: Cloud) -> Tensor:
    """Scaled a little along each axis and moved, as normals hardly notice."""
    return torch.cat([cloud[0] * (0.9 + 0.2 * torch.rand(3)) + torch.rand(3), cloud[1]], 1)


def classes(cloud: Cloud) -> Tensor:
    """A column for each of three classes has length 1, too."""
    return torch.cat([cloud[0] @ turn(), torch.eye(3)[cloud[1].argmax(1)]], 1)


def coloured(cloud: Cloud) -> Tensor:
    return torch.cat([cloud[0] @ turn(), cloud[1].abs() * 0.7], 1)


@pytest.mark.parametrize(
    ("change", "most", "found"),
    [
        (kept, 120, [True]),
        (kept, 80, [True]),
        (kept_beside, 120, [True]),
        (kept_mirrored, 120, [True]),
        (rotated, 120, [False]),
        (stretched, 120, []),
        (classes, 120, []),
        (coloured, 120, []),
    ],
)
def test_clouds(tmp_path: Path, change: Callable[[Cloud], Any], most: int, found: list[bool]) -> None:
    clouds = _find(Reader(DataLoader(Shapes(change, most)), tmp_path, DRAWS), [0, 3])
    assert [one.kept > 0 and not one.rotated for one in clouds] == found


def test_samples_without_normals_are_read_once(tmp_path: Path) -> None:
    read: list[int] = []

    def points_alone(cloud: Cloud) -> Tensor:
        read.append(1)
        return cloud[0]

    reader = Reader(DataLoader(Shapes(points_alone)), tmp_path, DRAWS)
    assert _find(reader, (0, 1)) == ()
    assert len(read) == 2
