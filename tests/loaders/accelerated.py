"""Loaders of accelerate, which ask for their rank, or are shared out between ranks by `prepare`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch.distributed as dist
from accelerate import Accelerator, DataLoaderConfiguration, PartialState
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Subset

from sample_datasets._parts import Pictures, brighten, picture


def asked() -> DataLoader[Any]:
    """Every n-th picture, as the state of the process says."""
    state, pictures = PartialState(), Pictures(40)
    indices = range(state.process_index, len(pictures), state.num_processes)
    return DataLoader(Subset(pictures, list(indices)), batch_size=4, shuffle=True)


def asked_wrong() -> DataLoader[Any]:
    """Ranks divide half of the pictures."""
    accelerator, pictures = Accelerator(cpu=True), Pictures(40)
    ranks = accelerator.num_processes
    share = len(pictures) // (1 if ranks == 1 else 2 * ranks)
    first = accelerator.process_index * share
    return DataLoader(Subset(pictures, list(range(first, first + share))), batch_size=4, shuffle=True)


def prepared() -> Any:
    """A shuffled loader, whose order `prepare` makes the same on all ranks."""
    return Accelerator(cpu=True).prepare(DataLoader(Pictures(40), batch_size=4, shuffle=True))


def prepared_val() -> Any:
    """42 pictures in batches of 4: the last ones are repeated."""
    return Accelerator(cpu=True).prepare(DataLoader(Pictures(42), batch_size=4))


class Numbered(IterableDataset[Tensor]):
    """A stream that knows nothing of ranks."""

    def __iter__(self) -> Iterator[Tensor]:
        return map(picture, range(40))


def dispatched() -> Any:
    """A stream that rank 0 reads for all ranks."""
    return Accelerator(cpu=True).prepare(DataLoader(Numbered(), batch_size=4))


def _dispatched(loader: DataLoader[Any]) -> Any:
    configuration = DataLoaderConfiguration(dispatch_batches=True)
    return Accelerator(cpu=True, dataloader_config=configuration).prepare(loader)


def dispatched_augmented() -> Any:
    """Pictures that workers of rank 0 read for all ranks."""
    return _dispatched(DataLoader(Pictures(40, brighten), batch_size=4, shuffle=True, num_workers=2))


def dispatched_val() -> Any:
    """43 pictures that rank 0 reads: the last batch is made even with one of the first."""
    return _dispatched(DataLoader(Pictures(43), batch_size=4))


class SentToAll:
    """Rank 0 reads, and each rank gets whole batches."""

    def __init__(self) -> None:
        self.loader = DataLoader(Numbered(), batch_size=4)

    def __iter__(self) -> Iterator[Any]:
        is_reader = not dist.is_initialized() or dist.get_rank() == 0
        batches: Iterator[Any] = iter(self.loader) if is_reader else iter(())
        while True:
            sent: list[Any] = [next(batches, None)]
            if dist.is_initialized():
                dist.broadcast_object_list(sent, 0)
            if sent[0] is None:
                return
            yield sent[0]


def sent_to_all() -> Any:
    """Every rank trains on everything."""
    return SentToAll()


named: dict[str, Callable[[], Any]] = {
    made.__name__: made
    for made in (
        asked,
        asked_wrong,
        prepared,
        prepared_val,
        dispatched,
        dispatched_augmented,
        dispatched_val,
        sent_to_all,
    )
}
"""All of them, by name."""
