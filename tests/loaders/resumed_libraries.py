"""Loaders of accelerate and `datasets`, which are resumed by what training iterates or by what these libraries save."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.utils.data import DataLoader

from sample_datasets._parts import Pictures


def _prepared(*, shuffle: bool = True, **configuration: Any) -> Any:
    """What training iterates in place of a loader: it reads one batch ahead."""
    from accelerate import Accelerator, DataLoaderConfiguration

    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**configuration))
    return accelerator.prepare(DataLoader(Pictures(40), batch_size=4, shuffle=shuffle))


def prepared() -> Any:
    """The order of an epoch follows from its number."""
    return _prepared(use_stateful_dataloader=True, use_seedable_sampler=True)


def prepared_unseeded() -> Any:
    """The order of the second epoch follows from a generator that no state holds (accelerate 1.15)."""
    return _prepared(use_stateful_dataloader=True)


def prepared_stateless() -> Any:
    """Training skips what it has had with `skip_first_batches`."""
    return _prepared(use_seedable_sampler=True)


def save(loader: Any, epoch: int, batches: int) -> int:
    """What a checkpoint holds of a loader without a state."""
    return batches


def skip(loader: Any, batches: int) -> Any:
    """The rest of the epoch."""
    from accelerate import skip_first_batches

    return skip_first_batches(loader, batches)


def _numbers(shards: Sequence[int]) -> Iterator[dict[str, int]]:
    return ({"number": 10 * shard + row} for shard in shards for row in range(10))


def _stream(**settings: Any) -> Any:
    from datasets import IterableDataset
    from torchdata.stateful_dataloader import StatefulDataLoader

    stream: Any = IterableDataset.from_generator(_numbers, gen_kwargs={"shards": [0, 1, 2, 3]}).with_format("torch")
    return StatefulDataLoader(stream.shuffle(seed=0, **settings) if settings else stream, batch_size=4, num_workers=2)


def streamed() -> Any:
    """A stream of `datasets`, whose workers save how far they have read."""
    return _stream()


def streamed_buffer() -> Any:
    """The same through a buffer, whose samples are lost, as the documentation of `datasets` says."""
    return _stream(buffer_size=8)


named: dict[str, Callable[[], Any]] = {
    made.__name__: made for made in (prepared, prepared_unseeded, prepared_stateless, streamed, streamed_buffer)
}
"""All of them, by name."""
