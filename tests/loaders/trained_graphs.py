"""Models of graphs, and the batches of PyG that they take."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader as GraphLoader

from tests.loaders.trained import CLASSES, WIDTH, numbers


def graphs() -> DataLoader[Any]:
    edges = torch.tensor([[0, 1], [1, 0]])
    made = [Data(x=numbers(index).repeat(2, 1), edge_index=edges, y=torch.tensor(index % 3)) for index in range(12)]
    loader: DataLoader[Any] = GraphLoader(made, batch_size=4)
    return loader


class OfGraphs(nn.Module):
    """Takes the parts of a batch of graphs by name."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        pooled = torch.zeros(int(batch.max()) + 1, WIDTH).index_add(0, batch, x + x[edge_index[0]])
        made: Tensor = self.head(pooled)
        return made


class OfBatches(OfGraphs):
    """Takes a batch of graphs as it is."""

    def forward(self, data: Any) -> Tensor:  # type: ignore[override]
        return super().forward(data.x, data.edge_index, data.batch)
