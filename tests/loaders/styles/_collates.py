"""Collate functions that loaders of other modules import."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def pad_text(rows: list[Any]) -> dict[str, Tensor]:
    """Pads tokens, and stacks the labels."""
    tokens, labels = zip(*rows, strict=True)
    padded = pad_sequence(list(tokens), batch_first=True)  # culprit
    return {"tokens": padded, "labels": torch.tensor(labels)}  # culprit


def sorted_by_length(rows: list[Any]) -> dict[str, Tensor]:
    """The longest first, as packing wants it."""
    lengths = torch.tensor([len(row["values"]) for row in rows])
    lengths, order = lengths.sort(descending=True)
    values = pad_sequence([rows[number]["values"] for number in order], batch_first=True)
    labels = torch.tensor([row["label"] for row in rows])  # culprit
    return {"values": values, "lengths": lengths, "label": labels}


class Standardizing:
    """Standardizes by column."""

    def __call__(self, rows: list[Any]) -> tuple[Tensor, Tensor]:
        values = torch.stack([value for value, _ in rows])
        values = self.standardize(values)
        return values, torch.tensor([label for _, label in rows])

    def standardize(self, values: Tensor) -> Tensor:
        return (values - values.mean(0)) / (values.std(0) + 1e-6)  # culprit


class ReusedBuffer:
    """Stacks into memory that is made once."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.out: Tensor | None = None

    def __call__(self, rows: list[Any]) -> tuple[Tensor, Tensor]:
        values = [value for value, _ in rows]
        if self.out is None:
            self.out = torch.empty(self.size, *values[0].shape)  # culprit
        torch.stack(values, out=self.out)  # culprit
        return self.out, torch.tensor([label for _, label in rows])  # culprit
