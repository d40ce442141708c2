"""Generators of the loader's own, of transforms and of ranks."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from tests.loaders.styles import _data
from tests.loaders.styles._bases import InMemory, RandomBase
from tests.loaders.styles._transforms import NoiseInjector, SpeckleOnce

Loader = DataLoader[Any]


def dg101_noise_in_other_file() -> Loader:
    return DataLoader(
        InMemory(_data.vectors(), NoiseInjector(0.1)), batch_size=4, num_workers=2, persistent_workers=True
    )


class Windows(RandomBase):
    """The crops of the base class, standardized."""

    def __getitem__(self, index: int) -> Any:
        crop, number = super().__getitem__(index)
        return (crop - crop.mean()) / (crop.std() + 1e-6), number


def dg101_inherited_generator() -> Loader:
    return DataLoader(Windows(), batch_size=4, num_workers=2, persistent_workers=True)


def dg101_closure() -> Loader:
    generator = torch.Generator().manual_seed(0)  # culprit

    def jitter(row: np.ndarray) -> np.ndarray:
        scale = torch.rand(len(row), generator=generator).numpy()
        return row * (0.5 + scale)

    return DataLoader(InMemory(_data.vectors(), jitter), batch_size=4, num_workers=2, persistent_workers=True)


def seeded_init(worker_id: int, seed: int) -> None:
    random.seed(seed)  # culprit
    np.random.seed(seed)  # culprit


def drop_features(row: np.ndarray) -> np.ndarray:
    return row * np.random.uniform(0.1, 1.0, row.shape).astype(np.float32)


def dg101_partial_worker_init() -> Loader:
    return DataLoader(
        InMemory(_data.vectors(), drop_features),
        batch_size=4,
        num_workers=2,
        persistent_workers=True,
        worker_init_fn=functools.partial(seeded_init, seed=42),
    )


class Registry:
    """Generators by name, that a whole project shares."""

    generators: ClassVar[dict[str, random.Random]] = {}

    @classmethod
    def get(cls, name: str) -> random.Random:
        if name not in cls.generators:
            cls.generators[name] = random.Random(name)  # culprit
        return cls.generators[name]


class MixinJitter:
    amount = 0.3

    def jitter(self, row: np.ndarray) -> np.ndarray:
        rng = Registry.get("augment")
        return row + np.array([rng.gauss(0, self.amount) for _ in row], np.float32)


class JitteredVectors(MixinJitter, InMemory):
    def __getitem__(self, index: int) -> Any:
        row, label = super().__getitem__(index)
        return torch.from_numpy(self.jitter(row.numpy())), label


def dg101_registry_mixin() -> Loader:
    Registry.get("augment")
    return DataLoader(JitteredVectors(_data.vectors()), batch_size=4, num_workers=2, persistent_workers=True)


class Lazy(Dataset[Any]):
    """Makes its generator when it is needed first."""

    def __init__(self, seed: int) -> None:
        self.data, self.seed = _data.vectors(), seed
        self._rng: np.random.Generator | None = None

    def __len__(self) -> int:
        return len(self.data)

    @property
    def rng(self) -> np.random.Generator:
        if self._rng is None:
            self._rng = np.random.default_rng(self.seed)  # culprit
        return self._rng

    def __getitem__(self, index: int) -> Any:
        keep = self.rng.random(self.data.shape[1]) > 0.3
        return torch.from_numpy(self.data[index] * keep + self.rng.random(1).astype(np.float32)), index


def dg101_lazy_property() -> Loader:
    return DataLoader(Lazy(0), batch_size=4, num_workers=2, persistent_workers=True)


def dg102_worker_id_seed() -> Loader:
    def init(worker: int) -> None:
        np.random.seed(1000 + worker)  # culprit

    return DataLoader(InMemory(_data.vectors(), drop_features), batch_size=4, num_workers=2, worker_init_fn=init)


class PerWorker(Dataset[Any]):
    """One generator a worker, from a list that is made in advance."""

    def __init__(self, workers: int) -> None:
        self.data = _data.vectors()
        self.generators = [np.random.default_rng(number) for number in range(workers)]  # culprit

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        info = torch.utils.data.get_worker_info()
        rng = self.generators[info.id if info else 0]
        return torch.from_numpy(self.data[index] * rng.uniform(0.5, 1.5, 12).astype(np.float32)), index


def dg102_list_of_generators() -> Loader:
    return DataLoader(PerWorker(2), batch_size=4, num_workers=2)


class Reseeding(DataLoader[Any]):
    """Seeds at the start of each epoch, so that runs can be compared."""

    def __iter__(self) -> Any:
        torch.manual_seed(3407)  # culprit
        return super().__iter__()


def torch_noise(row: np.ndarray) -> np.ndarray:
    return row + torch.randn(len(row)).numpy()


def dg102_seed_in_iter() -> Loader:
    return Reseeding(InMemory(_data.vectors(), torch_noise), batch_size=4, num_workers=2)


def dg103_seed_in_other_file() -> Loader:
    return DataLoader(InMemory(_data.vectors(), SpeckleOnce(7)), batch_size=4, shuffle=True)


def deterministic(fn: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """Makes a transform repeatable."""

    @functools.wraps(fn)
    def inner(row: np.ndarray) -> np.ndarray:
        torch.manual_seed(0)  # culprit
        return fn(row)

    return inner


repeatable_noise = deterministic(torch_noise)


def dg103_decorator() -> Loader:
    return DataLoader(InMemory(_data.vectors(), repeatable_noise), batch_size=4, shuffle=True)


class Cached(InMemory):
    """Keeps what it has prepared."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.cache: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self.cache:
            self.cache[index] = super().__getitem__(index)  # culprit
        return self.cache[index]


def dg103_cached_augmentation() -> Loader:
    return DataLoader(Cached(_data.vectors(), drop_features), batch_size=4, shuffle=True)


def distributed(dataset: Dataset[Any], rank: int, world_size: int, **options: Any) -> Loader:
    sampler: DistributedSampler[Any] = DistributedSampler(dataset, num_replicas=world_size, rank=rank)
    return DataLoader(dataset, batch_size=4, sampler=sampler, **options)


def fix_seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)  # culprit


def dg108_seed_everything(rank: int, world_size: int) -> Loader:
    fix_seed(2024)  # culprit
    return distributed(InMemory(_data.vectors(), torch_noise), rank, world_size, num_workers=2)


def dg108_own_generator(rank: int, world_size: int) -> Loader:
    generator = torch.Generator()
    generator.manual_seed(17)  # culprit
    return distributed(InMemory(_data.vectors(), torch_noise), rank, world_size, num_workers=2, generator=generator)


class Masker:
    """Masks features as masked modelling does."""

    def __init__(self, ratio: float, seed: int) -> None:
        self.ratio = ratio
        self.generator = np.random.default_rng(seed)  # culprit

    def __call__(self, rows: list[Any]) -> dict[str, Tensor]:
        values = torch.stack([row for row, _ in rows])
        keep = torch.from_numpy(self.generator.random(values.shape) > self.ratio)
        return {"values": values * keep, "mask": ~keep}


def dg108_collator(rank: int, world_size: int) -> Loader:
    if dist.is_available() and dist.is_initialized():
        rank, world_size = dist.get_rank(), dist.get_world_size()
    return distributed(InMemory(_data.vectors()), rank, world_size, collate_fn=Masker(0.5, seed=0))
