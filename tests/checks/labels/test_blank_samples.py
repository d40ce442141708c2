"""A sample is blank when none of its images shows anything."""

from __future__ import annotations

from typing import Any

import torch

from dataguard.lab.core.leaves import describe
from dataguard.lab.core.records import SampleRecord


def sample(*values: tuple[str, Any]) -> SampleRecord:
    return SampleRecord(None, 0, 0, 0, 0, "0", 0.0, tuple(describe(path, value) for path, value in values))


def test_a_sample_is_blank_when_all_its_images_are() -> None:
    noise, zeros = torch.rand(3, 16, 16), torch.zeros(3, 16, 16)
    assert sample(("image", zeros), ("mask", torch.rand(16, 16))).blank
    assert not sample(("image", noise), ("mask", torch.zeros(16, 16)), ("masks", torch.zeros(5, 16, 16))).blank
    assert not sample(("one", noise), ("two", zeros)).blank
    assert not sample(("values", torch.zeros(100)), ("label", 1)).blank
    assert sample(("scan", torch.zeros(1, 16, 16)), ("label", 1)).blank


def test_a_normalized_image_of_one_colour_is_blank() -> None:
    colour = torch.tensor([-2.12, -2.04, -1.8])
    image = colour.view(3, 1, 1).expand(3, 16, 16)
    assert sample(("image", image)).blank
    assert sample(("image", image.movedim(0, -1).numpy())).blank
    assert sample(("clip", image.expand(5, 3, 16, 16))).blank
    assert not sample(("board", torch.stack([torch.zeros(8, 8), torch.zeros(8, 8), torch.ones(8, 8)]))).blank
    marked = image.clone()
    marked[1, 9, 11] = 0
    assert not sample(("image", marked)).blank
    assert not sample(("rows", torch.arange(5.0).view(5, 1, 1).expand(5, 16, 16))).blank
    assert not sample(("rows", colour.view(3, 1).expand(3, 64))).blank
