"""A model of Lightning."""

from __future__ import annotations

from typing import Any

import lightning
from torch import Tensor, nn
from torch.nn import functional

from tests.loaders.trained import CLASSES, WIDTH


class Lit(lightning.LightningModule):
    """A LightningModule that logs."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, CLASSES)

    def training_step(self, batch: Any, number: int) -> Tensor:
        rows, labels = batch
        loss = functional.cross_entropy(self.head(rows), labels)
        self.log("loss", loss)
        return loss
