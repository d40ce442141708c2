"""Clean loaders of libraries that take seconds to import: once in a scan, as this module does it for its factories."""

from __future__ import annotations

from typing import Any

import monai.data
import numpy as np
import torch
from monai.transforms import Compose, EnsureTyped, RandFlipd, RandGaussianNoised, ScaleIntensityd
from timm.data.dataset_factory import create_dataset
from timm.data.loader import create_loader
from torch.utils.data import DataLoader
from torch_geometric.data import Data, Dataset
from torch_geometric.loader import DataLoader as GraphLoader
from torch_geometric.transforms import RandomJitter

from sample_datasets._parts import PHOTOGRAPHS


class Rings(Dataset):
    """Rings of three to seven nodes."""

    def len(self) -> int:
        return 40

    def get(self, index: int) -> Any:
        size = 3 + index % 5
        ring = torch.stack([torch.arange(size), torch.arange(1, size + 1) % size])
        return Data(x=torch.full((size, 4), float(index)), pos=torch.rand(size, 2), edge_index=ring, y=index % 2)


def graphs() -> DataLoader[Any]:
    """PyG's loader, whose batches are objects of its own, with a random transform."""
    loader: DataLoader[Any] = GraphLoader(Rings(transform=RandomJitter(0.1)), batch_size=8, shuffle=True, num_workers=2)
    return loader


def volumes() -> DataLoader[Any]:
    """MONAI's CacheDataset, which keeps what comes before the first random transform."""
    numbers = np.random.default_rng(0)
    items = [
        {
            "image": numbers.normal(size=(1, 16, 16)).astype(np.float32),
            "label": (numbers.random((1, 16, 16)) > 0.5).astype(np.float32),
        }
        for _ in range(32)
    ]
    transform = Compose(
        [
            EnsureTyped(["image", "label"]),
            ScaleIntensityd("image"),
            RandFlipd(["image", "label"], prob=0.5, spatial_axis=0),
            RandGaussianNoised("image", prob=1.0),
        ]
    )
    cached = monai.data.CacheDataset(items, transform, progress=False)
    loader: DataLoader[Any] = monai.data.DataLoader(cached, batch_size=4, shuffle=True, num_workers=2)
    return loader


def timm_folder() -> DataLoader[Any]:
    """timm's reader of folders, which logs a warning and goes on to the next image where one cannot be read."""
    data = create_dataset("", root=str(PHOTOGRAPHS[0].parents[1]))
    loader: DataLoader[Any] = create_loader(
        data, (3, 64, 64), batch_size=4, is_training=True, num_workers=2, use_prefetcher=False, color_jitter=0.4
    )
    return loader
