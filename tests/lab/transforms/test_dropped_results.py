"""Lines whose results are dropped, and lines that work in place or have another effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dataguard.lab.transforms.dropped_results import find_dropped


def scaled(image: torch.Tensor) -> torch.Tensor:
    return image * 2


class Statements(Dataset[Any]):
    """Samples that no statement changes, and statements that change what they are given."""

    def __init__(self) -> None:
        self.image = torch.linspace(0, 1, 192).reshape(3, 8, 8)
        self.kept: dict[str, Any] = {}

    def __len__(self) -> int:
        return 4

    def remember(self, image: torch.Tensor) -> Any:
        self.kept["image"] = image.flip(2)
        return self.kept["image"]

    def __getitem__(self, index: int) -> Any:
        sample: dict[str, Any] = {"image": self.image + index, "table": np.arange(32.0)}
        image = sample["image"]
        image.flip(2)
        scaled(sample["image"])
        self.image.mul(2).clamp(0, 1)
        np.flip(sample["table"])
        torch.roll(image, 2)
        image[..., :4]
        image * 2
        # None of these is to be found: they return what they are given, or a small result, or have another effect.
        image.contiguous()
        image[0]
        image[:]
        sample["table"]
        image + image.abs_()
        image.clamp(-100, 100)
        image.abs_()
        image.isfinite()
        image.mean()
        np.multiply(sample["table"], 2, out=sample["table"])
        self.remember(image)
        self.kept.pop("image")
        try:
            torch.from_numpy(sample["table"]).reshape(4, 8)
        except ValueError:
            image.zero_()
        return sample


def test_results_that_nothing_uses(tmp_path: Path) -> None:
    found = find_dropped(lambda: DataLoader(Statements()), tmp_path, range(4))
    assert [one.text for one in found] == [
        "image.flip(2)",
        "scaled(sample['image'])",
        "self.image.mul(2).clamp(0, 1)",
        "np.flip(sample['table'])",
        "torch.roll(image, 2)",
        "image[..., :4]",
        "image * 2",
    ]
    assert found[0].shape == (3, 8, 8)
    assert found[0].shown == found[0].text
