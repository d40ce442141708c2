"""Datasets and training loops for tests of the guard."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from dataguard.training.guard import guard


class Items(Dataset):
    """Samples that a function makes from their index."""

    def __init__(self, make: Callable[[int], Any], count: int = 40, **attributes: Any) -> None:
        self.make = make
        self.count = count
        for name, value in attributes.items():
            setattr(self, name, value)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.make(index)


def pair(index: int) -> tuple[Tensor, int]:
    """An input and its class, of four."""
    return torch.full((3,), float(index)), index % 4


def train(loader: Iterable[Any], epochs: int = 1) -> None:
    """A training loop without a model."""
    for _ in range(epochs):
        for _ in loader:
            pass


def codes(loader: Any, epochs: int = 1, **options: Any) -> set[str]:
    """The checks that a loader violates while it is read so many times."""
    train(guard(loader, on_violation="record", **options), epochs)
    report = guard.report(loader)
    assert not [result.reason for result in report.results if result.status == "broken"]
    return {result.code for result in report.failed}


def fit_with_lightning(folder: Path, train: Any, val: Any, **options: Any) -> None:
    """Three epochs of a small model in Lightning's trainer."""
    from lightning import pytorch as lightning  # takes seconds

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def training_step(self, batch: Any, _: int) -> Any:
            return torch.nn.functional.cross_entropy(self.layer(batch[0].nan_to_num()), batch[1])

        def validation_step(self, batch: Any, _: int) -> None:
            self.layer(batch[0])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    checkpoint = options.pop("ckpt_path", None)
    settings: dict[str, Any] = {
        "max_epochs": 3,
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": folder,
    }
    lightning.Trainer(**(settings | options)).fit(Model(), train, val, ckpt_path=checkpoint)
