"""DG211 dropped-evaluation: an evaluation loader drops its last batch, and with it some samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SubsetRandomSampler

from sample_datasets._parts import Pictures
from sample_datasets.dg204_lost_samples import OwnLoader, Table


def bad() -> dict[str, DataLoader[Any]]:
    """Twenty-seven pictures in batches of four: three are never evaluated."""
    return {"val": DataLoader(Pictures(27), batch_size=4, drop_last=True, num_workers=2)}


def bad_test() -> dict[str, DataLoader[Any]]:
    """The same for a test, in one process."""
    return {"test": DataLoader(Pictures(33), batch_size=16, drop_last=True)}


def bad_shuffled() -> dict[str, DataLoader[Any]]:
    """Three others are left out in each validation, so that its metric varies."""
    return {"val": DataLoader(Pictures(27), batch_size=4, drop_last=True, shuffle=True, num_workers=2)}


def bad_own_loader() -> dict[str, OwnLoader]:
    """A loader of its own class counts whole batches of 35: fifteen of 120 rows are never evaluated."""
    return {"val": OwnLoader(Table(), size=35, taken=35, batches=3)}


def good() -> dict[str, DataLoader[Any]]:
    """The last batch is smaller."""
    return {"val": DataLoader(Pictures(27), batch_size=4, num_workers=2)}


def good_divides() -> dict[str, DataLoader[Any]]:
    """Twenty-eight pictures make seven whole batches."""
    return {"val": DataLoader(Pictures(28), batch_size=4, drop_last=True, num_workers=2)}


def good_train() -> dict[str, DataLoader[Any]]:
    """Training drops other pictures in each epoch."""
    return {"train": DataLoader(Pictures(27), batch_size=4, drop_last=True, shuffle=True, num_workers=2)}


def good_drawn() -> dict[str, DataLoader[Any]]:
    """Sixteen of the pictures are drawn for a quick validation, which makes whole batches."""
    pictures = Pictures(27)
    sampler = RandomSampler(pictures, num_samples=16)
    return {"val": DataLoader(pictures, batch_size=4, sampler=sampler, drop_last=True, num_workers=2)}


def good_some() -> dict[str, DataLoader[Any]]:
    """A sampler that chooses some of the pictures evaluates all of those."""
    sampler = SubsetRandomSampler(range(20))
    return {"val": DataLoader(Pictures(27), batch_size=4, sampler=sampler, drop_last=True, num_workers=2)}


def good_ranks(rank: int = 0, world_size: int = 1) -> dict[str, DataLoader[Any]]:
    """Each rank has a share, and as many batches as the others."""
    pictures = Pictures(32)
    sampler: DistributedSampler[Any] = DistributedSampler(pictures, world_size, rank, shuffle=False)
    return {"val": DataLoader(pictures, batch_size=4, sampler=sampler, drop_last=True, num_workers=2)}


def good_own_loader() -> dict[str, OwnLoader]:
    """The last batch of a loader of its own class has fifteen rows."""
    return {"val": OwnLoader(Table(), size=35, taken=35)}


def good_own_few_batches() -> dict[str, OwnLoader]:
    """A quick validation reads two of three whole batches."""
    return {"val": OwnLoader(Table(), size=35, taken=35, batches=2)}


def good_own_training() -> dict[str, OwnLoader]:
    """Training drops other rows in each epoch."""
    return {"train": OwnLoader(Table(), size=35, taken=35, batches=3)}


class Steps:
    """Groups of batches, as a step of gradient accumulation takes them."""

    def __init__(self, size: int, *, whole: bool) -> None:
        self.loader = DataLoader(Pictures(28), batch_size=4, num_workers=2)
        self.size, self.whole = size, whole

    def __len__(self) -> int:
        return len(self.loader) // self.size if self.whole else -(-len(self.loader) // self.size)

    def __iter__(self) -> Iterator[list[Any]]:
        group: list[Any] = []
        for batch in self.loader:  # culprit
            group.append(batch)
            if len(group) == self.size:
                yield group
                group = []
        if group and not self.whole:
            yield group


def bad_groups() -> dict[str, Any]:
    """Two groups of three batches leave the seventh one out."""
    return {"val": Steps(3, whole=True)}


def good_groups() -> dict[str, Any]:
    """The last group is smaller."""
    return {"val": Steps(3, whole=False)}
