"""Loaders of a drawn size, and a plain training loop that is slower than they are; for tests of DG601.

`main` iterates a loader without dataguard and prints "fits" when it got through.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

PATIENCE = 0.12
"""Seconds that the consumer takes for a batch while the queues fill up again."""


class Sized(Dataset):
    """Samples of so many values, bytes or of another type, as tensors or as arrays."""

    def __init__(self, count: int, size: int, kind: str, dtype: str) -> None:
        self.count, self.size, self.kind = count, size, kind
        self.dtype: torch.dtype = getattr(torch, dtype)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        number = range(self.count)[index]
        tensor = torch.full((self.size,), number % 101, dtype=self.dtype)
        return (tensor.numpy() if self.kind == "numpy" else tensor), number


def custom_stack(samples: list) -> Any:
    """Stack in ordinary memory."""
    return torch.stack([sample for sample, _ in samples]), torch.tensor([number for _, number in samples])


def as_list(samples: list) -> Any:
    return samples


COLLATES: dict[str, Callable[[list], Any] | None] = {
    "default": None,
    "custom": custom_stack,
    "list": as_list,
    "numpy": as_list,
}


def drawn() -> DataLoader:
    """The loader that the environment variable SHM_SETTINGS describes."""
    given = json.loads(os.environ["SHM_SETTINGS"])
    if given.get("sharing"):
        torch.multiprocessing.set_sharing_strategy(given["sharing"])
    return DataLoader(
        Sized(given["batches"] * given["batch_size"], given["size"], given["collate"], given.get("dtype", "uint8")),
        batch_size=given["batch_size"],
        num_workers=given["workers"],
        prefetch_factor=given["prefetch"],
        collate_fn=COLLATES[given["collate"]],
        pin_memory=given.get("pin_memory", False),
        multiprocessing_context=given.get("start_method"),
    )


def main(spelling: str) -> None:
    """Iterate as a training does whose steps take longer than loading: it holds one batch while the queues are full."""
    module, _, attribute = spelling.partition(":")
    loader = getattr(importlib.import_module(module), attribute)()
    flying = loader.num_workers * (loader.prefetch_factor or 0)
    _say("ready")
    for number, batch in enumerate(loader):  # `batch` stays bound until the next one has come, as in any training
        _say(type(batch).__name__)
        time.sleep(PATIENCE * (4 if number == 0 else 1))
        if number > flying + 4:
            break
    _say("fits")
    os._exit(0)


def _say(word: str) -> None:
    os.write(1, f"{word}\n".encode())
