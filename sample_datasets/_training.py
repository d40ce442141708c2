"""Loaders with what trains on their batches: `--model sample_datasets._training:model --step ..._training:step`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

Step = Callable[[nn.Module, Any], Any]

CLASSES = 4


class Task(Dataset[Any]):
    """Samples in memory, the network that learns from them, and a step of its training."""

    def __init__(self, samples: Sequence[Any], net: Callable[[], nn.Module], step: Step) -> None:
        self.samples = samples
        self.net = net
        self.step = step

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return self.samples[index]


def task(samples: Sequence[Any], net: Callable[[], nn.Module], step: Step, size: int = 8) -> DataLoader[Any]:
    """The loader of a task."""
    return DataLoader(Task(samples, net, step), batch_size=size, shuffle=True)


def model(loader: DataLoader[Any]) -> nn.Module:
    """The network that the task of a loader is for."""
    dataset: Any = loader.dataset
    net: nn.Module = dataset.net()
    net.step = dataset.step
    return net


def step(model: Any, batch: Any) -> Any:
    """The step of its task."""
    return model.step(model, batch)


def pairs(loss: Callable[[Tensor, Tensor], Tensor]) -> Step:
    """The step for inputs and targets."""

    def step(net: nn.Module, batch: Any) -> Tensor:
        inputs, targets = batch
        return loss(net(inputs), targets)

    return step


classify = pairs(functional.cross_entropy)
"""The step of a classifier."""


def numbers(index: int, count: int = 6) -> Tensor:
    """Normally distributed numbers, others for each index."""
    return torch.randn(count, generator=torch.Generator().manual_seed(index))


def labelled(count: int = 32) -> list[Any]:
    """Rows of numbers with one of four labels."""
    return [(numbers(index), index % CLASSES) for index in range(count)]


def net(inputs: int = 6, outputs: int = CLASSES) -> nn.Module:
    """A network with one hidden layer."""
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs))
