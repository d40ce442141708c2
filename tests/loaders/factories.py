"""A target that is a dict of factories, one of which fails."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from sample_datasets._parts import Pictures


def works() -> DataLoader[Any]:
    return DataLoader(Pictures(), batch_size=4, num_workers=2)


def raises() -> DataLoader[Any]:
    raise ValueError("no data here")


some = {"works": works, "raises": raises}


def pair() -> dict[str, DataLoader[Any]]:
    """Two loaders, so that one has to be chosen."""
    return {"train": works(), "val": works()}
