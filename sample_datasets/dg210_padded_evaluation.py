"""DG210 padded-evaluation: ranks or batches are padded with repeated samples, so metrics count them twice."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, Sampler, Subset

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


class Filled(Sampler[int]):
    """All samples in order, and some again so that the last batch is as large as the others."""

    def __init__(self, data: Sized, batch_size: int) -> None:
        self.data = data
        self.total = -(-len(data) // batch_size) * batch_size

    def __len__(self) -> int:
        return self.total

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self.data)))
        order += order[: self.total - len(order)]  # culprit
        return iter(order)


def bad_filled() -> dict[str, DataLoader[Any]]:
    """Seventeen pictures make five whole batches of four."""
    return {"val": DataLoader(Pictures(17), batch_size=4, sampler=Filled(Pictures(17), 4), num_workers=2)}


def good_filled() -> dict[str, DataLoader[Any]]:
    """Sixteen pictures make four whole batches."""
    return {"val": DataLoader(Pictures(16), batch_size=4, sampler=Filled(Pictures(16), 4), num_workers=2)}


def good_views() -> dict[str, DataLoader[Any]]:
    """Each picture is evaluated twice."""
    return {"val": DataLoader(Pictures(8), batch_size=4, sampler=[*range(8), *range(8)], num_workers=2)}
