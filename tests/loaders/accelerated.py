"""Loaders of accelerate, which ask for their rank, or are shared out between ranks by `prepare`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from accelerate import Accelerator, DataLoaderConfiguration, PartialState
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Subset

from sample_datasets._parts import Pictures, picture


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


def dispatched_map() -> Any:
    """Pictures that rank 0 reads for all ranks."""
    configuration = DataLoaderConfiguration(dispatch_batches=True)
    return Accelerator(cpu=True, dataloader_config=configuration).prepare(DataLoader(Pictures(40), batch_size=4))


named: dict[str, Callable[[], Any]] = {
    made.__name__: made for made in (asked, asked_wrong, prepared, prepared_val, dispatched, dispatched_map)
}
"""All of them, by name."""
