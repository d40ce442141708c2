"""Loaders of files in the order of their listing, which share them or divide them."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from sample_datasets.dg309_listing_order import CLASSES, ROOT, Files


def shared() -> dict[str, DataLoader[Any]]:
    """Both loaders read all files, so that only their order can change."""
    files = Files([str(path) for path in ROOT.glob("*/*")], list(CLASSES))
    return {"train": DataLoader(files, batch_size=4, shuffle=True), "val": DataLoader(files, batch_size=4)}


def divided() -> dict[str, DataLoader[Any]]:
    """The listing decides which files are left for validation."""
    files = [str(path) for path in ROOT.glob("*/*")]
    train, val = (Files(part, list(CLASSES)) for part in (files[:-4], files[-4:]))
    return {"train": DataLoader(train, batch_size=4, shuffle=True), "val": DataLoader(val, batch_size=4)}
