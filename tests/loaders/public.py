"""Loaders as users of public libraries write them: clean ones, and each with one defect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from sample_datasets._parts import PHOTOGRAPHS


def image_folder() -> DataLoader[Any]:
    """torchvision's ImageFolder over real photographs, with v1 transforms."""
    from torchvision import datasets, transforms

    transform = transforms.Compose(
        [transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    )
    return DataLoader(
        datasets.ImageFolder(str(PHOTOGRAPHS[0].parents[1]), transform), batch_size=4, shuffle=True, num_workers=2
    )


def image_folder_cloned() -> DataLoader[Any]:
    """The same with noise from a generator that the transform holds."""
    from torchvision import datasets, transforms

    transform = transforms.Compose([transforms.Resize((64, 64)), transforms.ToTensor(), HeldNoise()])
    folder = datasets.ImageFolder(str(PHOTOGRAPHS[0].parents[1]), transform)
    return DataLoader(folder, batch_size=4, shuffle=True, num_workers=2, persistent_workers=True)


class HeldNoise:
    """Adds noise from a generator of its own."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __call__(self, image: Tensor) -> Tensor:
        return image + torch.from_numpy(self.rng.standard_normal(image.shape, dtype=np.float32))


def fake_data() -> DataLoader[Any]:
    """torchvision's FakeData: random by index, and bounded."""
    from torchvision import datasets, transforms

    data = datasets.FakeData(size=64, image_size=(3, 16, 16), transform=transforms.ToTensor())
    return DataLoader(data, batch_size=8, shuffle=True, num_workers=2)


def numbers_stream() -> DataLoader[Any]:
    """A sharded IterableDataset."""
    return DataLoader(Numbers(), batch_size=8, num_workers=2)


class Numbers(IterableDataset[Tensor]):
    """Numbers dealt out among workers."""

    def __iter__(self) -> Iterator[Tensor]:
        info = get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        return (torch.tensor([float(number)]) for number in range(start, 96, step))


def hugging_face() -> DataLoader[Any]:
    """A Hugging Face Dataset in torch format, which fetches whole batches by `__getitems__`."""
    from datasets import Dataset

    rows = {"x": [[float(i), float(i + 1)] for i in range(64)], "label": [i % 4 for i in range(64)]}
    return DataLoader(Dataset.from_dict(rows).with_format("torch"), batch_size=8, shuffle=True, num_workers=2)


def hugging_face_cloned() -> DataLoader[Any]:
    """The same with a set_transform that holds a generator."""
    from datasets import Dataset

    data = Dataset.from_dict({"x": [[float(i), float(i + 1)] for i in range(64)]})
    data.set_transform(HeldShift())
    return DataLoader(data, batch_size=8, num_workers=2, persistent_workers=True)


class HeldShift:
    """Shifts every value by a number from a generator of its own."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        return {"x": [torch.tensor(values) + float(self.rng.random()) for values in rows["x"]]}


def hugging_face_stream() -> DataLoader[Any]:
    """A Hugging Face IterableDataset, which deals its shards out among workers by itself."""
    from datasets import Dataset

    rows = {"x": [[float(i), float(i + 1)] for i in range(64)]}
    stream = Dataset.from_dict(rows).to_iterable_dataset(num_shards=4).with_format("torch")
    return DataLoader(stream, batch_size=8, num_workers=2)


def stateful() -> DataLoader[Any]:
    """torchdata's StatefulDataLoader, which has a worker loop of its own."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    data = torch.utils.data.TensorDataset(torch.rand(64, 3), torch.arange(64))
    loader: DataLoader[Any] = StatefulDataLoader(data, batch_size=8, shuffle=True, num_workers=2)
    return loader


def stateful_stream() -> DataLoader[Any]:
    """The same over a stream."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    loader: DataLoader[Any] = StatefulDataLoader(Numbers(), batch_size=8, num_workers=2)
    return loader


def stateful_cloned() -> DataLoader[Any]:
    """The same over a dataset that holds a generator."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    from sample_datasets.dg101_cloned_worker_rng import AugmentedPictures

    dataset = AugmentedPictures(np.random.default_rng(0))
    loader: DataLoader[Any] = StatefulDataLoader(dataset, batch_size=4, num_workers=2, persistent_workers=True)
    return loader


cloned = {"image_folder": image_folder_cloned, "rows": hugging_face_cloned, "stateful": stateful_cloned}


class SharedState(Dataset[Tensor]):
    """Numbers from what sklearn's `check_random_state(None)` gives: numpy's global generator, until it is pickled."""

    def __init__(self) -> None:
        self.random_state = np.random.mtrand._rand

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor(self.random_state.normal(), dtype=torch.float32) + index


def shared_random_state() -> DataLoader[Any]:
    return DataLoader(SharedState(), batch_size=4, num_workers=2)
