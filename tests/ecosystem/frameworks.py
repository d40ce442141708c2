"""Frameworks that make loaders, or take them and give back others."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.ecosystem.streams import tensors

Loaders = dict[str, Any]


def lightning_module() -> Any:
    """A `LightningDataModule`, whose `setup` makes the datasets."""
    from lightning import LightningDataModule

    class Module(LightningDataModule):
        def setup(self, stage: str) -> None:
            self.train, self.val = tensors(96), tensors(32, 1)

        def train_dataloader(self) -> Any:
            return DataLoader(self.train, batch_size=8, shuffle=True, num_workers=2)

        def val_dataloader(self) -> Any:
            return DataLoader(self.val, batch_size=8, num_workers=2)

    return Module()


def combined() -> Loaders:
    """The loaders of a `CombinedLoader`."""
    from lightning.pytorch.utilities import CombinedLoader

    loaders = {name: DataLoader(tensors(count), batch_size=8, shuffle=True) for name, count in (("a", 64), ("b", 96))}
    return {"train": CombinedLoader(loaders, mode="max_size_cycle")}


def accelerate_loaders() -> Loaders:
    """Loaders prepared by `Accelerator`."""
    from accelerate import Accelerator

    train, val = tensors(96), tensors(30, 1)
    prepared = Accelerator(cpu=True).prepare(
        DataLoader(train, batch_size=8, shuffle=True, num_workers=2), DataLoader(val, batch_size=8, num_workers=2)
    )
    return dict(zip(("train", "val"), prepared, strict=True))


def ignite_loaders() -> Loaders:
    """Loaders from `ignite.distributed.auto_dataloader`."""
    import ignite.distributed as idist

    return {
        "train": idist.auto_dataloader(tensors(96), batch_size=8, shuffle=True, num_workers=2),
        "val": idist.auto_dataloader(tensors(32, 1), batch_size=8, num_workers=2),
    }


def skorch_loaders() -> Loaders:
    """The iterators that skorch's `NeuralNetClassifier` makes of arrays."""
    from skorch import NeuralNetClassifier

    net = NeuralNetClassifier(
        torch.nn.Linear, module__in_features=16, module__out_features=3, batch_size=8, iterator_train__shuffle=True
    )
    net.initialize()
    x, y = (tensor.numpy() for tensor in tensors().tensors)
    train, val = net.get_split_datasets(x, y)
    return {"train": net.get_iterator(train, training=True), "val": net.get_iterator(val, training=False)}


def metric_learning_loaders() -> Loaders:
    """`MPerClassSampler` of pytorch-metric-learning: as many samples of each class in every batch."""
    from pytorch_metric_learning.samplers import MPerClassSampler

    sampler = MPerClassSampler(torch.arange(96) % 3, m=4, length_before_new_iter=96)
    return {"train": DataLoader(tensors(), batch_size=12, sampler=sampler, num_workers=2)}


def torchsampler_loaders() -> Loaders:
    """`ImbalancedDatasetSampler`, which draws rare classes more often."""
    from torchsampler import ImbalancedDatasetSampler

    dataset = tensors()
    classes = torch.tensor([0] * 72 + [1] * 16 + [2] * 8)
    dataset.tensors = (dataset.tensors[0], classes)
    sampler = ImbalancedDatasetSampler(dataset, labels=classes.tolist())
    return {"train": DataLoader(dataset, batch_size=8, sampler=sampler, num_workers=2)}


def mmengine_loaders() -> Loaders:
    """Loaders that mmengine's `Runner` builds from a configuration."""
    from mmengine.runner import Runner

    def loader(shuffle: bool, kind: str, dataset: Any) -> Any:
        return Runner.build_dataloader(
            {
                "dataset": dataset,
                "sampler": {"type": kind, "shuffle": shuffle},
                "batch_size": 8,
                "num_workers": 2,
                "collate_fn": {"type": "default_collate"},
            },
            seed=0,
        )

    return {
        "train": loader(True, "DefaultSampler", tensors(96)),
        "train_infinite": loader(True, "InfiniteSampler", tensors(96)),
        "val": loader(False, "DefaultSampler", tensors(32, 1)),
    }


def fastai_loaders() -> Loaders:
    """fastai's `DataLoaders`, which have workers and batches of their own and are none of torch's: they are refused."""
    from fastai.data.core import DataLoaders

    loaders = DataLoaders.from_dsets(tensors(96), tensors(32, 1), bs=8, device="cpu", num_workers=0)
    return {"train": loaders.train, "val": loaders.valid}
