"""DG406 double-precision-batch: float64 reaches the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from sample_datasets._parts import Pictures


class Table(Dataset[tuple[Tensor, int]]):
    """Rows of eight measurements, each around zero, with one of three classes."""

    def __init__(self) -> None:
        rows = np.arange(32 * 8).reshape(32, 8) * 0.618034 % 1
        self.rows = (rows - rows.mean(0)) / rows.std(0)  # culprit

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.from_numpy(self.rows[index]), index % 3  # culprit


def bad() -> DataLoader[Any]:
    """numpy computes in float64, and from_numpy keeps it."""
    return DataLoader(Table(), batch_size=8, shuffle=True, num_workers=2)


class BytePictures(Pictures):
    """Pictures in bytes, divided by 255 in numpy."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        pixels = (image * 255).byte().numpy()
        return {"image": pixels / 255.0, "label": label}  # culprit


def bad_pictures() -> DataLoader[Any]:
    """An integer divided by a float is float64, and default_collate keeps it."""
    return DataLoader(BytePictures(32), batch_size=8, num_workers=2)


class Prices(Pictures):
    """Pictures with a price."""

    def __getitem__(self, index: int) -> Any:
        image, _ = super().__getitem__(index)
        return image, 9.99 + range(32)[index]  # culprit


def bad_scores() -> DataLoader[Any]:
    """default_collate makes float64 of Python floats: the targets of a regression."""
    return DataLoader(Prices(32), batch_size=8, shuffle=True, num_workers=2)


class NamedPrices(Prices):
    """The same as a dict."""

    def __getitem__(self, index: int) -> Any:
        image, price = super().__getitem__(index)
        return {"image": image, "target": np.float64(price)}  # culprit


def bad_target() -> DataLoader[Any]:
    """numpy's own scalars are float64 as well."""
    return DataLoader(NamedPrices(32), batch_size=8, num_workers=2)


class SingleTable(Table):
    """The same rows in float32."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        row, label = super().__getitem__(index)
        return row.float(), label


def good() -> DataLoader[Any]:
    """Made float32 on the way."""
    return DataLoader(SingleTable(), batch_size=8, shuffle=True, num_workers=2)


class Frames(Pictures):
    """Pictures of a camera, with when and from where each was taken."""

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        camera = np.array([[500.0, 0.0, 4.0], [0.0, 500.0, 4.0], [0.0, 0.0, 1.0]])
        return {"image": image, "label": label, "time": 1.7e9 + 0.1 * index, "camera": camera}


def good_times() -> DataLoader[Any]:
    """Times need float64, and a matrix beside the picture does no harm."""
    return DataLoader(Frames(32), batch_size=8, num_workers=2)


class Scans(Pictures):
    """Pictures and their label masks, each with the matrix that places it in space."""

    def __getitem__(self, index: int) -> Any:
        image, _ = super().__getitem__(index)
        mask = (image[:1] > 0.5).float()
        return {"scan": {"data": image, "affine": np.eye(4)}, "label": {"data": mask, "affine": np.eye(4)}}


def good_affine() -> DataLoader[Any]:
    """What describes a target is none."""
    return DataLoader(Scans(32), batch_size=8, num_workers=2)


def good_default() -> DataLoader[Any]:
    """The whole project computes in float64."""
    torch.set_default_dtype(torch.float64)
    return DataLoader(Table(), batch_size=8, shuffle=True, num_workers=2)


def targets_as_float(samples: list[Any]) -> tuple[Tensor, Tensor]:
    return torch.stack([image for image, _ in samples]), torch.tensor([price for _, price in samples])


def good_collated() -> DataLoader[Any]:
    """`torch.tensor` makes float32 of Python floats."""
    return DataLoader(Prices(32), batch_size=8, num_workers=2, collate_fn=targets_as_float)


def good_half() -> DataLoader[Any]:
    """Half precision for inputs, whole numbers for classes."""
    images = torch.linspace(0, 1, 32 * 12).half().reshape(32, 12)
    return DataLoader(TensorDataset(images, torch.arange(32) % 4), batch_size=8, num_workers=2)
