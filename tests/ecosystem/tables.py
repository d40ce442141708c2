"""Libraries of graphs, tables and series."""

from __future__ import annotations

from contextlib import chdir
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from tests.ecosystem.data import made

Loaders = dict[str, Any]


def graphs() -> list[Any]:
    """Rings of three to seven nodes."""
    from torch_geometric.data import Data

    found = []
    for number in range(64):
        size = 3 + number % 5
        ring = torch.stack([torch.arange(size), torch.arange(1, size + 1) % size])
        x = torch.randn(size, 4, generator=torch.Generator().manual_seed(number))
        found.append(Data(x=x, edge_index=ring, y=torch.tensor([number % 3])))
    return found


def geometric_loaders() -> Loaders:
    """PyG's loader of graphs."""
    from torch_geometric.loader import DataLoader as GraphLoader

    return {
        "train": GraphLoader(graphs()[:48], batch_size=8, shuffle=True, num_workers=2),
        "val": GraphLoader(graphs()[48:], batch_size=8, num_workers=2),
    }


def frame(series: int = 8, length: int = 40) -> Any:
    """A table of several series."""
    import pandas

    rng = np.random.default_rng(0)
    rows = [
        {"time": step, "value": float(np.sin(step / 5 + number) + 0.1 * rng.normal()), "series": str(number)}
        for number in range(series)
        for step in range(length)
    ]
    return pandas.DataFrame(rows)


def forecasting_loaders() -> Loaders:
    """pytorch-forecasting's `TimeSeriesDataSet` and the loaders that it makes."""
    from pytorch_forecasting import TimeSeriesDataSet

    data = frame()
    train = TimeSeriesDataSet(
        data[data.time < 30],
        time_idx="time",
        target="value",
        group_ids=["series"],
        max_encoder_length=12,
        max_prediction_length=4,
        time_varying_unknown_reals=["value"],
        static_categoricals=["series"],
    )
    val = TimeSeriesDataSet.from_dataset(train, data, predict=True, stop_randomization=True)
    return {
        "train": train.to_dataloader(train=True, batch_size=8, num_workers=2),
        "val": val.to_dataloader(train=False, batch_size=8, num_workers=2),
    }


def darts_loaders() -> Loaders:
    """The loaders that a torch model of darts makes of series."""
    from darts import TimeSeries
    from darts.utils.data import SequentialTorchTrainingDataset

    series = [TimeSeries.from_values(rows["value"].to_numpy(np.float32)) for _, rows in frame().groupby("series")]
    dataset = SequentialTorchTrainingDataset(series, input_chunk_length=12, output_chunk_length=4)
    return {"train": DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2, collate_fn=list)}


def tabular_loaders() -> Loaders:
    """pytorch-tabular's `TabularDatamodule`, as its `TabularModel` prepares it."""
    import pandas
    from pytorch_tabular import TabularModel
    from pytorch_tabular.config import DataConfig, OptimizerConfig, TrainerConfig
    from pytorch_tabular.models import CategoryEmbeddingModelConfig

    rng = np.random.default_rng(0)
    table = pandas.DataFrame(
        {"age": rng.normal(40, 9, 120), "job": rng.choice(["a", "b", "c"], 120), "target": np.arange(120) % 2}
    )
    with chdir(made("tabular", lambda folder: None)):  # it counts its runs in the current folder
        model = TabularModel(
            data_config=DataConfig(target=["target"], continuous_cols=["age"], categorical_cols=["job"], num_workers=2),
            model_config=CategoryEmbeddingModelConfig(task="classification"),
            optimizer_config=OptimizerConfig(),
            trainer_config=TrainerConfig(batch_size=8, checkpoints=None, load_best=False),
            verbose=False,
        )
        module = model.prepare_dataloader(train=table[:96], validation=table[96:])
    return {"train": module.train_dataloader(), "val": module.val_dataloader()}


def neuralforecast_loaders() -> Loaders:
    """neuralforecast's loader of whole series."""
    from neuralforecast.tsdataset import TimeSeriesDataset, TimeSeriesLoader

    data = frame().rename(columns={"time": "ds", "value": "y", "series": "unique_id"})
    dataset, *_ = TimeSeriesDataset.from_df(data)
    return {"train": TimeSeriesLoader(dataset, batch_size=4, shuffle=True, num_workers=2)}
