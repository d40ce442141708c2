"""DG210 padded-evaluation: ranks are padded with repeated samples, so metrics count them twice."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, Subset

from sample_datasets._parts import Pictures

Sample = tuple[Tensor, int]


def _sampled(count: int, rank: int, world_size: int, **settings: Any) -> DataLoader[Any]:
    pictures = Pictures(count)
    sampler: DistributedSampler[Sample] = DistributedSampler(  # culprit
        pictures, num_replicas=world_size, rank=rank, **{"shuffle": False, **settings}
    )
    return DataLoader(pictures, batch_size=4, sampler=sampler, num_workers=2)


def bad(rank: int, world_size: int) -> dict[str, DataLoader[Any]]:
    """Seventeen pictures on two ranks make eighteen."""
    return {"val": _sampled(17, rank, world_size)}


def bad_test(rank: int, world_size: int) -> dict[str, DataLoader[Any]]:
    """The same for a test."""
    return {"test": _sampled(21, rank, world_size)}


def good(rank: int, world_size: int) -> dict[str, DataLoader[Any]]:
    """Eighteen pictures divide by two."""
    return {"val": _sampled(18, rank, world_size)}


def good_train(rank: int, world_size: int) -> dict[str, DataLoader[Any]]:
    """Training may repeat a picture."""
    return {"train": _sampled(19, rank, world_size, shuffle=True)}


def good_own(rank: int, world_size: int) -> dict[str, DataLoader[Any]]:
    """Each rank evaluates its own part, in as many batches."""
    return {"val": DataLoader(Subset(Pictures(15), range(rank, 15, world_size)), batch_size=4, num_workers=2)}


def good_one_process() -> dict[str, DataLoader[Any]]:
    """One process evaluates everything."""
    return {"val": DataLoader(Pictures(17), batch_size=4, num_workers=2)}
