from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .data import Flowers
from .models import make_model

loss = cross_entropy


def step(model: nn.Module, batch: Any) -> Tensor:
    return cross_entropy(model(batch[0]), batch[1])


def make_trainer() -> Any:
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments("output", report_to="none", use_cpu=True)
    return Trainer(make_model(), arguments, train_dataset=Flowers("train"), eval_dataset=Flowers("val"))


def train_step(batch: Any) -> None:
    cross_entropy(make_model()(batch[0]), batch[1]).backward()
